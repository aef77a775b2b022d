"""Fourier transforms against NumPy's: kinds of arrays, sizes, axes, norms; derivatives; one compilation for all."""

import numpy as np
import pytest

import zenith
from tests.numpy.comparison import check, run_traced, values
from zenith.errors import ArgumentError, DTypeError, ShapeError
from zenith.numpy import fft

REAL, COMPLEX = np.dtype(np.float64), np.dtype(np.complex128)
KINDS = [np.dtype(t) for t in (np.int16, np.float16, np.float32, np.float64, np.complex64, np.complex128)]
ULPS = 64.0


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_element_types(dtype):
    x = values(dtype, (3, 6))
    names = ["fft", "ifft", *([] if dtype.kind == "c" else ["rfft", "ihfft"])]
    names += [] if dtype.itemsize == 2 and dtype.kind == "f" else ["irfft", "hfft"]  # NumPy gives float16 there
    # NumPy divides by the number of points in float16, where these are
    check(lambda xp, a: [getattr(xp.fft, name)(a) for name in names], x, ulps=4096.0 if dtype == np.float16 else ULPS)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_sizes_axes_and_norms(name, norm):
    x = values(REAL if name in ("rfft", "ihfft") else COMPLEX, (4, 5, 3), 1)
    for n in (None, 1, 4, 9):
        for axis in (-1, 0):
            check(lambda xp, a, n=n, i=axis: getattr(xp.fft, name)(a, n, i, norm), x, ulps=ULPS)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_several_axes(name):
    x = values(REAL if name.startswith("rfft") else COMPLEX, (4, 3, 6), 2)
    check(lambda xp, a: getattr(xp.fft, name)(a), x, ulps=ULPS)
    check(lambda xp, a: getattr(xp.fft, name)(a, (5, 2), (0, 1), "ortho"), x, ulps=ULPS)
    check(lambda xp, a: getattr(xp.fft, name)(a, axes=(1, 2)), x, ulps=ULPS)


def test_sizes_of_axes_and_axes_that_come_twice():
    x = values(COMPLEX, (4, 5))
    check(lambda xp, a: xp.fft.irfftn(a, (-1, -1), (0, 1)), x, ulps=ULPS)
    check(lambda xp, a: xp.fft.fftn(a, np.array([-1, 2]), (0, 1)), x, ulps=ULPS)
    check(lambda xp, a: xp.fft.fftn(a, (4, 8), (1, 1)), x, ulps=ULPS)


@pytest.mark.parametrize("n", [1, 4, 7])
def test_frequencies(n):
    for found, expected in ((fft.fftfreq(n, 0.1), np.fft.fftfreq(n, 0.1)),
                            (fft.rfftfreq(n, d=2.0), np.fft.rfftfreq(n, d=2.0))):  # fmt: skip
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert fft.fftfreq(n, dtype=np.float32).dtype == np.float32
    (found,) = run_traced(lambda x: fft.fftfreq(x.shape[0], 0.1), np.ones(n))
    np.testing.assert_allclose(found, np.fft.fftfreq(n, 0.1))


def test_order_of_frequencies():
    x = values(REAL, (4, 5))
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, (1,)):
            check(lambda xp, a, f=name, i=axes: getattr(xp.fft, f)(a, i), x)


def test_one_compilation_serves_every_size():
    @zenith.jit
    def smooth(x):
        return np.fft.irfft(np.fft.rfft(x) * np.exp(-fft.rfftfreq(x.shape[0])), x.shape[0])

    for n in (4, 7, 32):
        x = values(REAL, (n,))
        np.testing.assert_allclose(smooth(x), np.fft.irfft(np.fft.rfft(x) * np.exp(-np.fft.rfftfreq(n)), n), atol=1e-13)
    assert smooth.cache_info().misses == 1


def test_derivatives_and_batches():
    x, y = values(REAL, (3, 8)), values(REAL, (3, 8), 1)
    energy = zenith.jit(zenith.vmap(zenith.grad(lambda x: (np.abs(np.fft.fft(x)) ** 2).sum())))
    np.testing.assert_allclose(energy(x), 2 * 8 * x, rtol=1e-12)  # Parseval's theorem
    convolved = zenith.grad(lambda x: (np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(y)) * y).sum())(x)
    expected = np.fft.irfft(np.fft.rfft(y) * np.conj(np.fft.rfft(y)))
    np.testing.assert_allclose(convolved, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: np.fft.rfft(x * 1j), DTypeError, "rfft takes real arrays"),
        (lambda x: np.fft.ihfft(x * 1j), DTypeError, "ihfft takes real arrays"),
        (lambda x: np.fft.hfft(x, 0), ShapeError, "hfft: there must be a point"),
        (lambda x: np.fft.fft(x, norm="both"), ArgumentError, "fft: 'both' is no norm"),
        (lambda x: np.fft.fft(x, 0), ShapeError, "a point or more"),
        (lambda x: np.fft.irfft(x, 0), ShapeError, "a point or more"),
        (lambda x: np.fft.fftn(x, (2,), (0, 1)), ShapeError, "1 sizes for 2 axes"),
        (lambda x: np.fft.fft(x, axis=2), ShapeError, "axis 2 is out of bounds"),
        (lambda x: np.fft.rfftn(x, axes=()), ShapeError, "an axis or more"),
    ],
)
def test_what_is_wrong_is_said(call, error, text):
    with pytest.raises(error, match=text) as caught:
        run_traced(call, np.ones((2, 4)))
    assert "test_fft.py" in str(caught.value)


LENGTHS = [(1 << 16,), (2, 96 * 1000), (65537,), (3, 1 << 14), (16383,)]  # of which one is a prime and one is short


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft"])
def test_long_rows_in_two_steps(name, norm):
    """One program for rows of all lengths, in a kind and number of axes."""
    compiled = zenith.jit(lambda x: getattr(np.fft, name)(x, norm=norm))
    for dtype, bound in ((np.complex64, 1e-6), (np.complex128, 1e-14), (np.float32, 1e-6), (np.float64, 1e-14)):
        for shape in LENGTHS:
            x = values(np.dtype(dtype), shape, 7)
            found, expected = compiled(x), getattr(np.fft, name)(x.astype(complex), norm=norm)
            assert found.dtype == np.result_type(dtype, np.complex64)
            assert np.abs(found - expected).max() < bound * np.abs(expected).max()
    assert compiled.cache_info().misses == 8


def test_long_rows_of_several_axes_are_transformed_in_place():
    x = values(COMPLEX, (3, 1 << 14), 2)
    np.testing.assert_allclose(zenith.jit(lambda x: np.fft.fft2(x))(x), np.fft.fft2(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_long_real_rows_are_transformed_as_complex_ones_of_half_the_length(norm):
    there, back = (zenith.jit(lambda x, f=f: f(x, norm=norm)) for f in (np.fft.rfft, np.fft.irfft))
    for dtype, bound in ((np.float32, 1e-6), (np.float64, 1e-14)):
        for shape in ((1 << 17,), (3, 150002), (150001,), (1000,), (2 * 65537,)):  # one is odd, one is short
            x = values(np.dtype(dtype), shape, 7)
            spectrum = np.fft.rfft(x.astype(float), norm=norm)
            assert np.abs(there(x) - spectrum).max() < bound * np.abs(spectrum).max()
            given = spectrum.astype(np.result_type(dtype, np.complex64))
            given[..., 0] += 1j  # says nothing
            given[..., -1] += 2j
            expected = np.fft.irfft(given.astype(complex), norm=norm)
            assert np.abs(back(given) - expected).max() < bound * np.abs(expected).max()
    assert there.cache_info().misses == back.cache_info().misses == 4


def test_gradients_of_long_real_rows():
    size = 1 << 17
    x, weights = values(REAL, (size,), 3), values(REAL, (size // 2 + 1,), 4)
    found = zenith.grad(zenith.jit(lambda x: (np.abs(np.fft.rfft(x)) ** 2 * weights).sum()))(x)
    twice = np.concatenate([weights, weights[1:-1][::-1]]) * (1 + _ends(size))
    np.testing.assert_allclose(found, size * np.fft.ifft(np.fft.fft(x) * twice).real, rtol=1e-8, atol=1e-6)


def _ends(size):
    """1 for the elements of a spectrum that are their own conjugates, else 0."""
    found = np.zeros(size)
    found[[0, size // 2]] = 1
    return found
