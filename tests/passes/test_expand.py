"""Composite primitives are written out, and mean the same."""

import ml_dtypes
import numpy as np
import pytest

from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.lowering import Composite, complex_error
from zenith.ir.primitive import all_primitives
from zenith.ir.types import DTYPES, ArrayType, dtype_of, float64
from zenith.ir.verify import verify
from zenith.passes.dce import dce
from zenith.passes.expand import expand

COMPOSITES = [p for p in all_primitives() if isinstance(p.lowering, Composite)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("primitive", COMPOSITES, ids=lambda p: p.name)
def test_expansion_computes_the_same(primitive, dtype):
    for sample in primitive.samples(dtype.numpy):
        graph = Graph("f")
        args = [
            graph.add_input(
                ArrayType(dtype_of(np.asarray(v).dtype), [symbol(f"n{i}_{a}") for a in range(np.ndim(v))]), f"x{i}"
            )
            for i, v in enumerate(sample.values)
        ]
        graph.set_outputs(graph.add(primitive, args, sample.params))
        result = verify(dce(expand(graph)))
        assert not any(isinstance(n.primitive.lowering, Composite) for _, n in result.nodes())
        for a, b in zip(interpret(graph, *sample.values), interpret(result, *sample.values), strict=True):
            if primitive.ulp == 0 or a.dtype.kind in "iub":
                np.testing.assert_array_equal(a, b)
            else:  # a formula, as exact as its record says
                ulp = complex_error(primitive.lowering, primitive.ulp) if dtype.is_complex else primitive.ulp
                error = (ulp + 1) * ml_dtypes.finfo(dtype.real.numpy).eps
                np.testing.assert_allclose(a, b, rtol=error, atol=error)


def test_argmax_finds_the_first_nan():
    graph = Graph("f")
    x = graph.add_input(ArrayType(float64, [symbol("n")]), "x")
    graph.set_outputs(graph.add(next(p for p in COMPOSITES if p.name == "argmax"), [x], {"axis": 0}))
    assert interpret(expand(graph), np.array([1.0, np.nan, 3.0, np.nan])) == [1]
