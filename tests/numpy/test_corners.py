"""Corners of NumPy's functions: dtypes of weak operands, nan, views, and what NumPy refuses."""

import numpy as np
import pytest

import zenith

F = np.float32


def w4(x):
    y = x.copy()
    np.rollaxis(y, 1)[0] = 0
    return y


def w5(x):
    y = x.copy()
    y.conj()[0] = 5
    return y


def w23(x, m):
    y = x.copy()
    np.putmask(y, m, 9.0)
    return y


def w23b(x, m):
    y = x.copy()
    np.place(y, m, [9.0, 8.0])
    return y


CASES = [
    ("1", lambda x: np.unwrap(x), np.array([0, np.pi], F)),
    ("2", lambda x: np.histogram2d(x, x, bins=10, range=[(0, 1), (0, 1)]), np.array([0.7], F)),
    ("2b", lambda x: np.histogram2d(x, x, bins=5), np.array([0.7, 0.1, 0.3], F)),
    ("2c", lambda x: np.histogram2d(x, x, bins=5), np.array([7, 1, 3])),
    ("3", lambda x, y: np.setxor1d(x, y), np.array([np.nan]), np.array([1.0])),
    ("3b", lambda x, y: np.setxor1d(x, y), np.array([np.nan, 2, np.nan]), np.array([1.0, np.nan, 2, 3])),
    ("3c", lambda x, y: np.setxor1d(x, y), np.array([5, 2, 2]), np.array([1, 2, 3, 3])),
    ("4", w4, np.ones((2, 3))),
    ("5", w5, np.zeros(2)),
    ("5b", lambda x: x.conj(), np.array([True])),
    ("5c", lambda x: x.conj(), np.array([1j])),
    ("6", lambda x: np.diff(x, n=0, prepend=0.0), np.arange(3.0)),
    ("6b", lambda x: np.diff(x, n=-1), np.arange(3.0)),
    ("7", lambda x: np.min(x, initial=np.inf), np.array([3, 4])),
    ("7b", lambda x: np.sum(x, initial=2.5), np.array([3, 4])),
    ("7c", lambda x: np.max(x, initial=np.float32(2)), np.array([3, 4])),
    ("8", lambda x: np.insert(x, 1, np.nan), np.array([1, 2])),
    ("8b", lambda x: np.insert(x, 1, 2.7), np.array([1, 2])),
    ("9", lambda x: np.ediff1d(x, to_end=0.9), np.array([1, 5])),
    ("9b", lambda x: np.ediff1d(x, to_end=[9, 8]), np.array([1, 5], np.int8)),
    ("10", lambda x: np.pad(x, (4, 0), "linear_ramp", end_values=0.9), np.array([10])),
    ("11", lambda x: np.var(x, dtype=F), np.array([1e8, 1e8 + 1, 1e8 + 2])),
    ("11b", lambda x: np.std(x, dtype=np.float64), np.array([1.0, 2, 4], F)),
    ("11c", lambda x: np.var(x), np.array([1.0, 2, 4], np.float16)),
    ("11d", lambda x: np.var(x), np.array([1.0, 2j, 4], np.complex64)),
    ("12", lambda x: np.isclose(x, 2049, rtol=0, atol=1.5), np.array([2050], np.float16)),
    ("13", lambda x: np.select([x > 1, x > 0], [x, 2.0]), np.ones(3, F)),
    ("13b", lambda x: np.select([x > 1, x > 0], [x, 1]), np.ones(3, np.int8)),
    ("14", lambda y: np.gradient(y, [0, 1, 3]), np.ones(3, F)),
    ("14b", lambda y: np.gradient(y, np.float64(2)), np.ones(3, F)),
    ("14c", lambda y: np.gradient(y, 2), np.arange(3)),
    ("15", lambda x: np.nan_to_num(x, nan=np.float64(0)), np.ones(3, F)),
    ("15b", lambda x: np.nan_to_num(x, nan=1, posinf=np.float64(3)), np.array([np.inf, -np.inf, np.nan], F)),
    ("16", lambda x, y: np.polyfit(x, y, 1, cov=True)[1], np.arange(5.0), np.arange(5.0)[:, None] ** 2),
    ("16b", lambda x, y: np.polyfit(x, y, 1, cov="unscaled")[1], np.arange(5.0), np.arange(10.0).reshape(5, 2) ** 2),
    ("16c", lambda x, y: np.polyfit(x, y, 1, cov=True)[1], np.arange(5.0), np.arange(5.0) ** 2),
    ("17", lambda x, q: np.quantile(x, q, method="midpoint"), np.arange(4, dtype=F), np.array([0.3], F)),
    ("18", lambda i, x: np.choose(i, [x, 0.0]), np.array([0, 1]), np.ones(2, F)),
    ("19", lambda x: np.dot(x, 2.0), np.ones(3, F)),
    ("19b", lambda x: np.inner(x, 2.0), np.ones(3, F)),
    ("19c", lambda x, s: np.dot(x, s), np.ones(3, F), 2.0),
    ("19d", lambda x: x.dot(2), np.ones(3, F)),
    ("20a", lambda a, v: np.searchsorted(a, v, side="right"), np.array([0.1], F), 0.1),
    ("20b", lambda x, s: np.add.outer(x, s), np.ones(2, F), 2.0),
    ("20c", lambda x, s: np.polyval(x, s), np.ones(2, F), 2.0),
    ("21", lambda x: np.pad(x, ((1, 1), (2, 2)), "edge"), np.ones((2, 2, 2))),
    ("22", lambda x, y: np.vecdot(x, y), np.ones(3), np.ones(1)),
    ("22b", lambda x, y: np.vecdot(x, y), np.ones((2, 3)), np.ones(3)),
    ("23", w23, np.zeros((2, 3)), np.array([True, False, True])),
    ("23b", w23, np.zeros((2, 3)), np.array([[True, False, True]] * 2)),
    ("23c", w23b, np.zeros((2, 3)), np.array([[True, False, True]] * 2)),
    ("24", lambda z: np.isposinf(z), np.array([1j * np.inf])),
    ("25", lambda x: np.array_split(x, 0), np.arange(4.0)),
    ("26", lambda x: np.linalg.norm(x, axis=(0, 1, 2)), np.ones((2, 2, 2))),
    ("26b", lambda x: np.linalg.norm(x), np.ones((2, 2, 2))),
    ("27", lambda x: np.average(x, weights=np.ones((1, 3))), np.ones((2, 3))),
    ("28", lambda x: np.polyint(x, k=1j), np.array([1.0, 2.0])),
    ("28b", lambda x: np.polyint(x), np.array([1.0, 2.0], F)),
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
