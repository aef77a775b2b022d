"""The interpreter: sizes from arguments, guards, effects in order, and errors that name the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zenith.ir.ops  # noqa: F401  fills the registry
from zenith.errors import DTypeError, OutOfBoundsError, ShapeError, SourceLine, ZenithError
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.guards import Guard
from zenith.ir.interpret import bind_sizes, interpret
from zenith.ir.text import parse
from zenith.ir.types import TOKEN, ArrayType, float32, int64

N, M = symbol("n"), symbol("m")
PAIR = parse("def f(x: f32[n, m], y: f32[m + 1]) -> (i64):\n    v2 = size(value=m*n)\n    return (v2,)")


@pytest.mark.parametrize(("n", "m"), [(2, 3), (1, 1), (0, 5), (0, 0)])
def test_sizes_come_from_the_arguments(n: int, m: int) -> None:
    x, y = np.zeros((n, m), np.float32), np.zeros(m + 1, np.float32)
    assert bind_sizes(PAIR, [x, y], {}) == {"n": n, "m": m}
    assert interpret(PAIR, x, y)[0] == n * m


def test_sizes_may_be_given() -> None:
    graph = parse("def f(x: f32[2*n]) -> (i64):\n    v1 = size(value=n)\n    return (v1,)")
    assert interpret(graph, np.zeros(6, np.float32), sizes={"n": 3})[0] == 3
    with pytest.raises(ShapeError) as error:
        interpret(graph, np.zeros(6, np.float32))
    assert str(error.value) == ("f: no argument determines the size n\n  types: f32[2*n]\n  fix: give it in sizes=")


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ([np.zeros((2, 3), np.float32)], ShapeError, "f takes 2 arrays, not 1"),
        ([np.zeros((2, 3)), np.zeros(4, np.float32)], DTypeError,
         "f: an argument is float64, but must be f32\n  types: f32[n, m]"),
        ([np.zeros(3, np.float32), np.zeros(4, np.float32)], ShapeError,
         "f: an argument has 1 axes, but must have 2\n  types: f32[n, m]"),
        ([np.zeros((2, 3), np.float32), np.zeros(5, np.float32)], ShapeError,
         "f: a size is 5, but must be m + 1 = 4\n  types: f32[m + 1]"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(args: list[Any], error: type[ZenithError], message: str) -> None:
    with pytest.raises(error) as caught:
        interpret(PAIR, *args)
    assert str(caught.value) == message


def test_a_static_size_is_checked() -> None:
    graph = parse("def f(x: f32[3]) -> (f32[3]):\n    return (x,)")
    with pytest.raises(ShapeError, match=r"f: a size is 4, but must be 3\n"):
        interpret(graph, np.zeros(4, np.float32))


def test_guards_are_checked() -> None:
    graph = Graph("f")
    graph.set_outputs((graph.add_input(ArrayType(float32, (N,)), "x"),))
    graph.guards = (Guard("require", N, ">=", N * 0 + 2, "two rows are needed", SourceLine("m.py", 4, "f")),)
    assert interpret(graph, np.zeros(2, np.float32))[0].shape == (2,)
    with pytest.raises(ShapeError, match=r"two rows are needed\n  at m\.py:4 in f"):
        interpret(graph, np.zeros(1, np.float32))
    graph.guards = (Guard("assume", N, "!=", N * 0 + 1),)
    with pytest.raises(ShapeError, match=r"f: assume\(n != 1\) does not hold for {'n': 1}"):
        interpret(graph, np.zeros(1, np.float32))


def _index_graph(name: str) -> Graph:
    graph = Graph("f")
    x = graph.add_input(ArrayType(float32, (3,)), "x")
    i = graph.add_input(ArrayType(int64, (2,)), "i")
    b = Builder(graph, SourceLine("m.py", 9, "look_up"))
    calls = {"take": lambda: b.take(x, i, axis=0), "gather": lambda: b.gather(x, i),
             "scatter_add": lambda: b.scatter_add(x, b.take(x, i, axis=0), i)}  # fmt: skip
    graph.set_outputs((calls[name](),))
    return graph


@pytest.mark.parametrize("name", ["take", "gather"])
@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_outside_its_axis_names_the_line(name: str, index: int) -> None:
    with pytest.raises(OutOfBoundsError) as error:
        interpret(_index_graph(name), np.zeros(3, np.float32), np.int64([0, index]))
    assert str(error.value) == (
        f"{name}: an index is out of bounds for an axis of size 3\n  at m.py:9 in look_up\n  fix: check the indices"
    )
    assert isinstance(error.value, IndexError)


def test_scatter_adds_repeated_indices() -> None:
    (result,) = interpret(_index_graph("scatter_add"), np.float32([1, 2, 3]), np.int64([2, 2]))
    assert result.tolist() == [1, 2, 9]


def test_prints_come_in_program_order(capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph("f")
    x, token = graph.add_input(ArrayType(float32, (2,)), "x"), graph.add_input(TOKEN, "t")
    b = Builder(graph)
    token = b.debug_print(token, x, format="x is {}")
    graph.set_outputs((b.debug_print(token, x, x, format="{1} again"), x))
    results = interpret(graph, np.float32([1, 2]), None)
    assert capsys.readouterr().out == "x is [1. 2.]\n[1. 2.] again\n"
    assert results[0] is None and results[1].tolist() == [1, 2]


def test_a_missing_constant_says_how_to_give_it() -> None:
    graph = Graph("f")
    graph.set_outputs((graph.add_constant(np.float32([1])),))
    with pytest.raises(ZenithError, match=r"is not stored with the graph\n  fix: give parse\(text, constants=...\)"):
        interpret(parse(str(graph)))


def test_watch_sees_and_replaces_results() -> None:
    graph = parse(
        "def f(x: f32) -> (f32):\n"
        "    def body0(a: f32) -> (f32):\n        v1 = neg(a)\n        return (v1,)\n"
        "    v1 = fused(x, body=body0, anchor='')\n    v2 = add(v1, v1)\n    return (v2,)"
    )
    seen = []

    def watch(node: Any, args: Any, results: Any) -> Any:
        seen.append((node.primitive.name, [float(a) for a in args], [float(r) for r in results]))
        return tuple(r * 10 for r in results) if node.primitive.name == "neg" else results

    assert interpret(graph, np.float32(2), watch=watch)[0] == -40
    assert seen == [("neg", [2], [-2]), ("fused", [2], [-20]), ("add", [-20, -20], [-40])]


def test_results_are_arrays_even_without_axes() -> None:
    graph = parse("def f(x: f32[n]) -> (f32):\n    v1 = reduce_sum(x, axes=(0,))\n    return (v1,)")
    (result,) = interpret(graph, np.float32([1, 2]))
    assert isinstance(result, np.ndarray) and result.shape == () and result.dtype == np.float32


def test_what_leads_to_no_result_is_left_alone():
    lines = (
        "v1 = slice(x, start=(0,), stop=(1,), step=(1,))",
        "v2 = reshape(v1, shape=())",
        "v3 = neg(x)",
        "return (v3,)",
    )
    graph = parse("def f(x: f32[n]) -> (f32[n]):\n    " + "\n    ".join(lines))
    (result,) = interpret(graph, np.ones(0, np.float32))
    assert result.shape == (0,)
