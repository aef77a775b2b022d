"""Graphs and shapes without values."""

import numpy as np
import pytest

import zenith
from zenith import ShapeDtypeStruct as Struct
from zenith.errors import DTypeError, ShapeError


def layer(params, x):
    return {"y": np.tanh(x @ params["w"] + params["b"]), "total": np.sum(x, axis=0)}


PARAMS = {"w": Struct((3, "h"), np.float32), "b": Struct(("h",), np.float32)}


def test_eval_shape_with_names_numbers_and_formulas():
    shapes = zenith.eval_shape(layer, PARAMS, Struct(("n", 3), "float32"))
    assert shapes == {"y": Struct(("n", "h"), np.float32), "total": Struct((3,), np.float32)}
    joined = zenith.eval_shape(lambda x: np.concatenate([x, x]), Struct(("n",), "int32"))
    assert joined.shape == ("2*n",) and joined.dtype == np.int32


def test_eval_shape_of_arrays_has_their_sizes():
    result = zenith.eval_shape(lambda x, k: x[:2] * k, np.zeros((5, 4), np.float32), 2.0)
    assert result == Struct((2, 4), np.float32)


def test_eval_shape_of_a_jitted_function_compiles_nothing():
    function = zenith.jit(layer)
    zenith.eval_shape(function, PARAMS, Struct((2, 3), "float32"))
    assert function.cache_info().misses == 0


def test_eval_shape_reports_errors():
    with pytest.raises(ShapeError, match="matmul"):
        zenith.eval_shape(lambda x, y: x @ y, Struct((2, 3), "float32"), Struct((4, 2), "float32"))


def test_different_names_are_different_sizes():
    with pytest.raises(ShapeError, match="sizes n = 16 and m = 18 differ"):
        zenith.eval_shape(lambda x, y: x + y, Struct(("n",), "float32"), Struct(("m",), "float32"))


def test_make_graph_has_symbols_for_arrays():
    graph = zenith.make_graph(lambda x, y: x * y)(Struct(("n", 3), "float32"), np.zeros((16, 3), np.float32))
    assert [str(v.type) for v in graph.inputs] == ["f32[n, 3]"] * 2
    assert graph.networkx.number_of_nodes() == len(graph) >= 3


@pytest.mark.parametrize(
    ("shape", "dtype", "error"),
    [((-1,), "float32", ShapeError), (("2n",), "float32", ShapeError), ((1,), "longdouble", DTypeError)],
)
def test_structs_are_checked(shape, dtype, error):
    with pytest.raises(error):
        Struct(shape, dtype)


def test_structs_are_values():
    assert Struct((1, "n"), "float32") == Struct([1, "n"], np.float32)
    assert hash(Struct((1,), "float32")) == hash(Struct((1,), "float32"))
    assert repr(Struct((1, "n"), "int64")) == "ShapeDtypeStruct(shape=(1, 'n'), dtype=int64)"


def triangle(a, k):
    lower = np.zeros(a.shape)
    for i in range(len(a)):
        lower[i, :i] += a[i, :i]
    return lower, np.ones(k), a[a > 0]


def test_plain_functions_are_converted():
    lower, ones, positive = zenith.eval_shape(triangle, np.ones((5, 5)), 3)
    assert (lower.shape, ones.shape, len(positive.shape)) == ((5, 5), (3,), 1)
    graph = zenith.make_graph(triangle)(np.ones((5, 5)), 3)
    assert {"scan", "sized"} <= {node.primitive.name for _, node in graph.nodes()}
