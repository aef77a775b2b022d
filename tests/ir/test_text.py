"""Every graph prints as a program that parses back to the same graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ir.cases import same
from tests.programs import random_program
from zenith.errors import ParseError, SourceLine, ZenithError
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.guards import Guard
from zenith.ir.interpret import interpret
from zenith.ir.text import parse, print_graph
from zenith.ir.types import TOKEN, ArrayType, float32, float64

N = symbol("n")


def records(graph: Graph) -> list[tuple[Any, ...]]:
    """Each node as (name, parameters, types, arguments), numbered in order."""
    position = {number: i for i, (number, _) in enumerate(graph.nodes())}
    return [
        (n.primitive.name, n.params_text, n.types, [(position[a.node], a.output) for a in graph.args(number)])
        for number, n in graph.nodes()
    ]


@given(st.integers(0, 10**6), st.booleans())
def test_random_programs_round_trip(seed: int, symbolic: bool) -> None:
    graph, args = random_program(seed, symbolic=symbolic)
    parsed = parse(str(graph), graph.constants)
    assert parsed == graph and str(parsed) == str(graph)
    assert sorted(map(str, records(parsed))) == sorted(map(str, records(parse(str(parsed), graph.constants))))
    if [v.node for v in graph.inputs] == list(range(len(graph.inputs))):
        assert records(parsed) == records(graph)
    for a, b in zip(interpret(parsed, *args), interpret(graph, *args), strict=True):
        assert same(a, b)


def test_every_form_of_the_text() -> None:
    text = """
def f(x: f32[n, (n//2) + 1], t: token, k: i64) -> (token, f32[n], f32[n]):
    def body0(a: f32[n], b: f32[n]) -> (f32[n], f32[n]):
        v2 = add(a, b)
        return (v2, a)
    assume(n >= 2)
    require(((n + 1)%2) == 0)
    v3 = reduce_sum(x, axes=(1,))
    v4_0, v4_1 = fused(v3, v3, body=body0, anchor='')
    v5_0, v5_1 = fused(v4_1, v4_0, body=body0, anchor='reduce_sum')
    v6 = debug_print(t, v3, format='sum {} of {!r}')
    return (v6, v5_1, v4_0)
""".strip()
    graph = parse(text)
    assert str(graph) == text
    assert [str(g) for g in graph.guards] == ["assume(n >= 2)", "require(((n + 1)%2) == 0)"]


def test_inputs_may_be_called_like_values_or_come_late() -> None:
    graph = Graph("f")
    b = Builder(graph)
    x = graph.add_input(ArrayType(float32, ()), "v2")
    y = b.exp(x)
    z = graph.add_input(ArrayType(float32, ()), "late")
    graph.set_outputs((b.add(y, z), x))
    assert str(graph) == (
        "def f(v2: f32, late: f32) -> (f32, f32):\n    v_2 = exp(v2)\n    v_3 = add(v_2, late)\n    return (v_3, v2)"
    )
    assert parse(str(graph)) == graph


def test_numbers_survive() -> None:
    graph = Graph("f")
    b = Builder(graph)
    numbers = [math.nan, math.inf, -math.inf, -0.0, 0.1, 5e-324]
    graph.set_outputs(b.literal(value=v, dtype=float64) for v in numbers)
    results = interpret(parse(str(graph)))
    assert [r.tobytes() for r in results] == [np.float64(v).tobytes() for v in numbers]


def test_lines_are_comments() -> None:
    graph = Graph("f")
    x = graph.add_input(ArrayType(float32, (N,)), "x")
    graph.set_outputs((Builder(graph, SourceLine(__file__, 1, "step")).exp(x),))
    text = print_graph(graph, with_lines=True)
    assert text.splitlines()[1].startswith("    v1 = exp(x)  ")
    assert text.splitlines()[1].endswith(
        '# f32[n]  test_text.py:1: """Every graph prints as a program that parses back to the same graph."""'
    )
    assert parse(text) == graph


def test_an_empty_program() -> None:
    assert str(parse("def f() -> ():\n    return ()")) == "def f() -> ():\n    return ()"


def test_constants_are_given_separately_from_the_text() -> None:
    graph = Graph("f")
    graph.set_outputs((graph.add_constant(np.float32([1, 2])),))
    assert interpret(parse(str(graph), graph.constants))[0].tolist() == [1, 2]
    assert not parse(str(graph)).constants
    assert parse(str(graph)) == graph


def test_weights_are_named_in_the_text_and_given_separately() -> None:
    graph, array = Graph("f"), np.float32([1, 2])
    graph.set_outputs((graph.add_weight("layer.0.bias", array),))
    assert "weight(name='layer.0.bias', dtype=f32, shape=(2,))" in str(graph)
    parsed = parse(str(graph), weights=graph.weights)
    assert parsed == graph and parsed.weights["layer.0.bias"] is array
    array[0] = 5
    assert interpret(parsed)[0].tolist() == [5, 2]
    assert interpret(parsed, weights={"layer.0.bias": array + 1})[0].tolist() == [6, 3]
    with pytest.raises(ZenithError, match=r"weight layer.0.bias is not stored(.|\n)*parse\(text, weights=...\)"):
        interpret(parse(str(graph)))


_HEAD = "def f(x: f32[n]) -> (f32[n]):\n    "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:", "not a graph: invalid syntax in line 1"),
        ("x = 1", "not a graph: the text must be one function definition"),
        ("def f(x) -> ():\n    return ()", "input x has no type"),
        ("def f(x: f31[n]) -> ():\n    return ()", "not a type: f31[n]"),
        ("def f(x: f32[n, 'a']) -> ():\n    return ()", "not a type: f32[n, 'a']: not a size: 'a'"),
        (_HEAD + "v1 = exq(x)", "line 2: v1 = exq(x): there is no primitive exq"),
        (_HEAD + "v1 = exp(y)", "line 2: v1 = exp(y): there is no value y"),
        (_HEAD + "v1 = exp(x, k=1)", "line 2: v1 = exp(x, k=1): there is no parameter of exp called k"),
        (_HEAD + "v1 = add(x)", "line 2: v1 = add(x): add takes 2 arguments, not 1"),
        (_HEAD + "v1 = reduce_sum(x)", "line 2: v1 = reduce_sum(x): parameters are ['axes'], not []"),
        (_HEAD + "v1 = input(name='y')", "line 2: v1 = input(name='y'): an input stands in the signature"),
        (_HEAD + "v1, v2 = exp(x)", "line 2: v1, v2 = exp(x): exp gives 1 results, not 2"),
        (_HEAD + "return x", "line 2: return x: not a statement of a graph"),
        (_HEAD + "return (y,)", "line 2: return (y,): there is no value y"),
        (_HEAD + "pass", "line 2: pass: not a statement of a graph"),
        (
            _HEAD + "v1 = fused(x, body=b, anchor='')",
            "line 2: v1 = fused(x, body=b, anchor=''): there is no subgraph b",
        ),
        (_HEAD + "assume(n in m)", "line 2: assume(n in m): not a relation of two sizes"),
    ],
)
def test_parse_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(ParseError) as error:
        parse(text)
    assert str(error.value) == message


def test_guards_print_and_parse() -> None:
    graph = Graph("f")
    graph.add_input(ArrayType(float32, (N,)), "x")
    graph.add_input(TOKEN, "t")
    graph.guards = tuple(
        Guard(kind, N + 1, relation, symbol("m") * 2)
        for kind in ("assume", "require")
        for relation in ("==", "!=", "<", "<=", ">", ">=")
    )
    assert parse(str(graph)).guards == graph.guards
