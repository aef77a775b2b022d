"""Corners of NumPy's functions: dtypes of weak operands, nan, views, and what NumPy refuses."""

import numpy as np
import pytest

import zenith
from zenith.errors import CheckError, OutOfBoundsError, ShapeError

F = np.float32


def written_by_rollaxis(x):
    y = x.copy()
    np.rollaxis(y, 1)[0] = 0
    return y


def written_by_conj(x):
    y = x.copy()
    y.conj()[0] = 5
    return y


def put_by_a_mask(x, m):
    y = x.copy()
    np.putmask(y, m, 9.0)
    return y


def placed(x, m):
    y = x.copy()
    np.place(y, m, [9.0, 8.0])
    return y


def put_nothing(x, i, v):
    y = x.copy()
    np.put(y, i, v)
    return y


X, NAN = np.arange(6.0).reshape(2, 3), np.nan
BYTES, SMALL = np.array([200, 100, 50], np.uint8), np.array([-100, 100, 101], np.int8)
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
    (
        "histogram2d of two types",
        lambda a, b: np.histogram2d(a, b, 5),
        np.array([0.4, 0.6, 0.6, 0.8, 0.8, 0.3, 0.3, 0.5], F),
        np.array([0.2, 0.5, 0.5, 0.2, 0.6, 0.6, 0.1, 0.8]),
    ),
    ("geomspace of float32", lambda x: np.geomspace(x[1], x[3], 4), np.arange(1, 6, dtype=F)),
    ("geomspace of complex64", lambda x: np.geomspace(x[1], x[3], 4), np.arange(1, 6, dtype=np.complex64)),
    ("geomspace in float32", lambda x: np.geomspace(x[1], x[3], 4, dtype=F), np.arange(1, 6, dtype=F)),
    ("powers of bools", lambda x: (x**2, x**1, x**3, np.power(x, 2)), np.array([True, False])),
    ("cosh that overflows", lambda z: (np.cosh(z), np.cos(z)), np.array([800 + 0j, complex(-800, -0.0), 1j, 0])),
    ("arctanh of large numbers", lambda z: (np.arctanh(z), np.arctan(z)), np.array([1e308 + 0j, 1e300 + 1j, 0.5])),
    ("sort_complex of nan", lambda z: np.sort_complex(z), np.array([3 + 1j, complex(1, NAN), 2, complex(NAN, 1)])),
    ("var in complex numbers", lambda x: (np.var(x, dtype=complex), np.nanvar(x, dtype=complex)), np.arange(5.0)),
    (
        "nanmean in float64",
        lambda z: (np.nanmean(z, dtype=np.float64), np.nanvar(z, dtype=np.float64)),
        np.array([1 + 1j, complex(5, NAN), 3]),
    ),
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
    (
        "nothing of what is sorted",
        lambda x: (np.sort(x)[:0], np.argsort(x)[:0], np.partition(x, 1)[:0]),
        np.array([3.0, 1, 2]),
    ),
    ("put nothing", put_nothing, np.array([1.0, 2]), np.array([], int), np.array([])),
    (
        "isin of int64 and uint64",
        lambda x, y: (np.isin(x, y), np.isin(y, x)),
        np.array([2**63 - 1, 5, -1]),
        np.array([2**63, 5, 2**64 - 1], np.uint64),
    ),
    ("unwrap", lambda x: np.unwrap(x), np.array([0, np.pi], F)),
    ("histogram2d in a range", lambda x: np.histogram2d(x, x, bins=10, range=[(0, 1), (0, 1)]), np.array([0.7], F)),
    ("histogram2d of float32", lambda x: np.histogram2d(x, x, bins=5), np.array([0.7, 0.1, 0.3], F)),
    ("histogram2d of integers", lambda x: np.histogram2d(x, x, bins=5), np.array([7, 1, 3])),
    ("setxor1d of nan", lambda x, y: np.setxor1d(x, y), np.array([np.nan]), np.array([1.0])),
    (
        "setxor1d of several nan",
        lambda x, y: np.setxor1d(x, y),
        np.array([np.nan, 2, np.nan]),
        np.array([1.0, np.nan, 2, 3]),
    ),
    ("setxor1d of integers", lambda x, y: np.setxor1d(x, y), np.array([5, 2, 2]), np.array([1, 2, 3, 3])),
    ("rollaxis", written_by_rollaxis, np.ones((2, 3))),
    ("conj", written_by_conj, np.zeros(2)),
    ("conj of bools", lambda x: x.conj(), np.array([True])),
    ("conj of complex numbers", lambda x: x.conj(), np.array([1j])),
    ("diff of order 0", lambda x: np.diff(x, n=0, prepend=0.0), np.arange(3.0)),
    ("diff of order -1", lambda x: np.diff(x, n=-1), np.arange(3.0)),
    ("min from infinity", lambda x: np.min(x, initial=np.inf), np.array([3, 4])),
    ("sum from a half", lambda x: np.sum(x, initial=2.5), np.array([3, 4])),
    ("max from float32", lambda x: np.max(x, initial=np.float32(2)), np.array([3, 4])),
    ("insert nan", lambda x: np.insert(x, 1, np.nan), np.array([1, 2])),
    ("insert a fraction", lambda x: np.insert(x, 1, 2.7), np.array([1, 2])),
    ("ediff1d to a fraction", lambda x: np.ediff1d(x, to_end=0.9), np.array([1, 5])),
    ("ediff1d of bytes", lambda x: np.ediff1d(x, to_end=[9, 8]), np.array([1, 5], np.int8)),
    ("ramp of integers", lambda x: np.pad(x, (4, 0), "linear_ramp", end_values=0.9), np.array([10])),
    ("var in float32", lambda x: np.var(x, dtype=F), np.array([1e8, 1e8 + 1, 1e8 + 2])),
    ("std in float64", lambda x: np.std(x, dtype=np.float64), np.array([1.0, 2, 4], F)),
    ("var of float16", lambda x: np.var(x), np.array([1.0, 2, 4], np.float16)),
    ("var of complex numbers", lambda x: np.var(x), np.array([1.0, 2j, 4], np.complex64)),
    ("isclose to an integer", lambda x: np.isclose(x, 2049, rtol=0, atol=1.5), np.array([2050], np.float16)),
    ("select of float32", lambda x: np.select([x > 1, x > 0], [x, 2.0]), np.ones(3, F)),
    ("select of int8", lambda x: np.select([x > 1, x > 0], [x, 1]), np.ones(3, np.int8)),
    ("gradient at coordinates", lambda y: np.gradient(y, [0, 1, 3]), np.ones(3, F)),
    ("gradient by float64", lambda y: np.gradient(y, np.float64(2)), np.ones(3, F)),
    ("gradient of integers", lambda y: np.gradient(y, 2), np.arange(3)),
    ("nan_to_num by float64", lambda x: np.nan_to_num(x, nan=np.float64(0)), np.ones(3, F)),
    (
        "nan_to_num of infinities",
        lambda x: np.nan_to_num(x, nan=1, posinf=np.float64(3)),
        np.array([np.inf, -np.inf, np.nan], F),
    ),
    (
        "polyfit with covariances of columns",
        lambda x, y: np.polyfit(x, y, 1, cov=True)[1],
        np.arange(5.0),
        np.arange(5.0)[:, None] ** 2,
    ),
    (
        "polyfit unscaled",
        lambda x, y: np.polyfit(x, y, 1, cov="unscaled")[1],
        np.arange(5.0),
        np.arange(10.0).reshape(5, 2) ** 2,
    ),
    ("polyfit with covariances", lambda x, y: np.polyfit(x, y, 1, cov=True)[1], np.arange(5.0), np.arange(5.0) ** 2),
    (
        "quantile at midpoints",
        lambda x, q: np.quantile(x, q, method="midpoint"),
        np.arange(4, dtype=F),
        np.array([0.3], F),
    ),
    ("choose", lambda i, x: np.choose(i, [x, 0.0]), np.array([0, 1]), np.ones(2, F)),
    ("dot with a float", lambda x: np.dot(x, 2.0), np.ones(3, F)),
    ("inner with a float", lambda x: np.inner(x, 2.0), np.ones(3, F)),
    ("dot with an argument", lambda x, s: np.dot(x, s), np.ones(3, F), 2.0),
    ("dot with an integer", lambda x: x.dot(2), np.ones(3, F)),
    ("searchsorted of a float", lambda a, v: np.searchsorted(a, v, side="right"), np.array([0.1], F), 0.1),
    ("outer with a float", lambda x, s: np.add.outer(x, s), np.ones(2, F), 2.0),
    ("polyval at a float", lambda x, s: np.polyval(x, s), np.ones(2, F), 2.0),
    ("pad with too few pairs", lambda x: np.pad(x, ((1, 1), (2, 2)), "edge"), np.ones((2, 2, 2))),
    ("vecdot of two lengths", lambda x, y: np.vecdot(x, y), np.ones(3), np.ones(1)),
    ("vecdot of rows", lambda x, y: np.vecdot(x, y), np.ones((2, 3)), np.ones(3)),
    ("putmask of another size", put_by_a_mask, np.zeros((2, 3)), np.array([True, False, True])),
    ("putmask", put_by_a_mask, np.zeros((2, 3)), np.array([[True, False, True]] * 2)),
    ("place", placed, np.zeros((2, 3)), np.array([[True, False, True]] * 2)),
    ("isposinf of complex numbers", lambda z: np.isposinf(z), np.array([1j * np.inf])),
    ("array_split by 0", lambda x: np.array_split(x, 0), np.arange(4.0)),
    ("norm of three axes", lambda x: np.linalg.norm(x, axis=(0, 1, 2)), np.ones((2, 2, 2))),
    ("norm of all axes", lambda x: np.linalg.norm(x), np.ones((2, 2, 2))),
    ("average with other weights", lambda x: np.average(x, weights=np.ones((1, 3))), np.ones((2, 3))),
    ("polyint from a complex number", lambda x: np.polyint(x, k=1j), np.array([1.0, 2.0])),
    ("polyint of float32", lambda x: np.polyint(x), np.array([1.0, 2.0], F)),
]


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _flat(item)]
    return [np.asarray(value)]


@pytest.mark.parametrize(("function", "args"), [pytest.param(f, args, id=name) for name, f, *args in CASES])
@pytest.mark.filterwarnings("ignore")
def test_results_are_those_of_numpy(function, args):
    def given():
        return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]

    try:
        expected = _flat(function(*given()))
    except (ValueError, TypeError, OverflowError):
        with pytest.raises(zenith.ZenithError):
            zenith.jit(function)(*given())
        return
    found = _flat(zenith.jit(function)(*given()))
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_einsum_keeps_the_axes_of_its_dots():
    with pytest.raises(ShapeError, match="leaves out"):
        zenith.jit(lambda x: np.einsum("...i->i", x))(np.ones((2, 3)))
    np.testing.assert_array_equal(zenith.jit(lambda x: np.einsum("...i->i", x))(np.arange(3.0)), np.arange(3.0))


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
