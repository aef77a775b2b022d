"""The graph: edges, outputs, equality, constants, and the builder that rules write with."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import zenith.ir.ops  # noqa: F401  fills the registry
from tests.programs import random_program
from zenith.errors import DTypeError, ShapeError, SourceLine
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph, content_hash
from zenith.ir.guards import Guard
from zenith.ir.interpret import interpret
from zenith.ir.primitive import get
from zenith.ir.topological import by_priority
from zenith.ir.types import TOKEN, ArrayType, bool_, float32, int32, int64

N = symbol("n")


def square(line: SourceLine | None = None) -> Graph:
    graph = Graph("square")
    x = graph.add_input(ArrayType(float32, (N,)), "x")
    graph.set_outputs(graph.add(get("mul"), (x, x), line=line))
    return graph


def test_x_times_x_has_two_edges() -> None:
    graph = square()
    edges = list(graph.networkx.edges(0, data=True))
    assert [(u, v, d["output"], d["argument"]) for u, v, d in edges] == [(0, 1, 0, 0), (0, 1, 0, 1)]
    assert graph.users(0) == ((0, 1, 0), (0, 1, 1))
    assert [a.node for a in graph.args(1)] == [0, 0] and len(graph) == 2


def test_networkx_shows_the_graph_as_it_is_and_cannot_change_it() -> None:
    graph = square()
    shown = graph.networkx
    assert isinstance(shown, nx.MultiDiGraph) and shown.nodes[1]["record"] is graph.node(1)
    with pytest.raises(nx.NetworkXError):
        shown.remove_edge(0, 1)
    graph.add(get("exp"), graph.outputs)
    assert len(shown) == shown.number_of_nodes() == 3 and -1 not in shown and "x" not in shown
    assert nx.is_directed_acyclic_graph(shown) and nx.ancestors(shown, 2) == {0, 1}
    with pytest.raises(TypeError):
        nx.set_node_attributes(shown, 1, "colour")
    copy = shown.copy()
    copy.remove_edge(1, 2)
    assert type(copy) is nx.MultiDiGraph and len(shown.edges) == 3 and len(copy.edges) == 2


@pytest.mark.parametrize("seed", range(10))
def test_networkx_answers_for_the_view_as_for_a_copy(seed: int) -> None:
    graph = random_program(seed)[0]
    view = graph.networkx
    copy = view.copy()
    assert nx.utils.graphs_equal(view, copy) and view.size() == copy.size()
    assert list(nx.topological_generations(view)) == list(nx.topological_generations(copy))
    assert nx.dag_longest_path(view) == nx.dag_longest_path(copy)
    for number in copy:
        assert (
            nx.ancestors(view, number) | {number} == nx.ancestors(copy, number) | {number} == graph.ancestors([number])
        )
        assert nx.descendants(view, number) == nx.descendants(copy, number) == graph.descendants([number]) - {number}
        assert sorted(view.in_edges(number, keys=True)) == sorted(copy.in_edges(number, keys=True))
    dependencies = {number: tuple(copy.predecessors(number)) for number in copy}
    by_degree = {number: (-copy.degree(number), number) for number in copy}
    order = nx.lexicographical_topological_sort(view, by_degree.__getitem__)
    assert list(by_priority(dependencies, by_degree.__getitem__)) == list(order)
    half = [number for number in copy if number % 2]
    assert nx.utils.graphs_equal(view.subgraph(half).copy(), copy.subgraph(half).copy())
    assert sorted(view.reverse().edges) == sorted(copy.reverse().edges)
    assert nx.number_weakly_connected_components(view) == nx.number_weakly_connected_components(copy)


def test_users_are_those_of_nodes_added_since() -> None:
    graph = square()
    assert graph.users(1) == ()
    (y,) = graph.add(get("exp"), graph.outputs)
    graph.add(get("sub"), (graph.outputs[0], y))
    assert graph.users(1) == ((0, 2, 0), (0, 3, 0)) and graph.users(y.node) == ((0, 3, 1),)


def test_a_beginning_has_its_own_nodes_inputs_and_constants() -> None:
    graph = square()
    x = graph.inputs[0]
    first = graph.add_constant(np.float32(1))
    graph.guards = (Guard("assume", N, ">", symbol("m")),)
    graph.add_constant(np.float32(2))
    graph.add_input(x.type, "late")
    text = str(graph)
    head = graph.beginning(3)
    assert len(head) == 3 and head.inputs == [x] and head.outputs == () and head.guards == graph.guards
    assert head.constants.keys() == {head.node(first.node).params["id"]} and head.weights is graph.weights
    assert all(head.node(n) is graph.node(n) and head.results(n) is graph.results(n) for n in range(3))
    head.add_input(x.type, "y")
    head.set_outputs(head.add(get("exp"), graph.outputs))
    head.constants.clear()
    assert str(graph) == text and len(graph.constants) == 2


def test_equality_ignores_lines() -> None:
    one, other = square(SourceLine("a.py", 1, "f")), square(SourceLine("b.py", 2, "g"))
    assert one == other and hash(one) == hash(other) and one.node(1) == other.node(1)
    other.name = "else"
    assert one != other and one != "square"


def test_nodes_may_have_several_outputs() -> None:
    body = Graph("body")
    x = body.add_input(ArrayType(float32, (N,)), "x")
    b = Builder(body)
    body.set_outputs((b.exp(x), b.gt(x, 0.0)))
    graph = Graph()
    y = graph.add_input(ArrayType(float32, (N,)), "y")
    first, second = Builder(graph).fused(y, body=body, anchor="")
    graph.set_outputs((second, first, second))
    assert (first.output, second.output) == (0, 1) and second.dtype == bool_
    results = interpret(graph, np.float32([-1, 1]))
    assert results[0].tolist() == results[2].tolist() == [False, True]
    np.testing.assert_allclose(results[1], np.exp(np.float32([-1, 1])))


def test_symbols_come_in_order_of_appearance() -> None:
    graph = Graph()
    graph.add_input(ArrayType(float32, (symbol("m") * N, 3)), "x")
    graph.add_input(TOKEN, "t")
    graph.add_input(ArrayType(float32, (symbol("a"), N)), "y")
    assert graph.symbols() == ("m", "n", "a")


def test_constants_are_snapshots_stored_once() -> None:
    graph, array = Graph(), np.arange(6.0).reshape(2, 3)
    one, two = graph.add_constant(array), graph.add_constant(np.asfortranarray(array))
    other = graph.add_constant(array.astype(np.float32))
    array[:] = 7
    assert len(graph.constants) == 2 and str(other.type) == "f32[2, 3]"
    graph.set_outputs((one, two))
    for result in interpret(graph):
        assert result.tolist() == [[0, 1, 2], [3, 4, 5]] and not result.flags.writeable


def test_content_hash_sees_type_shape_and_bytes() -> None:
    arrays = [np.zeros(2, np.int32), np.zeros(2, np.float32), np.zeros((1, 2), np.int32), np.zeros(0), np.float32(-0.0)]
    assert len({content_hash(np.asarray(a)) for a in arrays}) == len(arrays)
    assert content_hash(np.arange(6).reshape(2, 3).T) == content_hash(
        np.ascontiguousarray(np.arange(6).reshape(2, 3).T)
    )


@pytest.mark.parametrize(
    ("relation", "left", "right", "holds"),
    [("==", 2, 2, True), ("!=", 2, 2, False), ("<", 1, 2, True), ("<=", 3, 2, False), (">", 3, 2, True),
     (">=", 1, 2, False)],
)  # fmt: skip
def test_guards(relation: str, left: int, right: int, holds: bool) -> None:
    guard = Guard("assume", N, relation, symbol("m"), "because")
    assert guard.holds({"n": left, "m": right}) is holds
    assert str(guard) == f"assume(n {relation} m)" and guard == Guard("assume", N, relation, symbol("m"))


def test_the_builder_makes_literals_of_the_operands_type() -> None:
    graph = Graph("f")
    b = Builder(graph, SourceLine("model.py", 3, "step"))
    x = graph.add_input(ArrayType(int32, (N, 2)), "x")
    graph.set_outputs((b.mul(2, x), b.zeros_like(x), b.full(0.1, float32, ())))
    assert str(graph) == (
        "def f(x: i32[n, 2]) -> (i32[n, 2], i32[n, 2], f32):\n"
        "    v1 = literal(value=2, dtype=i32)\n"
        "    v2 = broadcast(v1, shape=(n, 2), axes=())\n"
        "    v3 = mul(v2, x)\n"
        "    v4 = literal(value=0, dtype=i32)\n"
        "    v5 = broadcast(v4, shape=(n, 2), axes=())\n"
        "    v6 = literal(value=0.10000000149011612, dtype=f32)\n"
        "    return (v3, v5, v6)"
    )
    assert graph.node(3).line == SourceLine("model.py", 3, "step")


def test_builder_errors() -> None:
    b = Builder(Graph())
    with pytest.raises(AttributeError, match="no primitive 'no_such_thing'"):
        b.no_such_thing()
    with pytest.raises(TypeError, match="a number needs an array operand next to it"):
        b.add(1, 2)


def test_operand_errors_say_types() -> None:
    graph = Graph()
    b = Builder(graph)
    x, y = graph.add_input(ArrayType(float32, (3,)), "x"), graph.add_input(ArrayType(float32, (4,)), "y")
    i, scalar = graph.add_input(ArrayType(int64, (3,)), "i"), graph.add_input(ArrayType(float32, ()), "s")
    before = len(graph)
    for error, text, call in (
        (ShapeError, "add needs operands of one shape\n  types: f32[3], f32[4]", lambda: b.add(x, y)),
        (DTypeError, "add needs operands of one element type\n  types: f32[3], i64[3]\n  fix: cast one operand",
         lambda: b.add(x, i)),
        (DTypeError, "exp needs a floating-point or complex array, not i64[3]\n  types: i64[3]\n"
         "  fix: cast the operand first", lambda: b.exp(i)),
        (ShapeError, "reduce_sum: axis 1 is outside f32[3]\n  types: f32[3]", lambda: b.reduce_sum(x, axes=(1,))),
        (ShapeError, "reduce_sum needs growing axes, not (0, 0)\n  types: f32[3]",
         lambda: b.reduce_sum(x, axes=(0, 0))),
        (ShapeError, "cannot reshape f32[3] of 3 elements to [2, 2]\n  types: f32[3]",
         lambda: b.reshape(x, shape=(2, 2))),
        (ShapeError, "cannot broadcast size 3 to 4\n  types: f32[3]", lambda: b.broadcast(x, shape=(4,), axes=(0,))),
        (ShapeError, "broadcast needs one growing target axis for each axis of f32[3], not ()\n  types: f32[3]",
         lambda: b.broadcast(x, shape=(3,), axes=())),
        (ShapeError, "transpose axes (1,) are no permutation of the axes of f32[3]\n  types: f32[3]",
         lambda: b.transpose(x, axes=(1,))),
        (ShapeError, "slice 0:4 is outside an axis of size 3\n  types: f32[3]",
         lambda: b.slice(x, start=(0,), stop=(4,), step=(1,))),
        (ShapeError, "slice needs start, stop and a step >= 1 for each axis of f32[3]\n  types: f32[3]",
         lambda: b.slice(x, start=(0,), stop=(3,), step=(0,))),
        (ShapeError, "pad cannot remove elements: a padding is negative\n  types: f32[3]",
         lambda: b.pad(x, scalar, low=(-1,), high=(0,), interior=(0,))),
        (ShapeError, "pad needs low, high and interior >= 0 for each axis of f32[3] and a 0-d value\n"
         "  types: f32[3], f32[4]", lambda: b.pad(x, y, low=(0,), high=(0,), interior=(0,))),
        (ShapeError, "concat needs at least one operand", lambda: b.concat(axis=0)),
        (ShapeError, "concat needs equal sizes on all axes but 0\n  types: f32[3], f32",
         lambda: b.concat(x, scalar, axis=0)),
        (ShapeError, "matmul needs two operands of one rank >= 2\n  types: f32[3], f32[4]", lambda: b.matmul(x, y)),
        (DTypeError, "take index needs a signed integer or unsigned integer array, not f32[4]\n  types: f32[4]\n"
         "  fix: cast the operand first", lambda: b.take(x, y, axis=0)),
        (ShapeError, "gather needs 1 to 1 index arrays, not 2\n  types: f32[3], i64[3], i64[3]",
         lambda: b.gather(x, i, i)),
        (ShapeError, "gather needs an array and index arrays", lambda: b.gather()),
        (ShapeError, "scatter_add needs an array and index arrays", lambda: b.scatter_add(x)),
        (ShapeError, "exp takes 1 arguments, not 2\n  types: f32[3], f32[4]", lambda: b.exp(x, y)),
        (DTypeError, "iota needs a signed integer or unsigned integer or floating-point array, not bool[3]\n"
         "  types: bool[3]\n  fix: cast the operand first", lambda: b.iota(size=3, dtype=bool_)),
        (DTypeError, "debug_print takes a token first\n  types: f32[3]", lambda: b.debug_print(x, format="{}")),
        (ShapeError, "argmax of nothing: the axis has size 0\n  types: f32[0]",
         lambda: b.argmax(b.slice(x, start=(0,), stop=(0,), step=(1,)), axis=0)),
    ):  # fmt: skip
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text
    assert len(graph) == before + 1, "a refused node is not added"


def test_matmul_errors() -> None:
    graph = Graph()
    b = Builder(graph)
    shapes = {"a": (3, 4), "b": (5, 6), "c": (2, 3, 4), "d": (3, 4, 5)}
    a, other, c, d = (graph.add_input(ArrayType(float32, s), n) for n, s in shapes.items())
    with pytest.raises(ShapeError, match="matmul: inner sizes 4 and 5 differ"):
        b.matmul(a, other)
    with pytest.raises(ShapeError, match="matmul needs equal leading sizes"):
        b.matmul(c, d)
