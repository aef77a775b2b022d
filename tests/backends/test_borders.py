"""Borders around results of convolutions: their kernel writes inside, another one fills them, on any target."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, check, compiled, plan_of
from tests.passes.compare import program
from zenith.backends.steps import LaunchStep, walk
from zenith.ir.graph import Graph

SIGNATURE = "x: f32[n, 1, 2, h, w, 4], k: f32[1, 48, 12], r: f32[n, 1, 3, h - 1, w - 2, 4]"
CONVOLUTION = "y = conv_blocks(x, k, window=(2, 3), strides=(1, 1), dilation=(1, 1), block=4)\nz = add(y, r)"
BORDERS = {
    "around positions": ("0.0", (0, 0, 0, 1, 2, 0), (0, 0, 0, 1, 1, 0), "p"),
    "at ends, and read without": ("-inf", (0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 3, 0), "p, z"),
    "around examples and channels": ("2.0", (1, 0, 1, 0, 0, 1), (0, 0, 0, 2, 0, 2), "p"),
}
BACKENDS = ("cpu", "lanes", "scalar", "cuda on lanes")


def graph_of(name: str) -> Graph:
    value, low, high, results = BORDERS[name]
    border = (
        f"v = literal(value={value}, dtype=f32)\np = pad(z, v, low={low}, high={high}, interior=(0, 0, 0, 0, 0, 0))"
    )
    return program(SIGNATURE, f"{CONVOLUTION}\n{border}\nreturn ({results},)")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BORDERS)
def test_results_inside_borders(name: str, backend: str) -> None:
    graph = graph_of(name)
    executable, rng = compiled(graph, backend), np.random.default_rng(0)
    for n, h, w in ((2, 6, 5), (1, 2, 3), (0, 4, 4), (1, 1, 9)):
        shapes = (n, 1, 2, h, w, 4), (1, 48, 12), (n, 1, 3, h - 1, w - 2, 4)
        args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        check(call(executable, graph, args), graph, args)


@pytest.mark.parametrize("name", BORDERS)
def test_nothing_is_copied_into_a_border(name: str) -> None:
    kernels = [step.kernel for step in walk(plan_of(graph_of(name)).steps) if isinstance(step, LaunchStep)]
    assert [k.doc.split(";")[0] for k in kernels] == ["border", "offsets", "conv_blocks"]


WRITTEN_FOR = """
s = mul(z, z)
v = literal(value={value}, dtype=f32)
p = pad(s, v, low=(0, 0, 0, 1, 2, 0), high=(0, 0, 0, 1, 0, 0), interior=(0, 0, 0, 0, 0, 0))
y = conv_blocks(p, k, window=(2, 3), strides=(1, 1), dilation=(1, 1), block=4)
e = {reader}
return (y, e)"""
READERS = {
    "read without": "exp(s)",
    "nobody else": "exp(z)",
    "rows": "reduce_max(s, axes=(4, 5))",
    "columns": "reduce_sum(s, axes=(3, 4))",
}


def written_for(reader: str, value: str = "0.0") -> Graph:
    return program(
        "z: f32[n, 1, 2, h, w, 4], k: f32[1, 48, 12]", WRITTEN_FOR.format(reader=READERS[reader], value=value)
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reader", READERS)
def test_operands_of_a_convolution_are_written_inside_their_border(reader: str, backend: str) -> None:
    graph = written_for(reader, "0.5")
    executable, rng = compiled(graph, backend), np.random.default_rng(0)
    for n, h, w in ((2, 6, 5), (1, 1, 3), (0, 4, 4)):
        args = [rng.standard_normal(shape).astype(np.float32) for shape in ((n, 1, 2, h, w, 4), (1, 48, 12))]
        check(call(executable, graph, args), graph, args)


@pytest.mark.parametrize("reader", READERS)
def test_only_elementwise_kernels_write_inside_borders(reader: str) -> None:
    docs = [step.kernel.doc for step in walk(plan_of(written_for(reader)).steps) if isinstance(step, LaunchStep)]
    others = {"nobody else": ["exp"], "rows": ["reduce_max"], "columns": ["mul", "reduce_sum"], "read without": []}
    found = sorted(doc.split(";")[0] for doc in docs)
    assert found == sorted(["border", "mul", "offsets", "conv_blocks", *others[reader]])


ALONGSIDE = f"""
{CONVOLUTION.splitlines()[0]}
s = mul(r, r)
z = mul(y, s)
v = literal(value=0.5, dtype=f32)
p = pad(s, v, low=(0, 0, 0, 1, 2, 0), high=(0, 0, 0, 1, 0, 0), interior=(0, 0, 0, 0, 0, 0))
q = pad(z, v, low=(0, 0, 0, 1, 2, 0), high=(0, 0, 0, 1, 0, 0), interior=(0, 0, 0, 0, 0, 0))
a = conv_blocks(p, m, window=(2, 3), strides=(1, 1), dilation=(1, 1), block=4)
b = conv_blocks(q, m, window=(2, 3), strides=(1, 1), dilation=(1, 1), block=4)
return (a, b)"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_value_computed_alongside_a_convolution_is_written_inside_its_own_border(backend: str) -> None:
    """The convolution's kernel computes ``s`` for ``z``, and writes it at its own offset, not at that of ``z``."""
    graph = program(f"{SIGNATURE}, m: f32[1, 72, 4]", ALONGSIDE)
    launches = [step.kernel for step in walk(plan_of(graph).steps) if isinstance(step, LaunchStep)]
    written = [[b.name for b in k.buffers if b.name.startswith("out")] for k in launches]
    assert ["out0", "out1"] in written, "one kernel writes inside both borders"
    executable, rng = compiled(graph, backend), np.random.default_rng(0)
    for n, h, w in ((2, 6, 5), (1, 2, 3), (1, 3, 9)):
        shapes = (n, 1, 2, h, w, 4), (1, 48, 12), (n, 1, 3, h - 1, w - 2, 4), (1, 72, 4)
        args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        check(call(executable, graph, args), graph, args)
