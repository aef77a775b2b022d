"""Functions along axes, piecewise functions and choices; covariances and correlations; against NumPy."""

import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, check, run_traced, values
from zenith.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError

F8 = np.dtype("f8")


def test_functions_of_rows():
    x = values(F8, (3, 4, 2), 1)
    for axis in (0, 1, -1):
        check(lambda xp, a, axis=axis: xp.apply_along_axis(lambda r: np.sort(r)[::-1] * 2, axis, a), x)
        check(lambda xp, a, axis=axis: xp.apply_along_axis(lambda r, p: r.max() - p, axis, a, 1.5), x)
        check(lambda xp, a, axis=axis: xp.apply_along_axis(lambda r: np.outer(r, r), axis, a), x)
    check(lambda xp, a: (xp.apply_over_axes(np.sum, a, [0, 2]), xp.apply_over_axes(np.cumsum, a, 1)), x, ulps=32)
    with pytest.raises(ShapeError, match="changes the number of axes by more than one"):
        znp.apply_over_axes(lambda a, axis: a.sum(), x, 0)


def test_piecewise_functions():
    x = values(F8, (3, 4), 2)
    check(lambda xp, a: xp.piecewise(a, [a < -1, a > 1], [-1, lambda v: v * v, lambda v, k=2: v / k]), x)
    check(lambda xp, a: (xp.piecewise(a[0], a[0] > 0, [1]), xp.piecewise(a, [a > 0, a > 1], [np.exp, 2.7])), x)
    check(lambda xp, a: xp.piecewise(a, [a > 0], [lambda v, s: v + s, lambda v, s: s], 9), x.astype(np.int32))
    check(lambda xp, a: xp.piecewise(a, a > 0, [lambda v: -v]), np.asarray(2.0))
    with pytest.raises(ArgumentError, match="piecewise: 3 functions for 1 conditions"):
        run_traced(lambda a: np.piecewise(a, [a > 0], [1, 2, 3]), x)


def test_choices():
    x, number = values(F8, (3, 4), 3), np.random.default_rng(0).integers(0, 3, (3, 4))
    check(lambda xp, i, a: xp.choose(i, [a, a[0], -1]), number, x)
    for mode in ("wrap", "clip"):
        check(lambda xp, i, a, m=mode: xp.choose(i * 3 - 2, [a, a * 2], mode=m), number, x)
    for dtype in DTYPES:
        check(lambda xp, i, a: xp.choose(i[0], [a[0], a[1], a[2]]), number, values(dtype, (3, 4), 4))
    with pytest.raises(OutOfBoundsError):
        run_traced(lambda i: np.choose(i, [1, 2]), number)
    with pytest.raises(ArgumentError, match="choose: 'spin' is no mode"):
        znp.choose(number, [1, 2, 3], mode="spin")


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "b"], ids=str)
def test_covariances(dtype):
    x, y = values(dtype, (3, 6), 5), values(dtype, (2, 6), 6)
    check(
        lambda xp, a, b: (xp.cov(a), xp.cov(a, b), xp.cov(a, rowvar=False), xp.cov(a[0]), xp.cov(a[0], b[0])),
        x,
        y,
        ulps=64,
    )
    check(lambda xp, a: (xp.cov(a, bias=True), xp.cov(a, ddof=0), xp.cov(a, ddof=2), xp.cov(a[:1])), x, ulps=64)
    if dtype.kind == "f":
        check(lambda xp, a, b: (xp.corrcoef(a), xp.corrcoef(a, b), xp.corrcoef(a[0])), x, y, ulps=64)
        check(lambda xp, a: xp.cov(a, dtype=np.float32), x, ulps=64)


def test_weighted_covariances():
    x, often, weight = values(F8, (3, 5), 7), np.array([1, 2, 0, 3, 1]), np.array([0.5, 1.0, 2.0, 0.1, 1.5])
    check(
        lambda xp, a, f, w: (xp.cov(a, fweights=f), xp.cov(a, None, True, False, None, f, w)), x, often, weight, ulps=64
    )
    check(lambda xp, a, w: xp.cov(a, aweights=w, bias=True), x, weight, ulps=64)
    with pytest.raises(DTypeError, match="fweights must be integers"):
        znp.cov(x, fweights=weight)
    with pytest.raises(ArgumentError, match="one of aweights is negative"):
        znp.cov(x, aweights=-weight)
    with pytest.raises(ShapeError, match="as many aweights as observations"):
        znp.cov(x, aweights=weight[:2])
    with pytest.raises(ShapeError, match="at most two axes"):
        znp.cov(x[None])
