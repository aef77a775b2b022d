"""Products with a shape of their own: Kronecker's, the cross product, convolutions.

A convolution reads each window of one row where it lies, and a sum over the window is one kernel; no window is stored.
"""

from __future__ import annotations

import numpy as np

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.types import kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.joining import flip, stack
from zenith.numpy.operands import (
    as_array,
    ask,
    convert,
    dims_of,
    normal_axis,
    require,
    result_dtype,
    shape_text,
)
from zenith.numpy.shaping import moveaxis
from zenith.numpy.typing import Array, ArrayLike, Axis
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["convolve", "correlate", "cross", "kron"]


@implements(np.kron)
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker's product: every element of ``a`` replaced by its product with the whole of ``b``.

    >>> kron([1, 10], [1, 2, 3])
    array([ 1,  2,  3, 10, 20, 30])
    """
    x, y = as_array(a), as_array(b)
    rank = max(x.ndim, y.ndim)
    left = (*[dim(1)] * (rank - x.ndim), *dims_of(x))
    right = (*[dim(1)] * (rank - y.ndim), *dims_of(y))
    first = _reshape(x, tuple(n for size in left for n in (size, dim(1))))
    second = _reshape(y, tuple(n for size in right for n in (dim(1), size)))
    return _reshape(ew.multiply(first, second), tuple(n * m for n, m in zip(left, right, strict=True)))


def _reshape(x: Array, shape: tuple[Dim, ...]) -> Array:
    return x if dims_of(x) == shape else b.reshape(x, shape=shape)


@implements(np.cross)
def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Axis = None) -> Array:
    """The cross product of vectors of three components along ``axis`` (or an axis of each array).

    Raises ShapeError for another number of components.

    >>> cross([1, 0, 0], [0, 1, 0])
    array([0, 0, 1])
    """
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    rows = []
    for array, at in ((as_array(a), axisa), (as_array(b), axisb)):
        row = moveaxis(array, normal_axis("cross", at, array.ndim), -1)
        require(dims_of(row)[-1], "==", 3, "cross needs vectors of three components")
        rows.append([row[..., i] for i in range(3)])
    (x, y, z), (u, v, w) = rows
    pairs = ((y, w, z, v), (z, u, x, w), (x, v, y, u))
    components = [ew.subtract(ew.multiply(p, q), ew.multiply(r, s)) for p, q, r, s in pairs]
    return moveaxis(stack(components, -1), -1, axisc)


# --- convolutions ----------------------------------------------------------------------------------------------


@implements(np.convolve)
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array:
    """The convolution of two rows: element k is the sum of ``a[i] * v[k - i]``.

    The longer row is continued with zeros, so that nan and infinities of the shorter one reach every element.

    Parameters
    ----------
    a, v: rows with an element each; their element types are promoted.
    mode: "full" gives all positions where they overlap, "same" as many as the longer row has, from the middle, and
        "valid" those where the shorter lies inside the longer.

    Raises ShapeError for other ranks and rows without elements, ArgumentError for another mode.

    >>> convolve([1, 2, 3], [0, 1, 0.5])
    array([0. , 1. , 2.5, 4. , 1.5])
    """
    x, y = _rows("convolve", a, v)
    (n,), (m,) = dims_of(x), dims_of(y)
    if ask(m, ">", n):
        x, y, n, m = y, x, m, n
    return _windows(x, flip(y), *_output_range("convolve", mode, n, m))


@implements(np.correlate)
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array:
    """The cross-correlation of two rows: element k is the sum of ``a[i + k] * conj(v[i])``.

    Arguments are as in :func:`convolve`.

    >>> correlate([1, 2, 3], [0, 1, 0.5])
    array([3.5])
    """
    x, y = _rows("correlate", a, v)
    y = ew.conjugate(y) if kind_of(y.dtype) == "c" else y
    (n,), (m,) = dims_of(x), dims_of(y)
    if ask(m, ">", n):
        return flip(_windows(y, x, *_output_range("correlate", mode, m, n)))
    return _windows(x, y, *_output_range("correlate", mode, n, m))


def _rows(name: str, a: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    x, y = (as_array(value) for value in (a, v))
    x, y = (b.reshape(r, shape=(1,)) if r.ndim == 0 else r for r in (x, y))
    if x.ndim != 1 or y.ndim != 1:
        what = f"{name} needs two rows, not {shape_text(dims_of(x))} and {shape_text(dims_of(y))}"
        raise ShapeError(what, where=user_line(), fix="apply it to rows: zenith.vmap")
    for row in (x, y):
        require(dims_of(row)[0], ">=", 1, f"{name} needs rows with an element")
    common = result_dtype(name, (x, y))
    return convert(x, common), convert(y, common)


def _output_range(name: str, mode: str, longer: Dim, shorter: Dim) -> tuple[Dim, Dim]:
    """The start and stop of the range of the full result that a mode gives."""
    match mode:
        case "full":
            return dim(0), longer + shorter - 1
        case "same":
            return (shorter - 1) // 2, (shorter - 1) // 2 + longer
        case "valid":
            return shorter - 1, longer
    raise ArgumentError(f"{name}: {mode!r} is no mode", where=user_line(), fix="use 'full', 'same' or 'valid'")


def _windows(x: Array, y: Array, start: Dim, stop: Dim) -> Array:
    """The sums of products of ``y`` with each window of ``x`` that overlaps it, from window ``start`` to ``stop``."""
    (m,) = dims_of(y)
    zero = np.zeros((), x.dtype)
    padded = b.pad(x, zero, low=(m - 1,), high=(m - 1,), interior=(0,))
    read = b.slice(padded, start=(start,), stop=(stop + m - 1,), step=(1,))
    terms = ew.multiply(b.windows(read, window=(m,), stride=(1,), dilation=(1,)), y)
    if x.dtype.kind == "b":
        return reductions.any(terms, -1)
    return reductions.sum(terms, -1, dtype=x.dtype)
