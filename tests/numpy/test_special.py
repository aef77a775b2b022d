"""Special functions against SciPy's, called as SciPy's own and by their names here; derivatives; ends of domains."""

import numpy as np
import pytest

import zenith
from tests.numpy.comparison import run_traced
from zenith.errors import ArgumentError
from zenith.numpy import special

scipy = pytest.importorskip("scipy.special")

POSITIVE = np.array([1e-8, 0.01, 0.3, 0.9, 1.0, 1.4616, 1.9, 2.0, 3.5, 17.0, 120.0])
REAL = np.concatenate([-POSITIVE, [0.0], POSITIVE])
SHARES = np.array([0.0, 1e-6, 0.1, 0.5, 0.75, 0.999, 1.0])
UNARY = {
    "erf": REAL, "erfc": REAL, "erfinv": 2 * SHARES - 1, "expit": REAL, "log_expit": REAL, "logit": SHARES,
    "ndtr": REAL, "gammaln": REAL, "psi": POSITIVE, "i0": REAL, "i0e": REAL, "i1": REAL, "i1e": REAL, "entr": REAL,
}  # fmt: skip
BINARY = {"betaln": POSITIVE, "xlogy": REAL, "xlog1py": REAL[REAL > -1], "rel_entr": REAL}
INSIDE = np.array([0.2, 0.6, 0.85])


def close(actual, expected, dtype, scale=1.0):
    """``scale`` is the size of the terms whose difference the result is."""
    assert actual.dtype == expected.dtype == dtype
    tolerance = 100 * np.finfo(dtype).eps * scale
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument(name, dtype):
    x = np.append(UNARY[name], np.nan).astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(scipy, name)(x)
    for found in (run_traced(getattr(scipy, name), x)[0], run_traced(getattr(special, name), x)[0]):
        close(found, expected, dtype)
    close(getattr(special, name)(x), expected, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arguments(name, dtype):
    x, y = BINARY[name].astype(dtype)[:, None], BINARY[name].astype(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(scipy, name)(x, y)
    scale = scipy.gammaln(2 * POSITIVE[-1]) / 100 if name == "betaln" else 1.0
    close(run_traced(getattr(scipy, name), x, y)[0], expected, dtype, scale)
    close(getattr(special, name)(x, y), expected, dtype, scale)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_polygamma(order):
    x = np.array([0.1, 0.7, 1.5, 4.0, 30.0, -0.4, -2.7])
    expected = scipy.polygamma(order, x)
    np.testing.assert_allclose(special.polygamma(order, x), expected, rtol=1e-12)
    np.testing.assert_allclose(run_traced(lambda a: special.polygamma(order, a), x)[0], expected, rtol=1e-12)
    with pytest.raises(ArgumentError, match="polygamma: the order -1 is negative"):
        special.polygamma(-1, x)


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_derivatives(name):
    """Against differences of the function itself."""
    function, step = getattr(special, name), 1e-6
    arguments = (INSIDE,) if name in UNARY else (INSIDE, INSIDE[::-1].copy())
    for at in range(len(arguments)):
        found = zenith.grad(lambda *xs: np.sum(function(*xs)), argnums=at)(*arguments)
        low, high = ([x + s * step * (i == at) for i, x in enumerate(arguments)] for s in (-1, 1))
        np.testing.assert_allclose(found, (function(*high) - function(*low)) / (2 * step), rtol=1e-6, atol=1e-8)


def test_derivatives_where_expressions_have_corners():
    zero = np.zeros(2)
    for function, slope in ((special.i0, 0.0), (special.i1, 0.5), (special.i0e, 0.0), (special.i1e, 0.5)):
        assert zenith.grad(lambda x, f=function: np.sum(f(x)))(zero).tolist() == [slope, slope]
    for function in (special.xlogy, special.xlog1py):
        assert zenith.grad(lambda y, f=function: np.sum(f(zero, y)))(zero).tolist() == [0.0, 0.0]


def test_integers_and_other_types():
    x = np.array([1, 2, 5], np.int32)
    close(run_traced(scipy.gammaln, x)[0], scipy.gammaln(x), np.float64)
    half = np.array([0.5, 2.0], np.float16)
    assert run_traced(special.gammaln, half)[0].dtype == np.float16


def test_bessel_functions_of_numpy():
    x = np.linspace(-30, 30, 41)
    np.testing.assert_allclose(run_traced(np.i0, x)[0], np.i0(x), rtol=1e-13)
    for count in (0, 1, 2, 5):
        np.testing.assert_allclose(zenith.numpy.kaiser(count, 8.6), np.kaiser(count, 8.6), rtol=1e-13)
