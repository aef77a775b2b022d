"""Equal nodes are merged; effects, parameters and numbers that print alike are distinguished."""

import numpy as np
import pytest

from tests.passes.compare import program
from zenith.errors import SourceLine
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType, float32
from zenith.passes.cse import cse


def count(body, signature="x: f32[n], y: f32[n]"):
    """Nodes before and after."""
    graph = program(signature, body)
    return len(graph), len(cse(graph))


@pytest.mark.parametrize(
    ("body", "merged"),
    [
        ("v1 = exp(x)\nv2 = exp(x)\nreturn (v1, v2)", 1),
        ("v1 = exp(x)\nv2 = exp(y)\nreturn (v1, v2)", 0),
        ("v1 = add(x, y)\nv2 = add(y, x)\nreturn (v1, v2)", 1),
        ("v1 = sub(x, y)\nv2 = sub(y, x)\nreturn (v1, v2)", 0),
        ("v1 = maximum(x, y)\nv2 = maximum(y, x)\nreturn (v1, v2)", 0),
        ("v1 = exp(x)\nv2 = exp(x)\nv3 = neg(v1)\nv4 = neg(v2)\nreturn (v3, v4)", 2),
        ("v1 = literal(value=0.0, dtype=f32)\nv2 = literal(value=-0.0, dtype=f32)\nreturn (v1, v2)", 0),
        ("v1 = literal(value=nan, dtype=f32)\nv2 = literal(value=nan, dtype=f32)\nreturn (v1, v2)", 1),
        ("v1 = literal(value=1, dtype=i32)\nv2 = literal(value=1, dtype=i64)\nreturn (v1, v2)", 0),
        ("v1 = literal(value=1, dtype=i32)\nv2 = literal(value=True, dtype=bool)\nreturn (v1, v2)", 0),
        ("v1 = reshape(x, shape=(n, 1))\nv2 = reshape(x, shape=(1, n))\nreturn (v1, v2)", 0),
        ("v1 = token()\nv2 = debug_print(v1, x, format='{}')\nv3 = debug_print(v2, x, format='{}')\nreturn (x,)", 0),
        ("v1 = token()\nv2 = token()\nreturn (x,)", 0),
    ],
)
def test_merging(body, merged):
    before, after = count(body)
    assert before - after == merged


def test_the_first_line_stays_and_merging_twice_changes_nothing():
    graph = Graph("f")
    x = graph.add_input(ArrayType(float32, (symbol("n"),)), "x")
    lines = [SourceLine("model.py", n, "f") for n in (1, 2)]
    graph.set_outputs([Builder(graph, line).exp(x) for line in lines])
    result = cse(graph)
    assert [n.line for _, n in result.nodes() if n.primitive.name == "exp"] == lines[:1]
    assert cse(result) == result
    assert len(graph) == 3


def test_subgraphs_do_not_share_nodes_with_their_parent():
    body = program("x: f32[n]", "v1 = exp(x)\nv2 = exp(x)\nv3 = add(v1, v2)\nreturn (v3,)")
    graph = Graph("f")
    x = graph.add_input(ArrayType(float32, (symbol("n"),)), "x")
    b = Builder(graph)
    graph.set_outputs([b.exp(x), b.fused(x, body=body, anchor="loops"), b.fused(x, body=body, anchor="loops")])
    result = cse(graph)
    assert [n.primitive.name for _, n in result.nodes()] == ["input", "exp", "fused"]
    assert len(result.node(2).params["body"]) == 3


def test_weights_of_one_name_are_one():
    graph = Graph("f")
    weights = [graph.add_weight(name, np.zeros(3, np.float32)) for name in "aab"]
    graph.set_outputs([Builder(graph).add(a, b) for a, b in ((weights[0], weights[1]), (weights[1], weights[2]))])
    assert [n.primitive.name for _, n in cse(graph).nodes()] == ["weight", "weight", "add", "add"]
