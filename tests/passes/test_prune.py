"""Loops and branches lose what nobody needs, and compute the rest as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zenith
from tests.passes.compare import assert_same_results
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.text import parse
from zenith.ir.verify import verify
from zenith.passes.dce import dce
from zenith.passes.prune import prune

SCAN = """
def f(u: f32[k], w: f32[k], a: f32[k], b: f32[k], c: f32[k], d: f32[k], xs: f32[n, k], zs: f32[n]) -> (f32[k]):
    def body0(u: f32[k], w: f32[k], a: f32[k], b: f32[k], c: f32[k], d: f32[k], x: f32[k], z: f32) -> (f32[k], f32[k], f32[k], f32[k], f32[k], f32[k], f32):
        v8 = mul(a, w)
        v9 = add(v8, b)
        v10 = add(c, u)
        v11 = add(d, a)
        v12 = exp(x)
        v13 = neg(z)
        return (v9, b, v10, v11, v12, d, v13)
    v8_0, v8_1, v8_2, v8_3, v8_4, v8_5, v8_6 = scan(u, w, a, b, c, d, xs, zs, body=body0, length=n, captured=2, carried=4, reverse=False, index='')
    return ({returned},)
"""  # noqa: E501
SIZES = {"k": 3, "n": 4}


def operands(graph: Graph, name: str) -> list[str]:
    """The names of the inputs that the only node of a primitive takes."""
    (number,) = (number for number, node in graph.nodes() if node.primitive.name == name)
    return [str(graph.node(a.node).params["name"]) for a in graph.args(number)]


@pytest.mark.parametrize(
    ("returned", "taken", "results"),
    [
        ("v8_0", ["w", "b", "a"], 1),  # b stays as it is: captured
        ("v8_2", ["u", "c"], 1),
        ("v8_3", ["w", "b", "a", "d"], 2),  # d follows from a
        ("v8_4", ["xs"], 1),  # no carried value at all
        ("v8_4, v8_1", ["xs"], 1),  # b itself is returned
        ("v8_5", ["w", "b", "a", "d"], 3),
        ("v8_6, v8_2", ["u", "c", "zs"], 2),
    ],
)
def test_a_scan_keeps_what_is_needed(returned: str, taken: list[str], results: int) -> None:
    before = parse(SCAN.format(returned=returned))
    text = str(before)
    after = verify(dce(prune(before)))
    assert str(before) == text and operands(after, "scan") == taken
    assert next(len(n.types) for _, n in after.nodes() if n.primitive.name == "scan") == results
    assert str(dce(prune(after))) == str(after)
    for n in (0, 1, 4):
        assert_same_results(before, after, {**SIZES, "n": n})


def test_a_scan_that_changes_nothing_is_removed() -> None:
    after = dce(prune(parse(SCAN.format(returned="v8_1"))))
    assert [n.primitive.name for _, n in after.nodes()] == ["input"] * 8
    assert [after.node(v.node).params["name"] for v in after.outputs] == ["b"]


WHILE = """
def f(limit: f32, step: f32, x: f32, y: f32, still: f32, i: f32) -> (f32):
    def body0(limit: f32, x: f32, y: f32, still: f32, i: f32) -> (bool):
        v5 = add(limit, still)
        v6 = lt(i, v5)
        return (v6,)
    def body1(step: f32, x: f32, y: f32, still: f32, i: f32) -> (f32, f32, f32, f32):
        v5 = mul(x, still)
        v6 = add(y, x)
        v7 = add(i, step)
        return (v5, v6, still, v7)
    v6_0, v6_1, v6_2, v6_3 = while_loop(limit, step, x, y, still, i, condition=body0, body=body1, condition_captured=1, body_captured=1, index='', most=0)
    return ({returned},)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("returned", "taken"),
    [
        ("v6_0", ["limit", "still", "step", "still", "x", "i"]),
        ("v6_1", ["limit", "still", "step", "still", "x", "y", "i"]),
        ("v6_3", ["limit", "still", "step", "i"]),
        ("v6_3, v6_2", ["limit", "still", "step", "i"]),
    ],
)
def test_a_while_loop_keeps_what_is_needed_and_what_its_condition_reads(returned: str, taken: list[str]) -> None:
    before = parse(WHILE.format(returned=returned))
    text = edit_condition(str(before))
    before = parse(text)
    after = verify(dce(prune(before)))
    assert operands(after, "while_loop") == taken
    assert_same_results(before, after, {})


def edit_condition(text: str) -> str:
    """Steps that end for whatever arguments: the index grows by more than nothing, the limit is near."""
    text = text.replace("v7 = add(i, step)", "v7 = abs(step)\n        v8 = add(v7, i)\n        v9 = literal(value=0.5, "
                        "dtype=f32)\n        v10 = add(v8, v9)")  # fmt: skip
    return text.replace("(v5, v6, still, v7)", "(v5, v6, still, v10)")


def test_a_while_loop_that_changes_nothing_is_removed() -> None:
    after = dce(prune(parse(WHILE.format(returned="v6_2"))))
    assert {n.primitive.name for _, n in after.nodes()} == {"input"}


def test_branches_lose_results_and_operands() -> None:
    before = parse("""
def f(i: i32, a: f32[k], b: f32[k], c: f32[k]) -> (f32[k]):
    def body0(a: f32[k], b: f32[k], c: f32[k]) -> (f32[k], f32[k]):
        v3 = exp(c)
        return (a, v3)
    def body1(a: f32[k], b: f32[k], c: f32[k]) -> (f32[k], f32[k]):
        v3 = neg(b)
        return (v3, c)
    v4_0, v4_1 = switch(i, a, b, c, branches=(body0, body1))
    return (v4_0,)
""")
    after = verify(dce(prune(before)))
    assert operands(after, "switch") == ["i", "a", "b"]
    assert_same_results(before, after, SIZES)


def test_what_is_all_needed_stays() -> None:
    returned = "v8_0, v8_1, v8_2, v8_3, v8_4, v8_5, v8_6"
    full = SCAN.format(returned=returned).replace("return (v9, b, ", "return (v9, v8, ")
    assert str(prune(parse(full))) == str(parse(full))


def test_loops_in_loops_lose_it_too() -> None:
    before = parse("""
def f(a: f32[k], b: f32[k], xs: f32[n, m, k]) -> (f32[k]):
    def body0(a: f32[k], b: f32[k], x: f32[m, k]) -> (f32[k], f32[k]):
        def body0(a: f32[k], b: f32[k], x: f32[k]) -> (f32[k], f32[k], f32[k]):
            v3 = add(a, x)
            v4 = mul(b, a)
            return (v3, v4, v4)
        v3_0, v3_1, v3_2 = scan(a, b, x, body=body0, length=m, captured=0, carried=2, reverse=True, index='')
        v4 = add(b, v3_0)
        return (v3_0, v4)
    v3_0, v3_1 = scan(a, b, xs, body=body0, length=n, captured=0, carried=2, reverse=False, index='')
    return (v3_0,)
""")
    after = verify(dce(prune(before)))
    assert operands(after, "scan") == ["a", "xs"]
    assert not any(n.primitive.name == "mul" for n in after.walk())
    assert_same_results(before, after, {"k": 2, "n": 3, "m": 4})


def test_sized_bodies_lose_it_too() -> None:
    before = parse("""
def f(m: bool[n], x: f32[n], y: f32[n]) -> (f32[k0]):
    def body0(x: f32[n], y: f32[n]) -> (f32[k0], f32[k0]):
        v2 = slice(x, start=(0,), stop=(k0,), step=(1,))
        v3 = slice(y, start=(0,), stop=(k0,), step=(1,))
        v4 = exp(v3)
        return (v2, v4)
    v3 = cast(m, dtype=i64)
    v4 = reduce_sum(v3, axes=(0,))
    v5_0, v5_1 = sized(v4, x, y, body=body0, index='k0', most=n)
    return (v5_0,)
""")
    after = verify(dce(prune(before)))
    assert [after.args(n)[1:] for n, node in after.nodes() if node.primitive.name == "sized"] == [(after.inputs[1],)]
    assert not any(n.primitive.name == "exp" for n in after.walk())
    given = np.array([True, False, True]), np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    for graph in (before, after):
        np.testing.assert_array_equal(interpret(graph, *given)[0], [0, 1])


@pytest.mark.parametrize(
    ("function", "alone"),
    [
        (lambda a: np.linalg.svd(a, compute_uv=False), "svdvals("),
        (lambda a: np.linalg.norm(a, 2), "svdvals("),
        (lambda a: np.linalg.eigvalsh(a @ a.T), "eigvalsh("),
        (lambda a: np.linalg.eigh(a @ a.T)[0] * 2, "eigvalsh("),
    ],
)
def test_values_whose_vectors_nobody_reads_are_computed_alone(function: Any, alone: str, rng: Any) -> None:
    a, compiled = rng.standard_normal((6, 4)), zenith.jit(function)
    np.testing.assert_allclose(compiled(a), function(a), rtol=1e-10, atol=1e-12)
    assert alone in str(compiled.show("optimized"))
    slope = zenith.jit(zenith.grad(lambda a: (function(a) ** 2).sum()))
    numeric = [(np.sum(function(a + h) ** 2) - np.sum(function(a - h) ** 2)) / 2e-6
               for h in 1e-6 * np.eye(24).reshape(24, 6, 4)]  # fmt: skip
    np.testing.assert_allclose(slope(a).ravel(), numeric, rtol=1e-4, atol=1e-4)
