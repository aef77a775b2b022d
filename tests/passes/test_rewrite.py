"""The sweep: inputs, guards, lines and constants travel along, subgraphs are rewritten, time is linear."""

import gc
import time

import numpy as np
import pytest

from tests.passes.compare import program
from zenith.errors import SourceLine
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.guards import Guard
from zenith.ir.types import ArrayType, float32
from zenith.passes.pipeline import PIPELINE
from zenith.passes.rewrite import number_of, rebuild

LINE = SourceLine("model.py", 12, "step")


def guarded():
    graph = Graph("guarded")
    x = graph.add_input(ArrayType(float32, (symbol("n"), 3)), "x", LINE)
    c = graph.add_constant(np.arange(3, dtype=np.float32))
    b = Builder(graph, LINE)
    graph.set_outputs([b.add(x, b.broadcast(c, shape=x.shape, axes=(1,)))])
    graph.guards = (Guard("assume", symbol("n"), ">", symbol("n") * 0),)
    return graph


def test_where_nothing_changes_the_graph_is_the_answer():
    graph = guarded()
    assert rebuild(graph, lambda b, node, args: None) is graph
    assert rebuild(graph, lambda b, node, args: b.carry(node, args)) is graph
    assert rebuild(graph, lambda b, node, args: None, keep=range(len(graph))) is graph


@pytest.mark.parametrize("last", ["constant", "broadcast", "add"])
def test_from_the_first_change_on_there_is_a_new_graph(last):
    graph = guarded()
    text = str(graph)
    copy = rebuild(graph, lambda b, n, args: b.copy(n, args) if n.primitive.name == last else None)
    assert copy == graph and copy is not graph and copy.guards == graph.guards and str(graph) == text
    assert copy.constants.keys() == graph.constants.keys() and copy.weights is graph.weights
    assert [node.line for _, node in copy.nodes()] == [node.line for _, node in graph.nodes()]


def test_a_constant_without_a_node_is_dropped():
    graph = guarded()
    graph.constants["left over"] = np.zeros(3)
    copy = rebuild(graph, lambda b, node, args: None)
    assert copy == graph and copy.constants.keys() == guarded().constants.keys()


def test_what_is_left_out_and_its_constant_are_not_in_the_new_graph():
    graph = guarded()
    graph.add_constant(np.arange(7))
    left = rebuild(graph, lambda b, n, args: None, keep=range(len(graph) - 1))
    assert left == guarded() and left.constants.keys() == guarded().constants.keys()


@pytest.mark.parametrize("step", PIPELINE, ids=lambda p: p.__name__)
def test_every_pass_keeps_guards_inputs_and_lines(step):
    graph = guarded()
    text = str(graph)
    result = step(graph)
    assert str(graph) == text
    assert result.guards == graph.guards and [v.type for v in result.inputs] == [v.type for v in graph.inputs]
    assert result.node(result.outputs[0].node).line == LINE


def test_what_a_visit_emits_carries_the_line_of_the_node_it_replaces():
    result = rebuild(guarded(), lambda b, n, a: [b.neg(b.neg(b.copy(n, a)[0]))] if n.primitive.name == "add" else None)
    assert [n.line for _, n in result.nodes() if n.primitive.name == "neg"] == [LINE, LINE]


def test_emitted_nodes_are_visited_only_when_asked_for():
    def negations_to_abs(b, node, args):
        if node.primitive.name == "exp":
            return [b.neg(args[0])]
        return [b.abs(args[0])] if node.primitive.name == "neg" else None

    graph = program("x: f32[n]", "v1 = exp(x)\nreturn (v1,)")
    once, revisited = (rebuild(graph, negations_to_abs, revisit=flag) for flag in (False, True))
    assert once.node(once.outputs[0].node).primitive.name == "neg"
    assert revisited.node(revisited.outputs[0].node).primitive.name == "abs"


def test_a_visit_that_never_settles_is_cut_off():
    graph = program("x: f32[n]", "v1 = neg(x)\nreturn (v1,)")
    result = rebuild(graph, lambda b, n, a: [b.neg(a[0])] if n.primitive.name == "neg" else None, revisit=True)
    assert len(result) < 100


def test_subgraphs_are_rewritten():
    body = program("x: f32[n]", "v1 = neg(x)\nv2 = neg(v1)\nreturn (v2,)")
    graph = Graph("outer")
    x = graph.add_input(ArrayType(float32, (symbol("n"),)), "x")
    graph.set_outputs([Builder(graph).fused(x, body=body, anchor="loops")])
    result = rebuild(graph, lambda b, n, a: [a[0]] if n.primitive.name == "neg" else None)
    inner = next(n.params["body"] for _, n in result.nodes() if n.primitive.name == "fused")
    assert len(inner) == 1 and len(body) == 3


def test_number_of_sees_literals_and_broadcast_literals():
    graph = Graph("f")
    x = graph.add_input(ArrayType(float32, ()), "x")
    b = Builder(graph)
    values = [b.full(2.5, float32, ()), b.full(2.5, float32, (symbol("n"),)), b.broadcast(x, shape=(3,), axes=()), x]
    assert [number_of(b, v) for v in values] == [2.5, 2.5, None, None]


def chain(length):
    """A program of about ``length`` nodes in which every pass finds something to do."""
    graph = Graph("chain")
    x = value = graph.add_input(ArrayType(float32, (symbol("n"), symbol("m"))), "x")
    b = Builder(graph)
    while len(graph) < length:
        mean = b.reshape(b.reduce_sum(value, axes=(1,)), shape=(symbol("n"), 1))
        value = b.sub(value, b.broadcast(b.mul(mean, 0.5), shape=x.shape, axes=(0, 1)))
        value = b.neg(b.neg(b.tanh(b.add(b.mul(value, 1.0), 2.0))))
    graph.set_outputs([value])
    return graph


@pytest.mark.timing
def test_time_is_about_linear():
    def seconds(length):
        graph = chain(length)
        gc.collect()
        gc.disable()  # what a collection takes depends on all that other tests have imported
        try:
            start = time.perf_counter()
            for step in PIPELINE:
                graph = step(graph)
            return time.perf_counter() - start
        finally:
            gc.enable()

    seconds(100)
    assert any(seconds(5000) < 30 * min(seconds(500) for _ in range(3)) for _ in range(4))
