"""What is known is computed, unless the result would be large or an error belongs to the run."""

import numpy as np
import pytest

from tests.passes.compare import expect, program
from zenith.errors import OutOfBoundsError
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.types import ArrayType, float32, int64
from zenith.passes.dce import dce
from zenith.passes.fold import SMALL_BYTES, fold


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("v1 = size(value=6)\nreturn (v1,)", "v1 = literal(value=6, dtype=i64)\nreturn (v1,)"),
        ("v1 = size(value=n)\nreturn (v1,)", "v1 = size(value=n)\nreturn (v1,)"),
        (
            "v1 = size(value=4)\nv2 = cast(v1, dtype=f32)\nv3 = sqrt(v2)\nreturn (v3,)",
            "v1 = literal(value=2.0, dtype=f32)\nreturn (v1,)",
        ),
        (
            "v1 = literal(value=0.0, dtype=f32)\nv2 = div(v1, v1)\nv3 = neg(v1)\nreturn (v2, v3)",
            "v1 = literal(value=nan, dtype=f32)\nv2 = literal(value=-0.0, dtype=f32)\nreturn (v1, v2)",
        ),
        (
            "v1 = literal(value=1.0, dtype=f32)\nv2 = broadcast(v1, shape=(n, 4), axes=())\nreturn (v2,)",
            "v1 = literal(value=1.0, dtype=f32)\nv2 = broadcast(v1, shape=(n, 4), axes=())\nreturn (v2,)",
        ),
        (
            "v1 = literal(value=2.0, dtype=f32)\nv2 = reshape(v1, shape=(1, 1))\nreturn (v2,)",
            "v1 = literal(value=2.0, dtype=f32)\nv2 = broadcast(v1, shape=(1, 1), axes=())\nreturn (v2,)",
        ),
        ("v1 = iota(size=9, dtype=f32)\nreturn (v1,)", "v1 = iota(size=9, dtype=f32)\nreturn (v1,)"),
    ],
)
def test_literals(before, after):
    expect(fold, "x: f32[n]", before, after)


def with_constant(array, build):
    """A graph that applies ``build(b, constant)``."""
    graph = Graph("f")
    constant = graph.add_constant(array)
    graph.set_outputs([build(Builder(graph), constant)])
    return graph


def names(graph):
    return [n.primitive.name for _, n in dce(graph).nodes()]


def test_constants_fold_to_a_constant():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = with_constant(array, lambda b, c: b.matmul(b.transpose(c, axes=(1, 0)), b.exp(c)))
    result = fold(graph)
    assert names(result) == ["constant"] and len(dce(result).constants) == 1
    np.testing.assert_array_equal(interpret(result)[0], array.T @ np.exp(array))


def test_a_result_that_is_larger_than_its_operands_is_not_stored():
    many = SMALL_BYTES // 4 + 1
    array = np.arange(4, dtype=np.float32)
    grown = with_constant(array, lambda b, c: b.broadcast(c, shape=(many, 4), axes=(1,)))
    assert names(fold(grown)) == ["constant", "broadcast"]
    large = np.arange(many, dtype=np.float32)
    assert names(fold(with_constant(large, lambda b, c: b.neg(c)))) == ["constant"]


def test_a_constant_of_one_number_becomes_a_broadcast_literal():
    uniform = np.full((3, 4), -0.0, np.float32)
    result = dce(fold(with_constant(uniform, lambda b, c: b.neg(c))))
    assert [n.primitive.name for _, n in result.nodes()] == ["literal", "broadcast", "neg"]
    assert str(result.node(0).params["value"]) == "-0.0"
    mixed = np.array([0.0, -0.0, 0.0], np.float32)
    assert names(fold(with_constant(mixed, lambda b, c: c))) == ["constant"]


def test_an_index_out_of_bounds_is_left_to_the_run():
    graph = with_constant(np.arange(3.0, dtype=np.float32), lambda b, c: b.take(c, b.full(7, int64, ()), axis=0))
    assert "take" in names(fold(graph))
    with pytest.raises(OutOfBoundsError):
        interpret(fold(graph))


def test_symbolic_sizes_and_effects_do_not_fold():
    before = "v1 = token()\nv2 = literal(value=1.0, dtype=f32)\nv3 = debug_print(v1, v2, format='{}')\nreturn (v2,)"
    expect(fold, "x: f32[n]", before, before)
    graph = Graph("f")
    graph.add_input(ArrayType(float32, ()), "x")
    assert fold(graph) == graph
    assert len(fold(program("x: f32[n]", "v1 = exp(x)\nreturn (v1,)"))) == 2


def test_weights_are_never_folded():
    graph = Graph("f")
    weight = graph.add_weight("w", np.zeros(3, np.float32))
    graph.set_outputs([Builder(graph).exp(weight)])
    assert names(fold(graph)) == ["weight", "exp"] and fold(graph).weights is graph.weights
