"""Complex functions by real arithmetic, against NumPy's in a wider type: declared errors, the sides of branch cuts."""

import numpy as np
import pytest

from tests.ir.cases import type_of
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.lowering import complex_error
from zenith.ir.ops.complex_rules import COMPLEX_RULES
from zenith.ir.primitive import get
from zenith.passes.expand import expand
from zenith.passes.split_complex import split_complex

FUNCTIONS = sorted(COMPLEX_RULES.keys() - {"mul", "div", "eq", "ne", "cast", "matmul"})
WIDER = {np.complex64: np.complex128, np.complex128: np.clongdouble}
CUTS = [-2.0, -0.5, 0.5, 2.0]  # on both axes, where some function jumps


def as_reals(name, *arrays):
    """A primitive's result after the pass has rewritten it with real numbers."""
    graph = Graph("f")
    inputs = [graph.add_input(type_of(a), f"x{i}") for i, a in enumerate(arrays)]
    graph.set_outputs(graph.add(get(name), inputs))
    split = split_complex(expand(graph))
    return interpret(split, *arrays)[0]


def points(dtype, count=2000):
    """Numbers of many magnitudes, near 1 and -1, near the axes and the unit circle."""
    rng = np.random.default_rng(0)

    def normal(scale=1.0):
        return scale * (rng.normal(size=count) + 1j * rng.normal(size=count))

    angle, small = rng.uniform(-4, 4, count), 1e-6 * rng.normal(size=count)
    several = [normal(s) for s in (1e-3, 0.1, 1.0, 10.0)]
    near = [
        1 + normal(1e-3),
        -1 + normal(1e-5),
        np.exp(1j * angle),
        normal().real + 1j * small,
        small + 1j * normal().real,
    ]
    return np.concatenate([*several, *near]).astype(dtype)


@pytest.mark.parametrize("dtype", WIDER, ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_is_at_most_as_declared(name, dtype):
    primitive, z = get(name), points(dtype)
    if np.finfo(WIDER[dtype]).eps == np.finfo(dtype).eps:
        pytest.skip("NumPy has no wider type here")
    with np.errstate(all="ignore"):
        found, (exact,) = as_reals(name, z), primitive.evaluate([z.astype(WIDER[dtype])], {})
        unit = np.spacing(np.abs(exact).astype(np.dtype(dtype).type(0).real.dtype))
        error = np.abs(found - exact) / unit
    assert found.dtype == dtype
    finite = np.isfinite(exact) & (np.abs(exact) < np.finfo(dtype).max)
    worst = int(np.argmax(np.where(finite, error, 0)))
    assert error[worst] <= complex_error(primitive.lowering, primitive.ulp), (z[worst], found[worst], exact[worst])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_branch_cuts_are_continuous_from_the_side_of_the_zeros_sign(name):
    z = np.empty(16, np.complex128)
    z.real = [*(x for x in CUTS for _ in range(2)), *[0.0, -0.0] * 4]
    z.imag = [*[0.0, -0.0] * 4, *(y for y in CUTS for _ in range(2))]
    with np.errstate(all="ignore"):
        found, (expected,) = as_reals(name, z), get(name).evaluate([z], {})
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)
    for part in (np.real, np.imag):
        np.testing.assert_array_equal(np.signbit(part(found)), np.signbit(part(expected)))


@pytest.mark.parametrize("dtype", WIDER, ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", ["mul", "div"])
def test_products_and_quotients(name, dtype):
    z = points(dtype)
    x, y = z, np.random.default_rng(1).permutation(z)
    if np.finfo(WIDER[dtype]).eps == np.finfo(dtype).eps:
        pytest.skip("NumPy has no wider type here")
    found, (exact,) = as_reals(name, x, y), get(name).evaluate([x.astype(WIDER[dtype]), y.astype(WIDER[dtype])], {})
    unit = np.spacing(np.abs(exact).astype(np.dtype(dtype).type(0).real.dtype))
    assert (np.abs(found - exact) / unit).max() <= COMPLEX_RULES[name].ulp


def test_roots_and_exponentials_reach_to_the_limits():
    huge, tiny = np.finfo(np.float64).max, np.finfo(np.float64).smallest_subnormal
    z = np.array([complex(huge, huge), complex(-huge, huge), complex(tiny, tiny), complex(0, -tiny), complex(-huge, 0)])
    np.testing.assert_allclose(as_reals("sqrt", z), np.sqrt(z), rtol=1e-15)
    np.testing.assert_allclose(as_reals("log", z), np.log(z), rtol=1e-15)
    e = np.array([complex(710, np.pi / 4), complex(709.9, -2.5)])  # their sizes alone overflow
    assert np.isfinite(np.exp(e)).all()
    np.testing.assert_allclose(as_reals("exp", e), np.exp(e), rtol=1e-12)
