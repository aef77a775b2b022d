"""Powers of complex numbers: bits of NumPy's for whole exponents, wherever these are known, and their derivatives."""

import numpy as np
import pytest

import zenith

RNG = np.random.default_rng(0)
SPECIAL = [0j, complex(-0.0, 0), complex(0, -0.0), 2j, -3 + 0j, complex(-3, -0.0), 1 + 2j, 1, -1j,
           complex(np.inf, 0), complex(1, np.inf)]  # fmt: skip
BASES = np.concatenate([SPECIAL, RNG.standard_normal(9) + 1j * RNG.standard_normal(9)])
EXPONENTS = np.resize([2, 3, 2, 0, 1, -1, 5, -7, 4], BASES.shape)


def same_bits(found, expected):
    """Equal numbers, also in the signs of zeros; nan where nan is."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    for part in ("real", "imag"):
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
        signs = [np.signbit(getattr(x, part))[~np.isnan(getattr(expected, part))] for x in (found, expected)]
        np.testing.assert_array_equal(*signs)


WHOLE = {
    "np.power": lambda z, n: [np.power(z, k) for k in (0, 1, 2, 3, 4, 7, -1, -2, -5, 99, -99)],
    "numbers of other types": lambda z, n: [np.power(z, 2.0), np.power(z, np.int8(3)), np.power(z, 5 + 0j)],
    "float_power": lambda z, n: [np.float_power(z, 3)],
    "known integers": lambda z, n: [z**EXPONENTS, np.power(z, EXPONENTS.astype(np.float64))],
    "integers": lambda z, n: [z**n],
    "whole complex numbers": lambda z, n: [np.power(z, n * (1 + 0j))],
}


def compiled(function, *args, backend="reference"):
    with np.errstate(all="ignore"):
        return zenith.jit(function, backend=backend)(*args), function(*args)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_exponents_have_the_bits_of_numpy(name, dtype):
    found, expected = compiled(WHOLE[name], BASES.astype(dtype), EXPONENTS)
    for f, e in zip(found, expected, strict=True):
        same_bits(f, e)


def masked(z):
    w = z.copy()
    w[np.abs(z) > 0] **= 2
    return w


def test_machine_code_multiplies_out_too():
    """Kernels add a product in one step, which may be the more exact by a bit."""
    bases = BASES[np.isfinite(BASES)]
    function = lambda z, n: [np.power(z, 2), np.power(z, -5), z**n, masked(z)]  # noqa: E731
    for f, e in zip(*compiled(function, bases, EXPONENTS[: bases.size], backend="cpu"), strict=True):
        np.testing.assert_allclose(f, e, rtol=2e-15)
    whole = np.array([2j, -3 + 0j, -1j, 4 + 0j])
    for f, e in zip(*compiled(function, whole, EXPONENTS[:4], backend="cpu"), strict=True):
        same_bits(f, e)


def test_masked_squares_are_products():
    z = np.array([2j, -3 + 0j, 0.5 + 0.5j, 0j])
    same_bits(zenith.jit(masked, backend="reference")(z), masked(z))
    total = lambda z: np.sum(z[np.abs(z) > 1] ** 2)  # noqa: E731
    same_bits(zenith.jit(total, backend="reference")(z), total(z))


def test_what_is_real_stays_real():
    z = np.array([2j, -3 + 0j, 1 + 2j])
    found, expected = compiled(
        lambda z, n: [np.isreal(np.power(z, 2)), np.isreal(z**n), np.vander(z, 4)], z, np.full(3, 2)
    )
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f, e)


def test_other_exponents():
    z = BASES[np.isfinite(BASES) & (BASES != 0)]
    for exponents in (EXPONENTS[: z.size] + np.resize([0, 0.5, 0.25j, 0], z.shape), np.resize([100, -120, 3], z.shape)):
        with np.errstate(all="ignore"):
            expected = [z**exponents, z**0.5, z ** (1 - 2j)]
        found, _ = compiled(lambda z, n: [z**n, z**0.5, z ** (1 - 2j)], z, exponents)
        (known,), _ = compiled(lambda z, n=exponents: [z**n], z)
        for f, e in zip([*found, known], [*expected, expected[0]], strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-12)


POINTS = np.array([0j, 1 + 2j, -1j, 3, 1e200])


@pytest.mark.parametrize("k", [0, 1, 2, 3, 1.5])
def test_derivatives_by_the_base(k):
    """Also at 0, and where a square that is not needed overflows."""
    points = POINTS if k in (0, 1) else POINTS[:-1]
    known = np.resize([k], points.shape)
    functions = [lambda z: np.power(z, k), lambda z: z**known, lambda z: z ** zenith.numpy.asarray(known * (1 + 0j))]
    for function in functions:
        _, first = zenith.jvp(function, (points,), (np.ones_like(points),))
        np.testing.assert_allclose(first, k * points ** (k - 1) if k else 0 * points, rtol=1e-12)


@pytest.mark.parametrize("exponent", [2 + 0j, 0j, -1 + 0j, 1.5 + 1j])
def test_derivatives_by_the_exponent(exponent):
    """Of every order, at whole numbers too."""
    z, one = 1 + 2j, np.complex128(1)
    by_exponent = lambda n: zenith.jvp(lambda n: z**n, (n,), (one,))[1]  # noqa: E731
    mixed = lambda z: zenith.jvp(lambda n: z**n, (exponent,), (one,))[1]  # noqa: E731
    np.testing.assert_allclose(by_exponent(exponent), np.log(z) * z**exponent, rtol=1e-12)
    second = zenith.jvp(by_exponent, (exponent,), (one,))[1]
    np.testing.assert_allclose(second, np.log(z) ** 2 * z**exponent, rtol=1e-12)
    across = zenith.jvp(mixed, (z,), (one,))[1]
    np.testing.assert_allclose(across, z ** (exponent - 1) * (1 + exponent * np.log(z)), rtol=1e-12)
