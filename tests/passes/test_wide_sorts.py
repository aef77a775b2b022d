"""Sorts of 64 bits whose indices are asked for become two of 32, of all rows that are hard to sort."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.sorting import rows, sorting
from zenith.ir.interpret import interpret
from zenith.ir.types import int32
from zenith.ir.verify import verify
from zenith.passes.wide_sorts import wide_sorts


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("results", ["v2", "v1, v2"])
@pytest.mark.parametrize("dtype", ["f64", "i64", "u64"])
def test_two_sorts_are_one_of_all_bits(dtype: str, results: str, descending: bool) -> None:
    graph = sorting(dtype, results, descending)
    made = wide_sorts(graph)
    verify(made)
    sorts = [made.args(number)[0] for number, node in made.nodes() if node.primitive.name == "sort"]
    assert [x.dtype for x in sorts] == [int32, int32]
    for shape in ((3, 40), (1, 1), (2, 0)):
        x = rows(graph.inputs[0].dtype.numpy, shape)
        x[:, ::3] = x[:, :1]  # equal elements
        if dtype != "f64":
            x[:, 1::3] = x[:, 1::3] // 2**40  # and equal halves
        for found, expected in zip(interpret(made, x), interpret(graph, x), strict=True):
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("dtype", "results"), [("f64", "v1"), ("i64", "v1"), ("f32", "v1, v2"), ("i16", "v2"), ("c64", "v1, v2")]
)
def test_other_sorts_stay(dtype: str, results: str) -> None:
    graph = sorting(dtype, results, False)
    assert wide_sorts(graph) == graph
    x = rows(graph.inputs[0].dtype.numpy, (2, 9))
    np.testing.assert_array_equal(interpret(wide_sorts(graph), x)[0], interpret(graph, x)[0])
