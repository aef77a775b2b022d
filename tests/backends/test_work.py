"""Work: operations and bytes of kernels, by hand and against the sizes of buffers."""

import numpy as np
import pytest

import zenith
from tests.programs import random_program
from zenith.backends.cpu.target import cpu_target
from zenith.backends.planner import plan
from zenith.backends.steps import LaunchStep
from zenith.backends.work import operations_of
from zenith.ir.dims import symbol
from zenith.ir.primitive import get
from zenith.ir.text import parse
from zenith.passes.pipeline import run

N, M = symbol("n"), symbol("m")


def steps(program):
    """The launches of a program, and the bodies of its groups."""
    graph, _ = run(parse(program))
    bodies = [n.params["body"] for _, n in graph.nodes() if n.primitive.name == "fused"]
    return [s for s in plan(graph, cpu_target()).steps if isinstance(s, LaunchStep)], bodies


def one(program):
    (step,), _ = steps(program)
    return step.work


def test_elementwise_operations_count_as_their_records_say():
    work = one("def f(x: f32[n, m]) -> (f32[n, m]):\n    a = exp(x)\n    b = add(a, x)\n    return (b,)")
    assert work.operations == (get("exp").lowering.cost + 1) * N * M
    assert (work.read, work.written) == (4 * N * M, 4 * N * M)


def test_a_reduction_counts_its_operand_and_row_values_count_once():
    work = one("def f(x: f64[n, m]) -> (f64[n]):\n    a = reduce_sum(x, axes=(1,))\n    b = neg(a)\n    return (b,)")
    assert work.operations == N * M + N
    assert (work.read, work.written) == (8 * N * M, 8 * N)


def test_batched_products():
    launches, _ = steps(
        "def f(x: f32[b, n, k], y: f32[b, k, m]) -> (f32[b, n, m]):\n    z = matmul(x, y)\n    return (z,)"
    )
    *packs, product = (s.work for s in launches)
    assert all(p.operations == 0 for p in packs) and product.operations == 2 * symbol("b") * N * symbol("k") * M
    assert product.written == 4 * symbol("b") * N * M


def test_rows_taken_from_a_table_count_as_rows():
    work = one(
        "def f(t: f32[v, 8], i: i64[n]) -> (f32[n, 8]):\n    r = take(t, i, axis=0)\n    s = exp(r)\n    return (s,)"
    )
    assert work.read.substitute({"v": 30000, "n": 5}) == 5 * 8 * 4 + 5 * 8
    assert work.read.substitute({"v": 3, "n": 5}) == 3 * 8 * 4 + 5 * 8


def test_a_slice_counts_its_own_elements():
    work = one(
        "def f(x: f32[n, 12]) -> (f32[n, 4]):\n    a = slice(x, start=(0, 4), stop=(n, 8), step=(1, 1))\n"
        "    b = exp(a)\n    return (b,)"
    )
    assert work.read == 16 * N


LONG = """
def f(x: f32[n]) -> (f32[n]):
    top = reduce_max(x, axes=(0,))
    top2 = broadcast(top, shape=(n,), axes=())
    d = sub(x, top2)
    e = exp(d)
    s = reduce_sum(e, axes=(0,))
    s2 = broadcast(s, shape=(n,), axes=())
    r = div(e, s2)
    return (r,)
"""


def test_kernels_of_one_group_share_its_operations():
    launches, (body,) = steps(LONG)
    assert len(launches) > 2
    total = sum((s.work.operations for s in launches), symbol("n") * 0)
    assert total == operations_of(body, [n for n, _ in body.nodes()])


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_against_their_buffers(seed):
    """No kernel counts more bytes than its buffers have; kernels together count the operations of all bodies."""
    source, _ = random_program(seed)
    graph, _ = run(source)
    sizes = dict(zip(source.symbols(), range(3, 99), strict=False))
    program = plan(graph, cpu_target())
    for step in (s for s in program.steps if isinstance(s, LaunchStep)):
        available = {"in": 0, "out": 0}
        for buffer in step.kernel.buffers:
            available["in" if buffer.role == "in" else "out"] += buffer.size.evaluate(sizes) * buffer.dtype.itemsize
        assert 0 <= step.work.read.evaluate(sizes) <= available["in"]
        written = step.work.written.evaluate(sizes)
        changes = any(word in step.kernel.doc for word in ("scatter_", "update_slice"))
        assert 0 <= written <= available["out"] and (written == available["out"] or changes)
    bodies = [
        n.params["body"] for _, n in graph.nodes()
        if n.primitive.name == "fused" and any(t.size != 0 for t in n.types)
    ]  # fmt: skip
    expected = sum(operations_of(b, [n for n, _ in b.nodes()]).evaluate(sizes) for b in bodies)
    launches = [*program.steps, *(p.launch for p in program.prepared)]
    assert sum(s.work.operations.evaluate(sizes) for s in launches if isinstance(s, LaunchStep)) == expected


def test_a_call_moves_as_many_bytes_as_the_analysis_says():
    """The bytes of a program of one kernel are those of the arrays that go in and out."""
    lowered = zenith.jit(lambda x, y: np.sqrt(x * x + y * y)).lower(np.ones((5, 7)), np.ones((5, 7)))
    cost = lowered.cost_analysis().at(lowered.sizes)
    assert cost.bytes_read == 2 * 5 * 7 * 8 and cost.bytes_written == 5 * 7 * 8
