"""Loops and branches in the IR: typing, the interpreter, text, the verifier, passes inside bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zenith.errors import DTypeError, ParseError, ShapeError, VerifyError
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.primitive import get
from zenith.ir.text import parse
from zenith.ir.types import ArrayType, bool_, float32, float64, int32
from zenith.ir.verify import verify
from zenith.passes.cse import cse
from zenith.passes.dce import dce
from zenith.passes.fold import fold
from zenith.passes.pipeline import PIPELINE, run

SCAN = """
def f(w: f32[k], c: f32[k], xs: f32[n, k]) -> (f32[k], f32[n, k]):
    def body0(w: f32[k], c: f32[k], x: f32[k]) -> (f32[k], f32[k]):
        v3 = mul(w, c)
        v4 = add(v3, x)
        v5 = add(v4, v4)
        return (v4, v5)
    v3_0, v3_1 = scan(w, c, xs, body=body0, length=n, captured=1, carried=1, reverse={reverse}, index='')
    return (v3_0, v3_1)
"""
WHILE = """
def f(top: f32, step: f32, x: f32) -> (f32):
    def body0(top: f32, x: f32) -> (bool):
        v2 = lt(x, top)
        return (v2,)
    def body1(step: f32, x: f32) -> (f32):
        v2 = add(x, step)
        return (v2,)
    v3 = while_loop(top, step, x, condition=body0, body=body1, condition_captured=1, body_captured=1, index='', most=0)
    return (v3,)
"""
SWITCH = """
def f(i: i32, x: f32[n]) -> (f32[n]):
    def body0(x: f32[n]) -> (f32[n]):
        v1 = neg(x)
        return (v1,)
    def body1(x: f32[n]) -> (f32[n]):
        return (x,)
    v2 = switch(i, x, branches=(body0, body1, body0))
    return (v2,)
"""
TEXTS = [SCAN.format(reverse=False), SCAN.format(reverse=True), WHILE, SWITCH]


def scan_by_hand(w: Any, c: Any, xs: Any, reverse: bool) -> tuple[Any, Any]:
    ys = np.empty_like(xs)
    for i in reversed(range(len(xs))) if reverse else range(len(xs)):
        c = w * c + xs[i]
        ys[i] = c + c
    return c, ys


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_scan_is_a_loop(length: int, reverse: bool) -> None:
    rng = np.random.default_rng(length)
    w, c, xs = (rng.standard_normal(s).astype(np.float32) for s in (3, 3, (length, 3)))
    last, ys = interpret(parse(SCAN.format(reverse=reverse)), w, c, xs)
    for found, expected in zip((last, ys), scan_by_hand(w, c, xs, reverse), strict=True):
        assert found.dtype == np.float32 and np.array_equal(found, expected)
    assert ys.shape == (length, 3)


@pytest.mark.parametrize(("start", "expected"), [(0.0, 3.0), (5.0, 5.0)])
def test_while_loop_runs_as_long_as_its_condition_holds(start: float, expected: float) -> None:
    (found,) = interpret(parse(WHILE), *np.float32([3, 1, start]))
    assert found == expected and found.dtype == np.float32


@pytest.mark.parametrize(("index", "sign"), [(-7, -1), (0, -1), (1, 1), (2, -1), (9, -1)])
def test_switch_clamps_its_index(index: int, sign: int) -> None:
    x = np.arange(3, dtype=np.float32)
    (found,) = interpret(parse(SWITCH), np.int32(index), x)
    assert np.array_equal(found, sign * x)


@pytest.mark.parametrize("text", TEXTS)
def test_bodies_print_and_parse(text: str) -> None:
    graph = verify(parse(text))
    assert str(graph) == text.strip()
    assert "lt" in graph.to_svg() or text is not WHILE


def test_a_record_evaluates_on_arrays_alone() -> None:
    node = next(n for _, n in parse(SCAN.format(reverse=False)).nodes() if n.primitive is get("scan"))
    w, c, xs = np.ones(2, np.float32), np.zeros(2, np.float32), np.ones((4, 2), np.float32)
    params = {**node.params, "length": 4}
    last, ys = node.primitive.evaluate([w, c, xs], params)
    assert np.array_equal(last, [4, 4]) and np.array_equal(ys[:, 0], [2, 4, 6, 8])


def edit(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (edit(TEXTS[0], "(f32[k], f32[k]):\n", "(f64[k], f32[k]):\n").replace("return (v4", "v6 = cast(v4, dtype=f64)\n"
            "        return (v6"), "the results of scan's body: one is f64[k], but must be f32[k]"),
        (edit(TEXTS[0], "captured=1", "captured=2"), "the inputs of scan's body"),
        (edit(TEXTS[0], "captured=1", "captured=4"), "4 of 3 operands"),
        (edit(TEXTS[0], "length=n", "length=n+1"), "scan of n + 1 steps needs arrays with n + 1 parts"),
        (edit(WHILE, "lt(x, top)", "add(x, top)"), "the results of while_loop's condition: one is f32"),
        (edit(SWITCH, "i: i32", "i: i64"), "switch takes an i32 index, not i64"),
        (edit(SWITCH, "return (x,)", "return (x, x)"), "the results of switch's branch 1 are 2, but must be 1"),
        (edit(SWITCH, "(body0, body1, body0)", "(body0, body7)"), "there is no subgraph body7"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(text: str, said: str) -> None:
    with pytest.raises(ParseError, match="line") as error:
        parse(text)
    assert said in str(error.value)


def test_a_switch_needs_a_branch_and_a_scan_arrays() -> None:
    graph = Graph()
    index, flag = graph.add_input(ArrayType(int32, ()), "i"), graph.add_input(ArrayType(bool_, ()), "b")
    with pytest.raises(ShapeError, match="needs a branch"):
        graph.add(get("switch"), (index,), {"branches": ()})
    with pytest.raises(DTypeError, match="i32 index"):
        graph.add(get("switch"), (flag,), {"branches": ()})
    params = {"body": Graph("body"), "length": symbol("n"), "captured": 0, "carried": 0, "reverse": False, "index": ""}
    with pytest.raises(ShapeError, match="n parts"):
        graph.add(get("scan"), (index,), params)


def test_the_verifier_looks_into_bodies() -> None:
    graph = parse(SWITCH)
    branch = next(n for _, n in graph.nodes() if n.primitive is get("switch")).params["branches"][2]
    x = branch.inputs[0]
    branch.set_outputs([x._replace(type=ArrayType(float64, x.shape))])
    with pytest.raises(VerifyError):
        verify(graph)


def test_passes_work_inside_bodies() -> None:
    text = """
def f(c: f32[n]) -> (f32[n]):
    def body0(c: f32[n]) -> (f32[n]):
        v1 = literal(value=1.0, dtype=f32)
        v2 = literal(value=2.0, dtype=f32)
        v3 = add(v1, v2)
        v4 = broadcast(v3, shape=(n,), axes=())
        v5 = broadcast(v3, shape=(n,), axes=())
        v6 = mul(c, v4)
        v7 = mul(c, v5)
        v8 = exp(v7)
        v9 = add(v6, v7)
        return (v9,)
    v1 = scan(c, body=body0, length=n, captured=0, carried=1, reverse=False, index='')
    return (v1,)
"""
    (body,) = next(n for _, n in cse(dce(fold(parse(text)))).nodes() if n.bodies).bodies
    assert [n.primitive.name for _, n in body.nodes()] == ["input", "literal", "broadcast", "mul", "add"]


def test_equal_loops_are_one() -> None:
    lines = TEXTS[0].strip().splitlines()
    twice = [*lines[:-1], lines[-2].replace("v3", "v4"), "    return (v3_0, v4_1)"]
    graph = cse(parse("\n".join(twice)))
    assert [n.primitive.name for _, n in graph.nodes()].count("scan") == 1


@pytest.mark.parametrize("text", TEXTS)
def test_no_pass_changes_a_result(text: str) -> None:
    graph = parse(text)
    rng = np.random.default_rng(0)
    values = [np.int32(1) if v.dtype == int32 else rng.standard_normal((4, 3)[2 - len(v.shape):]).astype(np.float32)
              for v in graph.inputs]  # fmt: skip
    assert all(v.dtype in (int32, float32) for v in graph.inputs)
    expected = interpret(graph, *values)
    optimized, _ = run(graph, PIPELINE, debug=True)
    assert any(n.primitive.name == "fused" for n in optimized.walk())
    for a, b in zip(interpret(optimized, *values), expected, strict=True):
        assert np.array_equal(a, b)
