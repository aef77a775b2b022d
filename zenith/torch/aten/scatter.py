"""Writing at computed indices: scatter, index_put and their like give copies with elements replaced or joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.errors import UnsupportedError
from zenith.ir.types import kind_of
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.rules import Context, rounded_once, rule, to
from zenith.trace.bind import b
from zenith.trace.dispatch import implementation

_JOINS = {"sum": "scatter_add", "add": "scatter_add", "prod": "scatter_mul", "multiply": "scatter_mul",
          "mean": "scatter_add", "amax": "scatter_max", "amin": "scatter_min"}  # fmt: skip
_OF_BOOLS = {"scatter_add": "scatter_max", "scatter_mul": "scatter_min"}


def join(how: str, x: Array, updates: Array, indices: Sequence[Array]) -> Array:
    """``x`` with updates joined to it at indices, one array of them for each leading axis; bools count as 0 and 1."""
    if how == "scatter_set" or kind_of(x.dtype) != "b":
        return getattr(b, how)(x, updates, *indices)
    small = np.dtype(np.int32)
    found = getattr(b, _OF_BOOLS.get(how, how))(to(x, small), to(updates, small), *indices)
    return znp.astype(found, np.bool_)


def _start(how: str, dtype: np.dtype[Any]) -> float:
    """What leaves any element as it is when the two are joined."""
    if how in ("scatter_add", "scatter_mul"):
        return int(how == "scatter_mul")
    lowest = how == "scatter_max"
    if kind_of(dtype) == "f":
        return -np.inf if lowest else np.inf
    if kind_of(dtype) == "b":
        return not lowest
    limits = np.iinfo(dtype)
    return int(limits.min if lowest else limits.max)


def _reduced(how: str, x: Array, updates: Array, indices: Sequence[Array], include_self: bool) -> Array:
    """Updates joined by their sum, prod, mean, amax or amin, with the elements that are there or without them."""
    name = _JOINS[how]
    if include_self:
        found = join(name, x, updates, indices)
    else:
        blank = znp.full(updates.shape, _start(name, x.dtype), dtype=x.dtype)
        found = join(name, b.scatter_set(x, blank, *indices), updates, indices)
    if how != "mean":
        return found
    ones = znp.ones(updates.shape, dtype=znp.int64)
    first = znp.full(x.shape, int(include_self), dtype=znp.int64)
    count = znp.maximum(b.scatter_add(first, ones, *indices), 1)
    return found / to(count, x.dtype) if kind_of(x.dtype) in "fc" else found // to(count, x.dtype)


# --- one index for each element ---------------------------------------------------------------------------------


def indices_along(index: Array, dim: int) -> list[Array]:
    """Indices for each element of ``index``: along ``dim`` its value, along the other axes its own coordinates."""
    indices = []
    for axis, size in enumerate(index.shape):
        own = znp.reshape(znp.arange(size), (-1,) + (1,) * (index.ndim - 1 - axis))
        indices.append(znp.astype(index, np.int64) if axis == dim else znp.broadcast_to(own, index.shape))
    return indices


def _scattered(c: Context, x: Array, dim: int, index: Array, src: Any, how: str | None,
               include_self: bool = True) -> Array:  # fmt: skip
    """The rule of all that scatters; ``src`` is a number, or at least as large as ``index``."""
    if not hasattr(src, "dtype"):
        src = znp.full(index.shape, c.operands(src), dtype=c.dtype)
    if x.ndim and index.ndim != x.ndim:  # PyTorch takes such an index where it is empty
        return x
    if not x.ndim:  # a number is a row of one
        row, column, source = (znp.reshape(v, (-1,)) for v in (x, index, src))
        return znp.reshape(_scattered(c, row, 0, column, source, how, include_self), ())
    x, src = c.cast(x, src[tuple(slice(n) for n in index.shape)])
    indices = indices_along(index, dim % x.ndim)
    return b.scatter_set(x, src, *indices) if how is None else _reduced(how, x, src, indices, include_self)


@rule("scatter.src", "scatter.value")
def _scatter(c: Context, x: Array, dim: int, index: Array, src: Array | complex) -> Array:
    return _scattered(c, x, dim, index, src, None)


@rule("scatter.reduce", "scatter.value_reduce")
@rounded_once
def _scatter_joined(c: Context, x: Array, dim: int, index: Array, src: Array | complex, *, reduce: str) -> Array:
    return _scattered(c, x, dim, index, src, reduce)


@rule("scatter_add")
@rounded_once
def _scatter_add(c: Context, x: Array, dim: int, index: Array, src: Array) -> Array:
    return _scattered(c, x, dim, index, src, "sum")


@rule("scatter_reduce.two")
@rounded_once
def _scatter_reduce(
    c: Context, x: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
) -> Array:
    return _scattered(c, x, dim, index, src, reduce, include_self)


# --- one index for each slice -----------------------------------------------------------------------------------


def _along(c: Context, x: Array, dim: int, index: Array, source: Array, how: str | None,
           include_self: bool = True) -> Array:  # fmt: skip
    """Slices of ``source`` written over, or joined to, those of ``x`` at indices along one axis."""
    x, source = c.cast(x, source)
    if not x.ndim:
        row = _along(c, znp.reshape(x, (1,)), 0, index, znp.reshape(source, (-1,)), how, include_self)
        return znp.reshape(row, ())
    target = znp.moveaxis(x, dim, 0)
    updates = znp.moveaxis(source, dim, 0) if source.ndim == x.ndim else source
    index = znp.astype(znp.reshape(index, (-1,)), np.int64)
    updates = znp.broadcast_to(updates, (*index.shape, *target.shape[1:]))
    if how is None:
        found = b.scatter_set(target, updates, index)
    else:
        found = _reduced(how, target, updates, [index], include_self)
    return znp.moveaxis(found, 0, dim)


@rule("index_add")
@rounded_once
def _index_add(c: Context, x: Array, dim: int, index: Array, source: Array, *, alpha: complex = 1) -> Array:
    return _along(c, x, dim, index, source if alpha == 1 else c.operands(source * c.operands(alpha)), "sum")


@rule("index_copy")
def _index_copy(c: Context, x: Array, dim: int, index: Array, source: Array) -> Array:
    return _along(c, x, dim, index, source, None)


@rule("index_fill.int_Scalar", "index_fill.int_Tensor")
def _index_fill(c: Context, x: Array, dim: int, index: Array, value: Array | complex) -> Array:
    value = znp.reshape(value, ()) if hasattr(value, "dtype") else znp.full((), c.operands(value), dtype=c.dtype)
    return _along(c, x, dim, index, value, None)


@rule("index_reduce")
@rounded_once
def _index_reduce(
    c: Context, x: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
) -> Array:
    return _along(c, x, dim, index, source, reduce, include_self)


# --- NumPy's indices --------------------------------------------------------------------------------------------


@rule("index_put", "_unsafe_index_put")
def _index_put(c: Context, x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Array:
    """Masks select elements to which one value, or one row of values, is written."""
    index = tuple(slice(None) if i is None else i for i in indices)
    result, values = znp.copy(x), c.cast(values)
    if accumulate:
        implementation("_ufunc_at")(np.add if kind_of(c.dtype) != "b" else np.logical_or, result, index, values)
    else:
        result[index] = values
    return result


@rule("put")
def _put(c: Context, x: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """Indices count in the flattened array, from its end where they are negative."""
    flat, index = znp.reshape(x, (-1,)), znp.reshape(index, (-1,))
    return znp.reshape(_index_put(c, flat, [index], znp.reshape(source, (-1,)), accumulate), x.shape)


@rule("take")
def _take(c: Context, x: Array, index: Array) -> Array:
    return znp.take(x, index)


@rule("masked_scatter")
def _masked_scatter(c: Context, x: Array, mask: Array, source: Array) -> Array:
    """The elements that a mask selects take, in order, those of ``source``, which must be enough."""
    x, mask = znp.broadcast_arrays(x, mask)
    chosen = znp.reshape(mask, (-1,))
    number = znp.cumsum(znp.astype(chosen, znp.int64)) - 1
    found = znp.take(znp.reshape(c.cast(source), (-1,)), znp.where(chosen, number, 0))
    return znp.where(mask, znp.reshape(found, x.shape), x)


@rule("masked_scatter_backward")
def _masked_scatter_backward(c: Context, grad: Array, mask: Array, sizes: Sequence[Any]) -> Array:
    """The gradient of the source: what its elements gave, and 0 for those after the last that was taken."""
    grad, mask = (znp.reshape(a, (-1,)) for a in znp.broadcast_arrays(grad, mask))
    number = znp.where(mask, znp.cumsum(znp.astype(mask, znp.int64)) - 1, 0)
    zeros = znp.zeros((math.prod(sizes),), dtype=grad.dtype)
    return znp.reshape(b.scatter_add(zeros, znp.where(mask, grad, 0), number), tuple(sizes))


@rule("as_strided", "as_strided_copy")
def _as_strided(c: Context, x: Array, size: Sequence[Size], stride: Sequence[Size],
                storage_offset: Size | None = None) -> Array:  # fmt: skip
    return znp.take(znp.reshape(x, (-1,)), _by_strides(c, size, stride, storage_offset))


@rule("as_strided_scatter")
def _as_strided_scatter(
    c: Context, x: Array, src: Array, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> Array:
    positions = znp.reshape(_by_strides(c, size, stride, storage_offset), (-1,))
    return znp.reshape(b.scatter_set(znp.reshape(x, (-1,)), znp.reshape(src, (-1,)), positions), x.shape)


def _by_strides(c: Context, size: Sequence[Size], stride: Sequence[Size], offset: Size | None) -> Array:
    """Positions in a dense tensor, as a program sees it: an argument in rows without gaps, from its first element on.

    A view has another memory than its elements, and is refused.
    """
    example = c.arguments[0]
    if not example.is_contiguous() or example.storage_offset() != 0:
        raise UnsupportedError(
            "as_strided reads the memory of a view, and programs have no strides",
            fix="index the tensor, or use unfold; or take strides of x.contiguous()",
        )
    position: Any = 0 if offset is None else offset
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        own = znp.reshape(znp.arange(count), (-1,) + (1,) * (len(size) - 1 - axis))
        position = own * step + position
    return znp.broadcast_to(znp.asarray(position), tuple(size))
