"""Reductions of several rows in one loop, where these share an operand."""

import numpy as np
import pytest

from tests.backends.running import call, compiled
from zenith.backends.lower.reduce.rows import JAMMED
from zenith.ir.text import parse

PRODUCT = """\
def f(x: f32[n, m], v: f32[m], w: f32[n]) -> (f32[n]):
    r = broadcast(v, shape=(n, m), axes=(1,))
    p = mul(x, r)
    s = {reduce}(p, axes=(1,))
    t = add(s, w)
    return (t,)"""
SUM = "def f(x: f32[n, m]) -> (f32[n]):\n    s = reduce_sum(x, axes=(1,))\n    return (s,)"


def accumulators(text):
    (kernel,) = compiled(parse(text), "cpu").kernels.values()
    return kernel.text.count("acc") - kernel.text.count("acc = ")


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
@pytest.mark.parametrize("reduce", ["reduce_sum", "reduce_max"])
def test_rows_without_a_full_task_are_those_of_numpy(backend, reduce, rng):
    graph = parse(PRODUCT.format(reduce=reduce))
    code = compiled(graph, backend)
    for rows in (0, 1, JAMMED - 1, JAMMED, JAMMED + 1, 5 * JAMMED + 2):
        for length in (1, 7, 130):
            x, v, w = (rng.normal(size=s).astype(np.float32) for s in ((rows, length), (length,), (rows,)))
            wanted = {"reduce_sum": np.sum, "reduce_max": np.max}[reduce](x * v, axis=1) + w
            np.testing.assert_allclose(call(code, graph, [x, v, w])[0], wanted, 1e-4, 1e-4)


def test_a_row_has_the_same_bits_wherever_it_stands(rng):
    graph = parse(PRODUCT.format(reduce="reduce_sum"))
    code = compiled(graph, "cpu")
    row, v = (rng.normal(size=1003).astype(np.float32) for _ in range(2))
    found = [call(code, graph, [np.tile(row, (n, 1)), v, np.zeros(n, np.float32)])[0] for n in range(1, 3 * JAMMED)]
    assert len({value for results in found for value in results.tolist()}) == 1


def test_only_rows_that_share_an_operand_are_jammed():
    jammed = PRODUCT.format(reduce="reduce_sum")
    count = {name: accumulators(text) for name, text in {"shared": jammed, "own": SUM}.items()}
    few = accumulators(jammed.replace("[n, m]", "[3, m]").replace("(n, m)", "(3, m)").replace("[n]", "[3]"))
    assert count["shared"] > count["own"] == few
