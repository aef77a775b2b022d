"""Further corners: fills and widths that do not fit, edges of bins, complex overflow, indices outside."""

import numpy as np
import pytest

import zenith
from zenith.errors import CheckError, OutOfBoundsError, ShapeError

X = np.arange(6.0).reshape(2, 3)
F = np.float32
NAN = np.nan


def put_nothing(x, i, v):
    y = x.copy()
    np.put(y, i, v)
    return y


CASES = [
    ("full_like of a row", lambda x, y: np.full_like(x, y), X, np.arange(3.0)),
    ("full_like of a column", lambda x, y: np.full_like(x, y), X, np.arange(2.0)[:, None]),
    ("full_like that does not fit", lambda x, y: np.full_like(x, y), np.zeros((3, 1000)), np.arange(2.0)),
    ("full_like of too many", lambda x, y: np.full_like(x, y), X, np.arange(4.0)),
    ("full_like of too many rows", lambda x, y: np.full_like(x, y), X, np.ones((3, 1))),
    ("full that does not fit", lambda x, y: np.full((x.shape[0], 3), y), X, np.arange(2.0)),
    ("full of a number", lambda x: np.full((2, 3), x[0, 0]), X),
    ("digitize in falling bytes", lambda x: np.digitize(x, BYTES), np.array([10, 60, 120, 250])),
    ("digitize in int8", lambda x: np.digitize(x, SMALL), np.array([10, 60, 120, 250])),
    ("histogram2d of two types", lambda a, b: np.histogram2d(a, b, 5),
     np.array([0.4, 0.6, 0.6, 0.8, 0.8, 0.3, 0.3, 0.5], F), np.array([0.2, 0.5, 0.5, 0.2, 0.6, 0.6, 0.1, 0.8])),
    ("geomspace of float32", lambda x: np.geomspace(x[1], x[3], 4), np.arange(1, 6, dtype=F)),
    ("geomspace of complex64", lambda x: np.geomspace(x[1], x[3], 4), np.arange(1, 6, dtype=np.complex64)),
    ("geomspace in float32", lambda x: np.geomspace(x[1], x[3], 4, dtype=F), np.arange(1, 6, dtype=F)),
    ("powers of bools", lambda x: (x**2, x**1, x**3, np.power(x, 2)), np.array([True, False])),
    ("cosh that overflows", lambda z: (np.cosh(z), np.cos(z)), np.array([800 + 0j, complex(-800, -0.0), 1j, 0])),
    ("arctanh of large numbers", lambda z: (np.arctanh(z), np.arctan(z)), np.array([1e308 + 0j, 1e300 + 1j, 0.5])),
    ("sort_complex of nan", lambda z: np.sort_complex(z), np.array([3 + 1j, complex(1, NAN), 2, complex(NAN, 1)])),
    ("var in complex numbers", lambda x: (np.var(x, dtype=complex), np.nanvar(x, dtype=complex)), np.arange(5.0)),
    ("nanmean in float64", lambda z: (np.nanmean(z, dtype=np.float64), np.nanvar(z, dtype=np.float64)),
     np.array([1 + 1j, complex(5, NAN), 3])),
    ("pad integers by nan", lambda x: np.pad(x, 1, constant_values=NAN), np.arange(3)),
    ("pad by three widths", lambda x: np.pad(x, (1, 2, 3)), np.arange(3)),
    ("pad by one width", lambda x: np.pad(x, (1,)), np.arange(3)),
    ("rfft2 over an axis twice", lambda x: np.fft.rfft2(x, axes=(0, 0)), np.arange(12.0).reshape(4, 3)),
    ("fftn of too many sizes", lambda x: np.fft.fftn(x, s=(2, 3)), np.ones(4)),
    ("irfft of float16", lambda x: np.fft.irfft(x), np.ones(4, np.float16)),
    ("ravel_multi_index", lambda i: np.ravel_multi_index((i, i), (3, 5)), np.array([1, 2])),
    ("unravel_index", lambda x: np.unravel_index(np.argmax(x), x.shape), X),
    ("putmask of another type", lambda a, v: np.putmask(a, a > 0, v), np.arange(3), np.arange(3.0)),
    ("select by integers", lambda c: np.select([c], [c * 2]), np.array([1, 0])),
    ("choose by floats", lambda c: np.choose(c, [c, c * 2]), np.array([1.0, 0])),
    ("nothing of what is sorted", lambda x: (np.sort(x)[:0], np.argsort(x)[:0], np.partition(x, 1)[:0]),
     np.array([3.0, 1, 2])),
    ("put nothing", put_nothing, np.array([1.0, 2]), np.array([], int), np.array([])),
]  # fmt: skip
BYTES, SMALL = np.array([200, 100, 50], np.uint8), np.array([-100, 100, 101], np.int8)


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _flat(item)]
    return [np.asarray(value)]


@pytest.mark.parametrize(("function", "args"), [pytest.param(f, args, id=name) for name, f, *args in CASES])
@pytest.mark.filterwarnings("ignore")
def test_results_are_those_of_numpy(function, args):
    try:
        expected = _flat(function(*[arg.copy() for arg in args]))
    except (ValueError, TypeError):
        with pytest.raises((ValueError, TypeError)):
            zenith.jit(function)(*args)
        return
    found = _flat(zenith.jit(function)(*args))
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_traced_coordinates_outside_of_a_shape_are_errors():
    compiled = zenith.jit(lambda i: np.ravel_multi_index((i, i), (3, 5)))
    np.testing.assert_array_equal(compiled(np.array([1, 2])), [6, 12])
    with pytest.raises(CheckError, match="outside of the shape"):
        compiled(np.array([1, 3]))
    with pytest.raises(CheckError, match="outside of the shape"):
        zenith.jit(lambda i: np.unravel_index(i, (3, 5)))(np.array([1, 15]))


def test_a_known_index_outside_is_an_index_error_in_every_call():
    compiled = zenith.jit(lambda x: x[2])
    assert compiled(np.arange(3.0)) == 2
    with pytest.raises(OutOfBoundsError):
        compiled(np.arange(2.0))
    with pytest.raises(ShapeError):
        zenith.jit(lambda x, y: np.full_like(x, y))(X, np.arange(2.0))


def test_a_mean_for_each_draw_has_to_fit():
    draw = zenith.jit(lambda key, mean: zenith.random.multivariate_normal(key, mean, np.eye(2), shape=(5,)))
    with pytest.raises(ShapeError):
        draw(zenith.random.key(0), np.zeros((2, 2)))
    assert draw(zenith.random.key(0), np.zeros((5, 2))).shape == (5, 2)
