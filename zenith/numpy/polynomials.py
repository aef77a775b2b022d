"""Polynomials, written by their coefficients from the highest power down, and windows for spectra.

Traced coefficients keep their number: leading zeros are not cut off, since whether they are zeros is known only when
the program runs. The number of coefficients is fixed by :func:`polyval`, whose steps follow one another.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import dim
from zenith.ir.types import int64, is_narrow
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.conditionals import where
from zenith.numpy.creation import arange, ones_like, zeros
from zenith.numpy.equations import inv
from zenith.numpy.joining import concatenate, cut, stack
from zenith.numpy.norms import lstsq
from zenith.numpy.operands import (
    FLOAT64,
    as_array,
    ask,
    compute_array,
    convert,
    dims_of,
    require,
    result_dtype,
    static_int,
    strong,
)
from zenith.numpy.products import convolve
from zenith.numpy.shaping import broadcast_to
from zenith.numpy.typing import Array, ArrayLike, Size
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import UserSize, size_dim, user_size

__all__ = [
    "bartlett", "blackman", "hamming", "hanning", "i0", "kaiser", "poly", "polyadd", "polyder", "polyfit", "polyint",
    "polymul", "polysub", "polyval", "vander",
]  # fmt: skip

UNROLLED = 32  # powers of complex numbers in a Vandermonde matrix that are multiplied one after the other, as by NumPy


def _coefficients(name: str, p: ArrayLike) -> Array:
    row = compute_array(name, p)
    row = b.reshape(row, shape=(1,)) if row.ndim == 0 else row
    if row.ndim != 1:
        raise ShapeError(f"{name} needs a row of coefficients", where=user_line(), fix="use zenith.vmap for several")
    return row


@implements(np.polyval)
def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """The polynomial with coefficients ``p`` at ``x``, by Horner's rule, one step a coefficient.

    >>> polyval([1, 0, -2], [3, 4])
    array([ 7, 14])
    """
    row, point = _coefficients("polyval", p), strong(as_array(x))
    dtype = result_dtype("polyval", (row, point))
    value = convert(ew.multiply(point, 0), dtype)
    for i in range(static_int(row.shape[0], "polyval: the number of coefficients")):
        value = ew.add(ew.multiply(value, point), row[i])
    return value


@implements(np.vander)
def vander(x: ArrayLike, N: Size | None = None, increasing: bool = False) -> Array:
    """The powers of each element of a row, along a second axis: ``N`` of them, by default the highest first.

    >>> vander([1, 2, 3])
    array([[1, 1, 1],
           [4, 2, 1],
           [9, 3, 1]])
    """
    row = compute_array("vander", x)
    if row.ndim != 1:
        raise ShapeError("vander needs a row", where=user_line(), fix="flatten it: numpy.ravel(x)")
    count = dims_of(row)[0] if N is None else size_dim(N, "vander: N")
    dtype = result_dtype("vander", (row, np.int64(1)))
    if dtype.kind == "c" and count.static is not None and 0 < count.static <= UNROLLED:
        powers = [ones_like(row, dtype), *accumulate([convert(row, dtype)] * (count.static - 1), ew.multiply)]
        return stack(powers if increasing else powers[::-1], 1)
    exponent = b.iota(size=count, dtype=int64)
    exponent = exponent if increasing else ew.subtract(user_size(count - 1), exponent)
    column = b.reshape(convert(row, dtype), shape=(*dims_of(row), dim(1)))
    return ew.power(column, exponent if dtype.kind == "c" else convert(exponent, dtype))


def _aligned(name: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Array, Array]:
    """Two polynomials with as many coefficients; zeros in front of the shorter."""
    x, y = _coefficients(name, a1), _coefficients(name, a2)
    (n,), (m,) = dims_of(x), dims_of(y)
    if ask(n, "<", m):
        return _zeros_before(x, m - n), y
    return x, _zeros_before(y, n - m)


def _zeros_before(row: Array, count: Size) -> Array:
    return row if count == 0 else b.pad(row, np.zeros((), row.dtype), low=(count,), high=(0,), interior=(0,))


@implements(np.polyadd)
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    >>> polyadd([1, 2], [9, 5, 4])
    array([9, 6, 6])
    """
    return ew.add(*_aligned("polyadd", a1, a2))


@implements(np.polysub)
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    >>> polysub([2, 10, -2], [3, 10, -4])
    array([-1,  0,  2])
    """
    return ew.subtract(*_aligned("polysub", a1, a2))


@implements(np.polymul)
def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The product of two polynomials, leading zeros included.

    >>> polymul([1, 2, 3], [9, 5, 1])
    array([ 9, 23, 38, 17,  3])
    """
    factors = [_coefficients("polymul", a) for a in (a1, a2)]
    return convolve(*(f if ask(dims_of(f)[0], ">=", 1) else zeros(1, f.dtype) for f in factors))


@implements(np.polyder)
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The ``m``-th derivative of a polynomial.

    >>> polyder([1, 1, 1, 1])
    array([3, 2, 1])
    """
    row = _coefficients("polyder", p)
    for _ in range(_order("polyder", m)):
        (n,) = dims_of(row)
        count = n - 1 if ask(n, ">=", 1) else n
        degree = ew.subtract(user_size(count), b.iota(size=count, dtype=int64))
        row = ew.multiply(cut(row, 0, 0, count), degree)
    return row


@implements(np.polyint)
def polyint(p: ArrayLike, m: int = 1, k: Size | None = None) -> Array:
    """The ``m``-th integral of a polynomial, with constants ``k`` (zeros when None).

    >>> polyint([6, 2])
    array([3., 2., 0.])
    """
    row = _coefficients("polyint", p)
    times = _order("polyint", m)
    constants = broadcast_to(0.0 if k is None else k, (times,))
    kind = result_dtype("polyint", (row, constants, 1.0))
    for i in range(times):
        (n,) = dims_of(row)
        degree = ew.subtract(user_size(n), b.iota(size=n, dtype=int64))
        raised = ew.divide(row, degree)
        row = concatenate([convert(raised, kind), convert(constants[i : i + 1], kind)])
    return row


@implements(np.polyfit)
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: ArrayLike | None = None, full: bool = False,
    w: ArrayLike | None = None, cov: bool | str = False,
) -> Any:  # fmt: skip
    """The polynomial of degree ``deg`` with the smallest squares of distances from points, by its coefficients.

    Parameters
    ----------
    x, y: the points' coordinates (n,); ``y`` may have several columns (n, k), each with a polynomial of its own.
    deg: the degree, an int.
    rcond: singular values up to ``rcond`` times the largest count as zero; n times the type's precision by default.
    full: whether to return the sum of squared errors, the rank, the singular values and ``rcond``, too.
    w: a weight for each distance (n,), not squared.
    cov: whether to return the coefficients' covariances, too; ``"unscaled"`` takes the weights as they are.

    NumPy's warning of a lower rank is not given: the rank is known when the program runs.

    >>> polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).round(6)
    array([2., 1.])
    """
    degree = static_int(deg, "polyfit: deg")
    if degree < 0:
        raise ArgumentError(f"polyfit: the degree {degree} is negative", where=user_line(), fix="use 0 or more")
    point, value = (compute_array("polyfit", v) for v in (x, y))
    if point.ndim != 1 or value.ndim not in (1, 2):
        raise ShapeError(
            "polyfit takes a row of points, and a row or columns of values",
            where=user_line(),
            fix="flatten the points: numpy.ravel(x)",
        )
    point, value = ew.add(point, 0.0), ew.add(value, 0.0)
    count = dims_of(point)[0]
    require(count, "==", dims_of(value)[0], "polyfit: there must be as many values as points")
    powers = vander(point, degree + 1)
    if w is not None:
        weight = ew.add(compute_array("polyfit", w), 0.0)
        powers = ew.multiply(powers, b.reshape(weight, shape=(*dims_of(weight), dim(1))))
        value = ew.multiply(value if value.ndim == 1 else value.T, weight)
        value = value if value.ndim == 1 else value.T
    limit = ew.multiply(user_size(count), float(np.finfo(point.dtype).eps)) if rcond is None else rcond
    scale = ew.sqrt(reductions.sum(ew.multiply(powers, powers), 0))
    found, squares, rank, values = lstsq(ew.divide(powers, scale), value, limit)
    found = ew.divide(found.T, scale).T
    if full:
        return found, squares, rank, values, limit
    if not cov:
        return found
    return found, _covariances(ew.divide(powers, scale), scale, squares if value.ndim > 1 else squares[0], cov)


def _covariances(powers: Array, scale: Array, squares: Array, cov: bool | str) -> Any:
    """Those of the coefficients, for each column of values."""
    base = ew.divide(inv(powers.T @ powers), ew.multiply(scale[:, None], scale))
    if cov == "unscaled":
        return base if not squares.ndim else base[:, :, None]
    rows, columns = powers.shape
    require(dims_of(powers)[0], ">", dims_of(powers)[1], "polyfit: covariances need more points than coefficients")
    factor = ew.divide(squares, ew.subtract(rows, columns))
    return ew.multiply(base if not squares.ndim else base[:, :, None], factor)


def _order(name: str, m: int) -> int:
    order = static_int(m, f"{name}: m")
    if order < 0:
        raise ArgumentError(f"{name}: the order {order} is negative", where=user_line(), fix="use 0 or more")
    return order


@implements(np.poly)
def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with the given zeros, leading coefficient 1, one step a zero.

    >>> poly([1.0, 2.0])
    array([ 1., -3.,  2.])
    """
    roots = _coefficients("poly", seq_of_zeros)
    dtype = result_dtype("poly", (roots, 1.0))
    row: Any = np.ones(1, FLOAT64 if is_narrow(dtype) else dtype)
    for i in range(static_int(roots.shape[0], "poly: the number of zeros")):
        root = roots[i].reshape(1)
        row = concatenate([row, np.zeros(1, row.dtype)]) - concatenate([np.zeros(1, row.dtype), row * root])
    return row


# --- windows ---------------------------------------------------------------------------------------------------


def _centred(M: ArrayLike) -> tuple[Array, UserSize]:
    """1 - M, 3 - M, ... and M: twice the distances from the middle of a window of M points."""
    count = size_dim(M, "the number of points of a window")
    return ew.subtract(ew.multiply(arange(user_size(count)), 2.0), user_size(count - 1)), user_size(count)


def _cosines(M: ArrayLike, weights: tuple[float, ...]) -> Array:
    """Sums of cosines over a window; 1 where it has one point."""
    distance, count = _centred(M)
    angle = ew.divide(ew.multiply(distance, np.pi), ew.maximum(ew.subtract(count, 1), 1))
    total: Any = convert(ew.multiply(angle, 0.0), FLOAT64)
    for i, weight in enumerate(weights):
        total = ew.add(total, ew.multiply(ew.cos(ew.multiply(angle, float(i))), weight))
    return where(ew.equal(count, 1), 1.0, total)


def bartlett(M: ArrayLike) -> Array:
    """The triangular window of ``M`` points, with zeros at both ends; float64.

    >>> bartlett(5)
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    distance, count = _centred(M)
    return ew.subtract(1.0, ew.divide(ew.absolute(distance), ew.maximum(ew.subtract(count, 1), 1)))


def hanning(M: ArrayLike) -> Array:
    """The window 0.5 - 0.5 cos, of ``M`` points; float64.

    >>> hanning(5).round(3)
    array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return _cosines(M, (0.5, 0.5))


def hamming(M: ArrayLike) -> Array:
    """The window 0.54 - 0.46 cos, of ``M`` points; float64.

    >>> hamming(3).round(3)
    array([0.08, 1.  , 0.08])
    """
    return _cosines(M, (0.54, 0.46))


def blackman(M: ArrayLike) -> Array:
    """The window 0.42 - 0.5 cos + 0.08 cos of twice the angle, of ``M`` points; float64.

    >>> blackman(3).round(3) + 0.0
    array([0., 1., 0.])
    """
    return _cosines(M, (0.42, 0.5, 0.08))


@implements(np.i0, gives="boxed")
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind, order 0; float64 of integers.

    >>> i0([0.0, 1.0]).round(4)
    array([1.    , 1.2661])
    """
    return ew.SPECIAL["i0"](convert(x, result_dtype("i0", (x, 1.0))))


def kaiser(M: ArrayLike, beta: ArrayLike) -> Array:
    """Kaiser's window of ``M`` points and shape ``beta``; float64.

    >>> kaiser(3, 0.0)
    array([1., 1., 1.])
    """
    distance, count = _centred(M)
    ratio = ew.divide(distance, ew.maximum(ew.subtract(count, 1), 1))
    inside = ew.maximum(ew.subtract(1.0, ew.multiply(ratio, ratio)), 0.0)
    return ew.divide(i0(ew.multiply(ew.sqrt(inside), beta)), i0(beta))
