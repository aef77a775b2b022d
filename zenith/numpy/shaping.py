"""Functions that give the same elements another shape: reshape, transpose, broadcast, tile, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, ShapeError, TraceError, user_line
from zenith.ir.dims import Dim, dim, dims, divide_exactly, product
from zenith.numpy.broadcasting import align, broadcast_dims, spread
from zenith.numpy.operands import (
    as_array,
    ask,
    asked_recorder,
    dims_of,
    normal_axes,
    normal_axis,
    require,
    shape_text,
    sizes_of,
    user_shape,
)
from zenith.numpy.typing import Array, ArrayLike, Axes, Axis, Shape
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.memory import DENSE
from zenith.trace.sizes import UserSize, size_dim
from zenith.trace.tracer import Tracer

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims",
    "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel", "reshape", "rollaxis", "shape", "size",
    "squeeze", "swapaxes", "tile", "transpose",
]  # fmt: skip


@implements(np.shape)
def shape(x: ArrayLike) -> tuple[UserSize, ...]:
    """The sizes of an array: ints where fixed, traced sizes where not."""
    return user_shape(dims_of(as_array(x)))


@implements(np.ndim)
def ndim(x: ArrayLike) -> int:
    """The number of axes."""
    return int(as_array(x).ndim)


@implements(np.size)
def size(x: ArrayLike, axis: Axis = None) -> UserSize:
    """The number of elements, or the size of one axis (or of several together)."""
    x = as_array(x)
    sizes = dims_of(x)
    return user_shape([product(sizes[a] for a in normal_axes("size", axis, x.ndim))])[0]


_ORDERS = ("C", "F", "A", "K")


# --- reshape ---------------------------------------------------------------------------------------------------


@implements(np.reshape, gives="view")
def reshape(
    x: ArrayLike, shape: Shape | None = None, order: str = "C", *, copy: bool | None = None, newshape: Any = None
) -> Array:
    """The same elements under another shape, in row-major order (``order`` "F": the first axis fastest).

    One size may be -1, or another negative number: it follows from the others. ``order`` "A" follows the memory: "F"
    where that is column-major, else "C". Of a traced array with several axes it is refused, since
    its layout in memory is not known.

    >>> reshape([[1, 2], [3, 4]], -1), reshape([[1, 2], [3, 4]], -1, order="F")
    (array([1, 2, 3, 4]), array([1, 3, 2, 4]))
    """
    if order not in ("C", "A", "F"):
        raise ArgumentError(f"reshape: {order!r} is no order", where=user_line(), fix="use 'C', 'F' or 'A'")
    x = as_array(x)
    order = _known_order("reshape", x, order)
    items = shape if shape is not None else newshape
    items = tuple(items) if isinstance(items, (list, tuple, np.ndarray)) else (items,)
    if order == "F":
        return transpose(reshape(transpose(x), items[::-1]))
    wanted = _infer(x, [size_dim(n) for n in items])
    return x if wanted == dims_of(x) else b.reshape(x, shape=wanted)


def check_order(name: str, order: str) -> None:
    """ArgumentError for anything but one of NumPy's orders of elements."""
    if order not in _ORDERS:
        raise ArgumentError(f"{name}: {order!r} is no order", where=user_line(), fix="use 'C', 'F', 'A' or 'K'")


def _known_order(name: str, x: Any, order: str) -> str:
    """``"C"`` or ``"F"`` for an order that the memory decides; TraceError where a traced array leaves it open."""
    if order in ("C", "F") or sum(n != 1 for n in dims_of(x)) <= 1:
        return "F" if order == "F" else "C"
    if isinstance(x, Tracer):
        raise TraceError(
            f"{name}: the order {order!r} depends on how the array is stored, which a trace does not know",
            where=user_line(), types=(x.type,), fix="say which order you mean: 'C' (the last axis fastest) or 'F'",
        )  # fmt: skip
    return "F" if x.flags.fnc else "C"


def _infer(x: Array, sizes: list[Dim]) -> tuple[Dim, ...]:
    """The wanted sizes with a negative one replaced; demands that the number of elements is the same."""
    total, unknown = product(dims_of(x)), [i for i, d in enumerate(sizes) if d.static is not None and d.static < 0]
    if len(unknown) > 1:
        raise ShapeError("reshape: only one size can be negative", where=user_line(), fix="say the other sizes")
    text = f"cannot reshape {shape_text(dims_of(x))} to {shape_text(sizes)}"
    if unknown:
        rest = product(d for i, d in enumerate(sizes) if i != unknown[0])
        sizes[unknown[0]] = _quotient(total, rest, text)
    else:
        require(total, "==", product(sizes), text)
    return tuple(sizes)


def _quotient(total: Dim, rest: Dim, text: str) -> Dim:
    exact = None if rest.static == 0 else divide_exactly(total, rest)
    if exact is None:
        require(rest, ">=", 1, text)
        require(total % rest, "==", 0, text)
        exact = total // rest
    return exact


@implements(gives="view")
def _method_reshape(x: Array, *shape: Shape, **options: object) -> Array:
    """``x.reshape(2, 3)`` and ``x.reshape((2, 3))``."""
    return reshape(x, shape[0] if len(shape) == 1 else shape, **options)


@implements(np.ravel, gives="view")
def ravel(x: ArrayLike, order: str = "C") -> Array:
    """All elements along one axis, in row-major order (``order`` "F": the first axis fastest).

    ``order`` "A" and "K" follow the layout in memory, which is unknown for several traced axes; see :func:`reshape`.

    >>> ravel([[1, 2], [3, 4]])
    array([1, 2, 3, 4])
    """
    check_order("ravel", order)
    x = as_array(x)
    if order == "K" and not isinstance(x, Tracer):
        return x.ravel("K")
    flat = reshape(x, (product(dims_of(x)),), _known_order("ravel", x, order))
    return in_rows(flat, x, "ravel")


def in_rows(result: Array, x: Any, function: str) -> Array:
    """What NumPy gives without gaps: a view of an array that has none, a copy of others."""
    if not isinstance(result, Tracer) or x.layout == DENSE:
        return result
    own = result.renewed(in_rows=True)
    own.may_show(x, function)
    return own


@implements()
def flatten(x: ArrayLike, order: str = "C") -> Array:
    """All elements in row-major order along one axis."""
    return ravel(x, order)


@implements(np.expand_dims, gives="view")
def expand_dims(x: ArrayLike, axis: Axes = 0) -> Array:
    """The array with new axes of size 1, which are the axes ``axis`` of the result."""
    x = as_array(x)
    items = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(items)
    new = normal_axes("expand_dims", tuple(items), rank)
    sizes = iter(dims_of(x))
    return b.reshape(x, shape=tuple(dim(1) if a in new else next(sizes) for a in range(rank)))


@implements(np.squeeze, gives="same")
def squeeze(x: ArrayLike, axis: Axes = None) -> Array:
    """The array without axes of size 1: those named, or all.

    Which axes these are decides how many the result has: without ``axis`` a program is for arguments with the axes of
    size 1 where they were, and others are compiled once more.
    """
    x = as_array(x)
    sizes = dims_of(x)
    gone = [a for a, n in enumerate(sizes) if ask(n, "==", 1)] if axis is None else normal_axes("squeeze", axis, x.ndim)
    for a in gone:
        require(sizes[a], "==", 1, "squeeze removes axes of size 1 only")
    return b.reshape(x, shape=tuple(n for a, n in enumerate(sizes) if a not in gone)) if gone else x


def _at_least(x: ArrayLike, rank: int, forms: Sequence[Any]) -> Array:
    x = as_array(x)
    return x if x.ndim >= rank else b.reshape(x, shape=dims(forms[x.ndim](*dims_of(x))))


@implements(np.atleast_1d, gives="view")
def atleast_1d(*arrays: ArrayLike) -> Any:
    """Arrays of one axis or more."""
    found = tuple(_at_least(x, 1, [lambda: (1,)]) for x in arrays)
    return found[0] if len(found) == 1 else found


@implements(np.atleast_2d, gives="view")
def atleast_2d(*arrays: ArrayLike) -> Any:
    """Arrays of two axes or more; new ones come first."""
    found = tuple(_at_least(x, 2, [lambda: (1, 1), lambda n: (1, n)]) for x in arrays)
    return found[0] if len(found) == 1 else found


@implements(np.atleast_3d, gives="view")
def atleast_3d(*arrays: ArrayLike) -> Any:
    """Arrays of three axes or more, placed as NumPy does."""
    forms = [lambda: (1, 1, 1), lambda n: (1, n, 1), lambda n, m: (n, m, 1)]
    found = tuple(_at_least(x, 3, forms) for x in arrays)
    return found[0] if len(found) == 1 else found


# --- transpose -------------------------------------------------------------------------------------------------


@implements(np.transpose, np.permute_dims, gives="same")
def transpose(x: ArrayLike, axes: Any = None) -> Array:
    """Axis i of the result is axis ``axes[i]``; all axes in reversed order without ``axes``."""
    x = as_array(x)
    rank = x.ndim
    order = tuple(reversed(range(rank))) if axes is None else tuple(normal_axis("transpose", a, rank) for a in axes)
    if sorted(order) != list(range(rank)):
        raise ShapeError(
            f"transpose: {tuple(axes)} is no permutation of {rank} axes",
            where=user_line(),
            fix="name each axis once, 0 to the number of axes less 1",
        )
    return x if order == tuple(range(rank)) else b.transpose(x, axes=order)


permute_dims = transpose


@implements(gives="view")
def _method_transpose(x: Array, *axes: Axes) -> Array:
    """``x.transpose()``, ``x.transpose(1, 0)`` and ``x.transpose((1, 0))``."""
    return transpose(x, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None)


@implements(np.matrix_transpose, np.linalg.matrix_transpose, gives="view")
def matrix_transpose(x: ArrayLike) -> Array:
    """The last two axes exchanged."""
    return swapaxes(x, -1, -2)


@implements(np.swapaxes, gives="view")
def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""
    x = as_array(x)
    order = list(range(x.ndim))
    first, second = normal_axis("swapaxes", axis1, x.ndim), normal_axis("swapaxes", axis2, x.ndim)
    order[first], order[second] = order[second], order[first]
    return transpose(x, order)


@implements(np.moveaxis, gives="same")
def moveaxis(x: ArrayLike, source: Any, destination: Any) -> Array:
    """Axes moved to new positions; the others stay in their order."""
    x = as_array(x)
    one = not isinstance(source, (tuple, list))
    start = [normal_axis("moveaxis", a, x.ndim) for a in ((source,) if one else source)]
    end = [normal_axis("moveaxis", a, x.ndim) for a in ((destination,) if one else destination)]
    if len(start) != len(end):
        raise ShapeError(
            "moveaxis needs as many sources as destinations",
            where=user_line(),
            fix="name as many sources as destinations",
        )
    order = [a for a in range(x.ndim) if a not in start]
    for index, axis in sorted(zip(end, start, strict=True)):
        order.insert(index, axis)
    return transpose(x, order)


# --- broadcast and repeat --------------------------------------------------------------------------------------


@implements(np.broadcast_to, gives="view")
def broadcast_to(x: ArrayLike, shape: Shape, subok: bool = False) -> Array:
    """The array repeated to a shape."""
    x, wanted = as_array(x), sizes_of(shape)
    for size, target in zip(reversed(dims_of(x)), reversed(wanted), strict=False):
        if target == 1:  # there nothing is repeated
            require(size, "==", 1, f"cannot broadcast {shape_text(dims_of(x))} to {shape_text(wanted)}")
    own = dims_of(x)
    too_many = len(own) > len(wanted)
    common = () if too_many else broadcast_dims("broadcast_to", [wanted, own])
    recorder = asked_recorder()
    wanted = tuple(map(recorder.canonical, wanted))  # sizes may just have been found equal
    if too_many or len(common) != len(wanted) or not all(map(lambda n, m: recorder.holds(n, "==", m), common, wanted)):
        raise ShapeError(
            f"cannot broadcast {shape_text(own)} to {shape_text(wanted)}",
            where=user_line(),
            fix="make the sizes equal, or 1 (sizes are matched from the last axis on)",
        )
    return spread(x, common)


def broadcast_shapes(*args: Shape) -> tuple[Any, ...]:
    """The shape that arrays of several shapes have in common; ShapeError where they do not fit.

    >>> broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    return user_shape(broadcast_dims("broadcast_shapes", [sizes_of(shape) for shape in args]))


@implements(np.broadcast_arrays, gives="view")
def broadcast_arrays(*arrays: ArrayLike, subok: bool = False) -> tuple[Array, ...]:
    """Arrays repeated to their common shape."""
    return tuple(align("broadcast_arrays", [as_array(x) for x in arrays]))


@implements(np.tile, gives="boxed")
def tile(x: ArrayLike, reps: Shape) -> Array:
    """The array laid side by side ``reps`` times along each axis."""
    x, counts = as_array(x), sizes_of(reps)
    rank = max(x.ndim, len(counts))
    own = (*[dim(1)] * (rank - x.ndim), *dims_of(x))
    counts = (*[dim(1)] * (rank - len(counts)), *counts)
    pairs = [size for pair in zip(counts, own, strict=True) for size in pair]
    spread_out = b.broadcast(b.reshape(x, shape=own), shape=tuple(pairs), axes=tuple(range(1, 2 * rank, 2)))
    return b.reshape(spread_out, shape=tuple(c * n for c, n in zip(counts, own, strict=True)))


def repeated(x: Array, count: Dim, axis: int) -> Array:
    """Every slice along an axis repeated ``count`` times."""
    own = dims_of(x)
    grown = (*own[: axis + 1], count, *own[axis + 1 :])
    axes = tuple(a for a in range(len(grown)) if a != axis + 1)
    return b.reshape(b.broadcast(x, shape=grown, axes=axes), shape=(*own[:axis], own[axis] * count, *own[axis + 1 :]))


@implements(np.rollaxis, gives="view")
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """An axis moved before another, as it was counted.

    >>> rollaxis(np.ones((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_array(a)
    at, before = normal_axis("rollaxis", axis, x.ndim), normal_axis("rollaxis", start, x.ndim + 1)
    return moveaxis(x, at, before - 1 if at < before else before)
