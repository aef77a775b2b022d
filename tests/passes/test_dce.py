"""Dead code goes, effects and inputs stay."""

import numpy as np

from tests.passes.compare import expect, program
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType, float32
from zenith.passes.dce import dce


def test_unused_nodes_go_and_unused_inputs_stay():
    before = "v1 = exp(x)\nv2 = tanh(v1)\nv3 = neg(x)\nreturn (v3,)"
    result = dce(program("x: f32[n], y: f32[n]", before))
    assert result == program("x: f32[n], y: f32[n]", "v1 = neg(x)\nreturn (v1,)")


def test_unused_constants_go():
    graph = Graph("f")
    x = graph.add_input(ArrayType(float32, (symbol("n"),)), "x")
    graph.add_constant(np.ones(3, np.float32))
    used = graph.add_constant(np.zeros(4, np.float32))
    graph.set_outputs([x, used])
    assert [c.shape for c in dce(graph).constants.values()] == [(4,)]


def test_effects_stay_though_nobody_reads_their_token():
    before = """
    v1 = exp(x)
    v2 = token()
    v3 = debug_print(v2, v1, format='{}')
    v4 = neg(x)
    return (v4,)"""
    graph = program("x: f32[n]", before)
    assert dce(graph) == graph


def test_subgraphs_are_cleaned_and_asked_for_effects():
    body = program("x: f32[n]", "v1 = exp(x)\nv2 = neg(x)\nreturn (v2,)")
    loud = program("x: f32[n]", "v1 = token()\nv2 = debug_print(v1, x, format='{}')\nreturn (x,)")
    graph = Graph("f")
    x = graph.add_input(ArrayType(float32, (symbol("n"),)), "x")
    b = Builder(graph)
    graph.set_outputs([b.fused(x, body=body, anchor="loops")])
    b.fused(x, body=loud, anchor="loops")
    assert [n.has_effect for _, n in graph.nodes()] == [False, False, True]
    result = dce(graph)
    bodies = [n.params["body"] for _, n in result.nodes() if n.primitive.name == "fused"]
    assert [len(g) for g in bodies] == [2, 3]


def test_idempotent():
    graph = program("x: f32[n]", "v1 = exp(x)\nv2 = neg(x)\nreturn (v2,)")
    assert dce(dce(graph)) == dce(graph)
    expect(dce, "x: f32[n]", "v1 = exp(x)\nreturn (x,)", "return (x,)")
