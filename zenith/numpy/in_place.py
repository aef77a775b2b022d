"""NumPy's functions that change an array: each computes its new value (:mod:`zenith.numpy.assignment`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.ir.dims import Dim, minimum, product
from zenith.ir.types import NumPyType, int64
from zenith.numpy import elementwise as ew
from zenith.numpy.assignment import fitted, require_kind, write_all
from zenith.numpy.broadcasting import spread
from zenith.numpy.casts import require_cast, stored
from zenith.numpy.cumulative import cumsum
from zenith.numpy.index_expressions import index_array
from zenith.numpy.indexing import grid_along
from zenith.numpy.operands import (
    BOOL,
    INT64,
    as_array,
    ask,
    contains_traced,
    convert,
    dims_of,
    lift,
    require,
    result_dtype,
    strong,
    types_of,
    weak_kind,
)
from zenith.numpy.shaping import ravel
from zenith.numpy.sorting import partition, sort
from zenith.numpy.typing import Array, ArrayLike, Axis
from zenith.trace.bind import b
from zenith.trace.dispatch import implements, refuse_numpy
from zenith.trace.memory import check_writable
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"]


def _target(name: str, x: ArrayLike, *given: ArrayLike) -> Tracer | None:
    """The traced array that a function shall change; None where all is concrete."""
    if isinstance(x, Tracer):
        return check_writable(cast(Tracer, as_array(x)))
    if any(map(contains_traced, given)):
        refuse_numpy(name, x)
    return None


@implements(np.copyto, gives="view")
def copyto(dst: ArrayLike, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Write ``src`` into ``dst``, where a mask is true."""
    target = _target("copyto", dst, src, where)
    if target is None:
        return np.copyto(dst, src, casting=casting, where=where)  # type: ignore[arg-type]
    source = as_array(src).dtype if weak_kind(src) is None else result_dtype("copyto", (src, target))
    require_kind("copyto", source, target.dtype, casting)
    new = fitted(convert(src, target.dtype), target.dtype, dims_of(target))
    write_all(target, new if where is True else b.where(fitted(where, BOOL, dims_of(target)), new, target))
    return None


@implements(np.put, gives="view")
def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Write values at indices of the flattened array; fewer values than indices are repeated from the first on."""
    target = _target("put", a, ind, v)
    if target is None:
        return np.put(a, ind, v, mode=mode)  # type: ignore[arg-type]
    if not ask(product(dims_of(as_array(v))), ">=", 1):
        return None  # as in NumPy
    flat = b.reshape(target, shape=(product(dims_of(target)),))
    size = dims_of(flat)[0]
    flat_indices = ravel(as_array(ind))
    if mode == "wrap":
        flat_indices = ew.remainder(convert(flat_indices, INT64), user_size(size))
    elif mode == "clip":
        flat_indices = ew.maximum(ew.minimum(convert(flat_indices, INT64), user_size(size - 1)), 0)
    indices = index_array(flat_indices, size)
    updates = _cycled("put", v, target.dtype, dims_of(indices)[0])
    write_all(target, b.reshape(b.scatter_set(flat, updates, indices), shape=dims_of(target)))
    return None


@implements(gives="view")
def _method_put(x: Array, indices: Array, values: Array, mode: str = "raise") -> None:
    """``x.put(indices, values)``."""
    put(x, indices, values, mode)


@implements(np.putmask, gives="view")
def putmask(a: ArrayLike, mask: ArrayLike, values: ArrayLike) -> None:
    """Write values where a mask of the array's shape is true: at each position the one at that position of
    ``values``, which are repeated from the first on where they are fewer.
    """
    target = _target("putmask", a, mask, values)
    if target is None:
        return np.putmask(a, mask, values)  # type: ignore[arg-type]
    _require_safe("putmask", values, target)
    shape = dims_of(target)
    given = b.reshape(_cycled("putmask", values, target.dtype, product(shape)), shape=shape)
    write_all(target, b.where(_mask_of("putmask", mask, shape), given, target))
    return None


@implements(np.place, gives="view")
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike) -> None:
    """Write values where a mask is true, one after the other; fewer are repeated from the first on."""
    target = _target("place", arr, mask, vals)
    if target is None:
        return np.place(arr, mask, vals)  # type: ignore[arg-type]
    _require_safe("place", vals, target)
    shape, given = dims_of(target), ravel(stored(vals, target.dtype))
    chosen = _mask_of("place", mask, shape)
    number = ew.subtract(cumsum(convert(ravel(chosen), INT64)), 1)
    source = ew.remainder(number, user_size(_positive_count("place", given)))
    write_all(target, b.where(chosen, b.reshape(b.take(given, source, axis=0), shape=shape), target))
    return None


def _require_safe(name: str, values: ArrayLike, target: Array) -> None:
    """DTypeError for an array whose element type may lose something in that of another one, as in NumPy."""
    if isinstance(values, (np.ndarray, Tracer)) and not weak_kind(values):
        require_cast(name, values.dtype, target.dtype, "safe")


def _mask_of(name: str, mask: ArrayLike, shape: Sequence[Dim]) -> Array:
    """A mask of as many elements as an array has, in its shape."""
    found = convert(mask, BOOL)
    require(product(dims_of(found)), "==", product(shape), f"{name}: the mask must have the array's size")
    return b.reshape(found, shape=tuple(shape))


def _cycled(name: str, values: ArrayLike, dtype: NumPyType, count: Dim) -> Array:
    """``count`` values, repeated from the first on where there are fewer."""
    given = strong(stored(values, dtype))
    if not given.ndim:
        return spread(given, (count,))
    given = ravel(given)
    own = _positive_count(name, given)
    if ask(own, "==", count):
        return given
    return b.take(given, ew.remainder(lift(b.iota(size=count, dtype=int64)), user_size(own)), axis=0)


def _positive_count(name: str, values: Array) -> Dim:
    """How many values there are; ShapeError for none."""
    (count,) = dims_of(values)
    if not ask(count, ">=", 1):
        raise ShapeError(f"{name} needs at least one value", where=user_line(), fix="give an array that is not empty")
    return count


@implements(np.put_along_axis, gives="view")
def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: Axis) -> None:
    """Write each of the values into ``arr``, along an axis at the index at the same position of ``indices``."""
    target = _target("put_along_axis", arr, indices, values)
    if target is None:
        return np.put_along_axis(arr, indices, values, axis)  # type: ignore[arg-type]
    x = target
    if axis is None:
        x, axis = b.reshape(target, shape=(product(dims_of(target)),)), 0
    grid = grid_along("put_along_axis", x, indices, axis)
    new = b.scatter_set(x, fitted(values, target.dtype, dims_of(grid[0])), *grid)
    write_all(target, new if x is target else b.reshape(new, shape=dims_of(target)))
    return None


@implements(np.fill_diagonal, gives="view")
def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False) -> None:
    """Write values on the main diagonal of an array of at least two axes; with ``wrap`` it restarts after its end."""
    target = _target("fill_diagonal", a, val)
    if target is None:
        return np.fill_diagonal(a, val, wrap)  # type: ignore[arg-type]
    sizes = dims_of(target)
    if len(sizes) < 2:
        raise ShapeError(
            "fill_diagonal needs an array of at least 2 axes",
            where=user_line(),
            types=types_of(target),
            fix="reshape it first, or use numpy.full for a row",
        )
    if len(sizes) > 2 and not all(ask(n, "==", sizes[0]) for n in sizes):
        raise ShapeError("fill_diagonal needs equal sizes where there are more than 2 axes", where=user_line(),
                         types=types_of(target), fix="write with an index: x[i, j, k] = value")  # fmt: skip
    wraps = wrap and len(sizes) == 2 and ask(sizes[0], ">", sizes[1])
    count = (sizes[0] * sizes[1] + sizes[1]) // (sizes[1] + 1) if wraps else minimum(*sizes[:2])
    number = lift(b.iota(size=count, dtype=int64))
    coordinates = [number] * len(sizes)
    if wraps:
        at = ew.multiply(number, user_size(sizes[1] + 1))
        coordinates = [ew.floor_divide(at, user_size(sizes[1])), ew.remainder(at, user_size(sizes[1]))]
    write_all(target, b.scatter_set(target, _cycled("fill_diagonal", val, target.dtype, count), *coordinates))
    return None


@implements(gives="view")
def _method_fill(x: Array, value: Array) -> None:
    """``x.fill(value)``."""
    x[...] = value


@implements(gives="view")
def _method_sort(
    x: Array, axis: int = -1, kind: str | None = None, order: str | None = None, *, stable: bool | None = None
) -> None:
    """``x.sort()``, in place."""
    target = check_writable(cast(Tracer, as_array(x)))
    write_all(target, sort(target, axis, kind, order, stable=stable))


@implements(gives="view")
def _method_partition(
    x: Array, kth: ArrayLike, axis: int = -1, kind: str = "introselect", order: str | None = None
) -> None:
    """``x.partition(kth)``, in place."""
    target = check_writable(cast(Tracer, as_array(x)))
    write_all(target, partition(target, kth, axis, kind, order))
