"""Prefixes are views: results that are parts of larger values have memory of their own."""

import numpy as np
import pytest

from tests.backends.running import call, check, compiled, plan_of
from zenith.backends.memory_effects import is_copy
from zenith.backends.steps import LaunchStep
from zenith.ir.builder import Builder
from zenith.ir.dims import dim, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType, complex128, float32, float64

BACKENDS = ["cpu", "scalar", "cuda on lanes"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [float32, float64, complex128], ids=str)
@pytest.mark.parametrize("size", [0, 1, 3, 7])
def test_a_prefix_of_a_computed_value_is_a_result(dtype, size, backend):
    graph = Graph("prefixes")
    x = graph.add_input(ArrayType(dtype, (symbol("n"), dim(4))), "x")
    b = Builder(graph)
    made = b.mul(x, x)
    part = b.prefix(made, size=size)
    graph.set_outputs([part, b.reshape(part, shape=(4 * size,)), b.prefix(x, size=size), b.neg(part), made])
    args = [np.random.default_rng(0).standard_normal((7, 4)).astype(dtype.numpy)]
    check(call(compiled(graph, backend), graph, args), graph, args)


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_without_contents_is_written_in_place(backend):
    """Two values with one ``empty``: neither is copied, and neither has the other's elements."""
    graph = Graph("padded")
    x = graph.add_input(ArrayType(float64, (symbol("n"),)), "x")
    b = Builder(graph)
    space = b.empty(dtype=float64, shape=(symbol("n") + 5,))
    found = [b.update_slice(space, y, start=(dim(0),), stop=x.shape, step=(1,)) for y in (b.neg(x), b.mul(x, x))]
    graph.set_outputs([b.prefix(y, size=symbol("n")) for y in found])
    x0 = np.random.default_rng(0).standard_normal(9)
    for one, other in zip(call(compiled(graph, backend), graph, [x0]), (-x0, x0 * x0), strict=True):
        np.testing.assert_array_equal(one, other)
    copies = [s for s in plan_of(graph).steps if isinstance(s, LaunchStep) and is_copy(s.kernel)]
    assert len(copies) == len(found), "of the results, and not of the memory"
