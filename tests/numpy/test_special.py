"""Special functions against SciPy's, called as SciPy's own and by their names here; derivatives; ends of domains."""

import numpy as np
import pytest

import zenith
from tests.numpy.comparison import run_traced
from zenith.errors import ArgumentError, UnsupportedError
from zenith.ir.ops import incomplete_gamma
from zenith.numpy import special

scipy = pytest.importorskip("scipy.special")

POSITIVE = np.array([1e-8, 0.01, 0.3, 0.9, 1.0, 1.4616, 1.9, 2.0, 3.5, 17.0, 120.0])
REAL = np.concatenate([-POSITIVE, [0.0], POSITIVE])
SHARES = np.array([0.0, 1e-6, 0.1, 0.5, 0.75, 0.999, 1.0])
UNARY = {
    "erf": REAL, "erfc": REAL, "erfcx": REAL[REAL > -5], "erfinv": 2 * SHARES - 1, "erfcinv": 2 * SHARES,
    "expit": REAL, "log_expit": REAL, "logit": SHARES, "ndtr": REAL, "ndtri": SHARES, "log_ndtr": REAL,
    "gammaln": REAL, "loggamma": REAL, "psi": POSITIVE, "cbrt": REAL, "exp2": REAL[:-1], "expm1": REAL[:-1],
    "log1p": POSITIVE, "i0": REAL, "i0e": REAL, "i1": REAL, "i1e": REAL, "entr": REAL,
}  # fmt: skip
BINARY = {
    "betaln": POSITIVE, "gammainc": POSITIVE, "gammaincc": POSITIVE, "xlogy": REAL, "xlog1py": REAL[REAL > -1],
    "rel_entr": REAL,
}  # fmt: skip
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_and_beta_err_as_their_logarithms(dtype):
    """By 8 ulps for each unit of the largest logarithm of a gamma function."""
    x = np.concatenate([POSITIVE, [-0.5, -1.5, -2.25, -7.75, 30.0]]).astype(dtype)
    arguments = {"gamma": (x[x < 35],), "beta": (x[:, None], x)}
    for name, given in arguments.items():
        expected = getattr(scipy, name)(*[a.astype(np.float64) for a in given])
        largest = np.max(
            [np.abs(scipy.gammaln(a)) for a in np.broadcast_arrays(*given, sum(given))[: len(given) + 1]], 0
        )
        for found in (run_traced(getattr(scipy, name), *given)[0], getattr(special, name)(*given)):
            assert found.dtype == dtype
            inside = (np.abs(expected) < np.finfo(dtype).max) & (np.abs(expected) > np.finfo(dtype).tiny)
            error = np.abs(found - expected)[inside] / np.abs(expected)[inside]
            assert (error <= 8 * np.finfo(dtype).eps * (1 + largest[inside])).all()


def test_gamma_at_its_poles_and_ends():
    x = np.array([0.0, -0.0, -1.0, -2.0, np.inf, -np.inf, np.nan, 171.0, 172.0, -180.5])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run_traced(scipy.gamma, x)[0], scipy.gamma(x), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(zenith.grad(special.gamma)(2.5), scipy.gamma(2.5) * scipy.psi(2.5), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_sums_of_exponentials(dtype, axis):
    x = np.random.default_rng(0).normal(0, 100, (3, 4)).astype(dtype)
    x[0] = -np.inf
    factors = np.array([1.0, 0.0, -2.0, 3.0], dtype)
    plain, signed = {"axis": axis}, {"axis": axis, "b": factors, "return_sign": True}
    for name, options in (("logsumexp", plain), ("logsumexp", {**plain, "keepdims": True}), ("logsumexp", signed)):
        with np.errstate(all="ignore"):
            expected = getattr(scipy, name)(x, **options)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = run_traced(lambda a, n=name, o=options: getattr(special, n)(a, **o), x)
        for actual, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(actual, e, rtol=4 * np.finfo(dtype).eps)
            assert actual.dtype == dtype
    for name in ("softmax", "log_softmax"):
        expected = getattr(scipy, name)(x[1:], axis=axis)
        found = run_traced(lambda a, n=name: getattr(special, n)(a, axis), x[1:])[0]
        np.testing.assert_allclose(found, expected, rtol=200 * np.finfo(dtype).eps)
    assert special.softmax([1, 1]).tolist() == [0.5, 0.5] and special.logsumexp(np.int8([-128, 127])) == 127


def test_what_there_is_not_names_what_there_is():
    for name in ("betainc", "jv", "j0"):
        with pytest.raises(
            UnsupportedError, match=rf"scipy\.special\.{name} is not supported(.|\n)*gammaincc, gammaln"
        ):
            run_traced(lambda a, n=name: getattr(scipy, n)(*[a] * getattr(scipy, n).nin), POSITIVE)
        assert not hasattr(special, name)


def test_tails_keep_their_digits():
    small = 10.0 ** -np.arange(1, 308, 9)
    far = np.array([-1e-3, -1.0, -5.0, -38.0, -1e3, -1e8])
    for name, x in (("ndtri", small), ("erfcinv", small), ("log_ndtr", far), ("erfcx", -far)):
        np.testing.assert_allclose(run_traced(getattr(scipy, name), x)[0], getattr(scipy, name)(x), rtol=2e-15)
    slope = zenith.jit(zenith.vmap(zenith.grad(special.log_ndtr)))(far)
    np.testing.assert_allclose(slope, np.sqrt(2 / np.pi) / scipy.erfcx(-far / np.sqrt(2)), rtol=1e-12)
    slope = zenith.jit(zenith.vmap(zenith.grad(special.erfcx)))(np.array([0.0, 30.0, 1e4, 1e10]))
    wanted = [-2, -6.258354105074841e-04, -5.641895750849127e-09, -5.641895835477563e-21]
    np.testing.assert_allclose(slope, np.multiply(wanted, [1 / np.sqrt(np.pi), 1, 1, 1]), rtol=1e-12)


def test_incomplete_gamma_functions_have_both_derivatives():
    """Along the first argument against differences where those have digits, and where both tails are far."""
    a, x = np.array([0.02, 0.5, 2.0, 7.0, 60.0, 900.0]), np.array([0.3, 0.5, 4.0, 3.0, 70.0, 850.0])
    for function in (special.gammainc, special.gammaincc):
        along_a, along_x = zenith.jit(zenith.grad(lambda a, x, f=function: np.sum(f(a, x)), argnums=(0, 1)))(a, x)
        step = 1e-5 * a
        np.testing.assert_allclose(along_a, (function(a + step, x) - function(a - step, x)) / (2 * step), rtol=1e-7)
        step = 1e-5 * x
        np.testing.assert_allclose(along_x, (function(a, x + step) - function(a, x - step)) / (2 * step), rtol=1e-7)
    slope = zenith.grad(special.gammainc)
    np.testing.assert_allclose(slope(2.0, 1e-20), 5e-41 * (np.log(1e-20) - scipy.psi(3.0)), rtol=1e-13)
    assert slope(2.0, 0.0) == slope(2.0, np.inf) == 0.0 and np.isnan(slope(1e9, 1e9)) and np.isnan(slope(2.0, -1.0))
    assert zenith.grad(special.gammainc, argnums=1)(1.0, 0.0) == 1.0
    curve = zenith.grad(zenith.grad(special.gammainc, argnums=1), argnums=1)(2.0, 1.5)
    np.testing.assert_allclose(curve, (1 - 1.5) * np.exp(-1.5), rtol=1e-13)
    curves = zenith.jit(zenith.hessian(lambda a: special.gammainc(a, 2.0)))
    for at in (0.3, 1.5, 6.0):
        step = 1e-4 * at
        wanted = (slope(at + step, 2.0) - slope(at - step, 2.0)) / (2 * step)
        np.testing.assert_allclose(curves(at), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "x", "wanted"),
    [
        (0.3, 0.1, (-1.1966608251292228, 2.0519775067116740, 46.881861116524763)),
        (2.0, 9.0, (-0.0023256903848454979, -0.0035991641475041700, -0.00090332837597833181)),
        (500.0, 480.0, (-0.012073629060036840, 0.00049295580926151434, 7.1164732526977762e-08)),
    ],
)
def test_derivatives_of_incomplete_gamma_functions_along_a(a, x, wanted):
    """Of orders 1, 2 and 5, from mpmath with 40 digits: by the series, by the fraction, and of many terms."""
    found = [incomplete_gamma.slope(np.array(a), np.array(x), order) for order in (1, 2, 5)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


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
