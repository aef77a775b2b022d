"""Slopes, areas, convolutions, products with a shape of their own and polynomials, against NumPy."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, assert_same, check, run_traced, values
from zenith.errors import ArgumentError, ShapeError

F4, F8, I8 = np.dtype("f4"), np.dtype("f8"), np.dtype("i8")
NUMBERS = [d for d in DTYPES if d.kind != "b"]
SIGNED = [d for d in NUMBERS if d.kind != "u"]


# --- slopes and areas ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_gradient(dtype):
    x = values(dtype, (4, 5), 1)
    for order in (1, 2):
        check(lambda xp, a, o=order: [*xp.gradient(a, edge_order=o), xp.gradient(a[0], edge_order=o)], x)
    check(lambda xp, a: [*xp.gradient(a, 2.0, axis=(1, 0)), *xp.gradient(a, 0.5, 3.0), xp.gradient(a, 2, axis=-1)], x)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient_at_uneven_coordinates(order):
    x, coordinates = values(F8, (4, 5), 2), np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 5))
    check(lambda xp, a, p: xp.gradient(a, p, axis=1, edge_order=order), x, coordinates)
    check(lambda xp, a, p: xp.gradient(a, 2.0, p, edge_order=order), x, coordinates)
    check(lambda xp, a: xp.gradient(a, [1, 2, 4, 7], axis=0, edge_order=order), x)


def test_areas():
    x, coordinates = values(F8, (3, 4), 3), np.array([0.0, 1.0, 4.0, 4.5])
    check(lambda xp, a, p: (xp.trapezoid(a), xp.trapezoid(a, dx=0.5, axis=0), xp.trapezoid(a, p)), x, coordinates)
    check(lambda xp, a: xp.trapezoid(a, a, axis=0), x)
    check(lambda xp, a: xp.trapezoid(a), values(np.dtype("i4"), (7,), 4))
    check(lambda xp, a: (xp.ediff1d(a), xp.ediff1d(a, to_begin=[1, 2], to_end=a[0])), x)


def test_angles_without_jumps():
    x = np.random.default_rng(5).uniform(-9, 9, (3, 8))
    check(lambda xp, a: (xp.unwrap(a), xp.unwrap(a, axis=0, discont=4.0), xp.unwrap(a, period=5.0)), x, ulps=32)
    check(lambda xp, a: (xp.unwrap(a, period=6), xp.unwrap(a, period=5)), values(I8, (9,), 6))
    check(lambda xp, a: xp.unwrap(a), np.array([0.0, np.pi, 0.0, -np.pi, np.pi * 3]))


# --- products --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolutions(name):
    for dtype in DTYPES:
        for n, m in ((5, 3), (3, 5), (4, 4), (1, 2), (6, 2)):
            x, y = values(dtype, (n,), 1), values(dtype, (m,), 2)
            check(lambda xp, a, v: [getattr(xp, name)(a, v, mode) for mode in ("full", "same", "valid")], x, y)
    check(lambda xp, a, v: getattr(xp, name)(a, v), values(I8, (5,), 3), values(F4, (2,), 4))


def test_the_derivative_of_a_convolution_is_a_correlation():
    x, y, weights = values(F8, (5,), 1), values(F8, (3,), 2), np.arange(7.0)
    found = zenith.grad(lambda a: np.sum(np.convolve(a, y) * weights))(x)
    np.testing.assert_allclose(found, np.correlate(weights, y), rtol=1e-13)


def test_kronecker_and_cross():
    x, y = values(F4, (2, 3), 5), values(np.dtype("i4"), (3, 2), 6)
    check(lambda xp, a, b: (xp.kron(a, b), xp.kron(a[0], b), xp.kron(a, b[0]), xp.kron(a, 2)), x, y)
    u, v = values(F8, (4, 3), 7), values(F8, (3, 4), 8)
    check(lambda xp, a, b: (xp.cross(a, a[::-1]), xp.cross(a, b, axisb=0), xp.cross(a, b.T, axis=1)), u, v)
    check(lambda xp, a, b: (xp.cross(a[0], a), xp.cross(a, b, axisb=0, axisc=0)), u, v)
    with pytest.raises(ShapeError, match="cross needs vectors of three components"):
        run_traced(lambda a: np.cross(a, a), np.zeros((2, 2)))


# --- polynomials -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_polynomials(dtype):
    p, q = values(dtype, (4,), 1), values(dtype, (2,), 2)
    p[0] = q[0] = 1  # NumPy cuts leading zeros off
    ulps = 64
    check(lambda xp, a, b: (xp.polyadd(a, b), xp.polysub(b, a), xp.polymul(a, b), xp.polyval(a, b)), p, q, ulps=ulps)
    check(lambda xp, a: (xp.polyder(a), xp.polyder(a, 2), xp.polyder(a[:1])), p, ulps=ulps)
    check(lambda xp, a: (xp.polyint(a), xp.polyint(a, 2), xp.polyint(a, 2, [1, 2]), xp.polyint(a, 1, 3)), p, ulps=ulps)
    assert_same(run_traced(znp.poly, q)[0], np.poly(q), ulps)  # numpy.poly looks into its argument
    check(lambda xp, a: (xp.vander(a), xp.vander(a, 3), xp.vander(a, 2, increasing=True)), p, ulps=ulps)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name):
    for count in (0, 1, 2, 5, 8):
        np.testing.assert_allclose(getattr(znp, name)(count), getattr(np, name)(count), rtol=1e-14, atol=1e-15)
    (found,) = run_traced(lambda a: getattr(znp, name)(a.shape[0]) * a, np.ones(6))
    np.testing.assert_allclose(found, getattr(np, name)(6), rtol=1e-14, atol=1e-15)


def test_what_is_refused():
    x = np.arange(4.0)
    with pytest.raises(ArgumentError, match="convolve: 'half' is no mode"):
        run_traced(lambda a: np.convolve(a, a, "half"), x)
    with pytest.raises(ShapeError, match=r"correlate needs two rows, not \(2, 2\) and \(4,\)"):
        run_traced(lambda a: np.correlate(a.reshape(2, 2), a), x, symbolic=False)
    with pytest.raises(ShapeError, match="convolve needs rows with an element"):
        znp.convolve(x[:0], x)
    with pytest.raises(ArgumentError, match="gradient: 3 distances for 1 axes"):
        run_traced(lambda a: np.gradient(a, 1, 2, 3), x)
    with pytest.raises(ArgumentError, match="is no edge_order"):
        znp.gradient(x, edge_order=3)
    with pytest.raises(ShapeError, match="gradient with edge_order=2 needs 3 samples"):
        run_traced(lambda a: np.gradient(a, edge_order=2), x[:2])
    with pytest.raises(ShapeError, match="a coordinate for each point"):
        znp.gradient(x, x[:3])
    with pytest.raises(ShapeError, match="polyadd needs a row of coefficients"):
        znp.polyadd(np.ones((2, 2)), x)
    with pytest.raises(ArgumentError, match="polyder: the order -1 is negative"):
        znp.polyder(x, -1)
    assert_same(znp.polyval(2.0, x), np.full(4, 2.0))


def test_fitted_polynomials():
    rng = np.random.default_rng(2)
    x, y, w = rng.uniform(-1, 1, (3, 12))
    w = np.abs(w) + 0.1
    check(lambda xp, x, y: xp.polyfit(x, y, 3), x, y, ulps=512)
    check(lambda xp, x, y: xp.polyfit(x, y, 2), np.arange(9), np.arange(9) ** 2, ulps=512)
    check(lambda xp, x, y, w: list(xp.polyfit(x, y, 2, w=w, cov="unscaled")), x, y, w, ulps=512)
    check(lambda xp, x, y, w: list(xp.polyfit(x, y, 1, w=w, cov=True)), x, y, w, ulps=512)
    check(lambda xp, x, y: list(xp.polyfit(x, y, 1, cov=True)), x, np.stack([y, 2 * y + x * x], 1), ulps=512)
    found, squares, rank, values, limit = zenith.jit(lambda x, y: np.polyfit(x, y, 2, full=True))(x, y)
    wanted = np.polyfit(x, y, 2, full=True)
    for one, other in zip((found, squares, rank, values, limit), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
    with pytest.raises(ArgumentError, match="polyfit: the degree -1 is negative"):
        znp.polyfit(x, y, -1)
    with pytest.raises(ShapeError, match="polyfit takes a row of points"):
        znp.polyfit(np.ones((2, 2)), y, 1)
