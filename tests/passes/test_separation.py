"""Why operations were not fused: one program for each rule, and a reason for everything in random programs."""

import pytest

from tests.programs import random_program
from zenith.ir.graph import Graph
from zenith.ir.primitive import get
from zenith.ir.text import parse
from zenith.ir.types import ArrayType, float32
from zenith.passes import separation
from zenith.passes.fuse import fuse
from zenith.passes.grouping import MAX_MEMBERS
from zenith.passes.pipeline import PIPELINE, run
from zenith.passes.separation import separations


def reasons(program):
    return [(s.first, s.then, s.reason) for s in separations(parse(program.strip()))]


def lines(arguments, result, *body):
    return f"def f({arguments}) -> ({result}):\n    " + "\n    ".join([*body, f"return ({body[-1].split()[0]},)"])


MATRIX = "x: f32[n, m]", "f32[n, m]"
CASES = {
    "a product's operand": (
        lines("x: f32[n, k], w: f32[k, m]", "f32[n, m]", "a = exp(x)", "p = matmul(a, w)"),
        ("exp", "matmul", separation.WHOLE[separation.Tile]),
    ),
    "a view": (
        lines("x: f32[n, 4]", "f32[n*4]", "a = exp(x)", "b = reshape(a, shape=(n*4,))", "c = exp(b)"),
        ("exp", "reshape", separation.WHOLE[separation.View]),
    ),
    "another position": (
        lines("x: f32[n, n]", "f32[n, n]", "a = exp(x)", "t = transpose(a, axes=(1, 0))", "r = sub(t, x)"),
        ("exp", "sub", separation.ELSEWHERE),
    ),
    "both positions": (
        lines("x: f32[n, n]", "f32[n, n]", "a = exp(x)", "t = transpose(a, axes=(1, 0))", "b = sin(x)",
              "c = add(a, b)", "r = sub(t, c)"),
        ("exp", "sub", separation.ELSEWHERE),
    ),
    "another shape": (
        lines("x: f32[m]", "f32[n, m]", "a = exp(x)", "b = broadcast(a, shape=(n, m), axes=(1,))", "c = sin(b)"),
        ("exp", "sin", separation.ELSEWHERE),
    ),
    "after columns": (
        lines("x: f32[n, m]", "f32[m]", "a = reduce_sum(x, axes=(0,))", "b = exp(a)"),
        ("reduce_sum", "exp", "nothing is computed after what is done in a kernel of kind columns"),
    ),
    "a column reduction of what is needed": (
        lines(*MATRIX, "a = exp(x)", "s = reduce_sum(a, axes=(0,))", "b = broadcast(s, shape=(n, m), axes=(1,))",
              "c = mul(a, b)"),
        ("exp", "reduce_sum", separation.NEEDED_TOO),
    ),
    "a prefix in another direction": (
        lines(*MATRIX, "a = cumsum(x, axis=1, reverse=False)", "b = cumsum(a, axis=1, reverse=True)"),
        ("cumsum", "cumsum", separation.OTHER_WALK),
    ),
    "a prefix along another axis": (
        lines(*MATRIX, "a = cumsum(x, axis=0, reverse=False)", "b = cumsum(a, axis=1, reverse=False)"),
        ("cumsum", "cumsum", separation.OTHER_WALK),
    ),
    "a circle": (
        lines(*MATRIX, "a = exp(x)", "s = reduce_sum(a, axes=(0,))", "b = broadcast(s, shape=(n, m), axes=(1,))",
              "c = mul(a, b)"),
        ("exp", "mul", separation.CYCLE),
    ),
    "other axes": (
        lines("x: f32[n, m, k]", "f32[n, m, k]", "a = reduce_max(x, axes=(2,))",
              "b = broadcast(a, shape=(n, m, k), axes=(0, 1))", "c = sub(x, b)", "s = reduce_sum(c, axes=(1, 2))",
              "t = broadcast(s, shape=(n, m, k), axes=(0,))", "r = div(c, t)"),
        ("sub", "reduce_sum", separation.OTHER_AXES),
    ),
    "rows of a product": (
        lines("x: f32[n, k], w: f32[k, m]", "f32[n]", "p = matmul(x, w)", "s = reduce_sum(p, axes=(1,))"),
        ("matmul", "reduce_sum", separation.NOT_WHOLE),
    ),
    "two products": (
        lines("x: f32[n, k], w: f32[k, m]", "f32[n, m]", "p = matmul(x, w)", "q = matmul(x, w)", "r = add(p, q)"),
        ("matmul", "add", "its kernel is of kind product, and none is of kind product as well"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_rule(case):
    program, expected = CASES[case]
    assert expected in reasons(program)


def test_what_is_fused_has_no_reason():
    program = lines(*MATRIX, "s = reduce_sum(x, axes=(1,))", "b = broadcast(s, shape=(n, m), axes=(0,))",
                    "c = div(x, b)", "d = exp(c)")  # fmt: skip
    assert reasons(program) == []


def test_long_chains_are_cut_because_they_are_long():
    graph = Graph("chain")
    value = graph.add_input(ArrayType(float32, (8,)), "x")
    for _ in range(MAX_MEMBERS + 3):
        (value,) = graph.add(get("tanh"), (value,))
    graph.set_outputs([value])
    assert [s.reason for s in separations(graph)] == [separation.FULL]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_a_reason_for_each_value_between_kernels(seed):
    """Every value between two fused groups is among them, and the last rule names kinds that do not unite."""
    graph, _ = random_program(seed)
    unfused, _ = run(graph, PIPELINE[: PIPELINE.index(fuse)])
    fused, found = fuse(unfused), separations(unfused)
    groups = {number for number, node in fused.nodes() if node.primitive is get("fused")}
    between = any(a.node in groups for number in groups for a in fused.args(number))
    assert bool(found) >= between
    for s in found:
        if s.reason.startswith("its kernel is of kind"):
            assert {"rows", "product", "prefix"} & set(s.reason.replace(",", "").split())
