"""The largest element of each window, its index, and the derivative: that of this one element alone.

NumPy's and Zenith's maximum shares its derivative among equal elements; PyTorch's pooling gives it to the first of
them, as most pooled arrays have many equal zeros. A window with nan has nan, and the index of its last nan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import zenith.numpy as znp
from zenith.ir.dims import Dim, dim, product
from zenith.ir.ops.reduce import lowest
from zenith.ir.types import int64
from zenith.nn.windows import broadcast_axis
from zenith.numpy.broadcasting import spread
from zenith.numpy.operands import dims_of, element_type
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.sizes import user_size
from zenith.transforms.custom import custom_jvp, stop_gradient


class Windows(Protocol):
    """Windows over the last axes of an array, which have ``size``, ``count`` windows along each.

    ``of(x, fill)`` are the windows (..., \\*count, \\*kernel), with ``fill`` where they have no element of ``x``;
    ``indices`` has the elements' indices, and ``inside`` whether these exist, an array (count, kernel) for each axis.
    """

    @property
    def size(self) -> tuple[Dim, ...]: ...
    @property
    def indices(self) -> tuple[Array, ...]: ...
    @property
    def inside(self) -> tuple[Array, ...]: ...
    def of(self, x: Array, fill: ArrayLike) -> Array: ...


def largest(x: Array, windows: Windows) -> Array:
    """The largest element of each window: (..., \\*count)."""

    def values(a: Array) -> Array:
        return _over(b.reduce_max, windows.of(a, lowest(element_type(a))), windows)

    pool = custom_jvp(values)

    @pool.defjvp
    def _(primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
        (a,), (moved,) = primals, tangents
        return values(a), _gathered(moved, indices_of_largest(a, windows), len(windows.size))

    return pool(x) if element_type(x).is_float else values(x)


def indices_of_largest(x: Array, windows: Windows) -> Array:
    """The row-major index in the last axes of the element that :func:`largest` returns: int64 (..., \\*count)."""
    x = stop_gradient(x)
    found = windows.of(x, lowest(element_type(x)))
    shape, axes = dims_of(found), len(windows.size)
    best = b.broadcast(_over(b.reduce_max, found, windows), shape=shape, axes=tuple(range(len(shape) - axes)))
    flat, last = _flat(windows), user_size(product(windows.size)) - 1
    hit = found == best
    for axis in range(len(windows.inside)):
        hit = hit & broadcast_axis(windows.inside, axis)
    first = _over(b.reduce_min, spread(znp.where(hit, flat, last), shape), windows)
    if not element_type(x).is_float:
        return first
    unordered = _over(b.reduce_max, spread(znp.where(found != found, flat, -1), shape), windows)
    return znp.where(unordered >= 0, unordered, first)


def _over(reduce: Callable[..., Array], found: Array, windows: Windows) -> Array:
    """A reduction over each window."""
    rank = found.ndim
    return reduce(found, axes=tuple(range(rank - len(windows.size), rank)))


def _flat(windows: Windows) -> Array:
    """Indices in row-major order: int64, to be broadcast over (\\*count, \\*kernel)."""
    total: Any = 0
    for axis, size in enumerate(windows.size):
        total = total * user_size(size) + broadcast_axis(windows.indices, axis)
    return total


def _gathered(x: Array, indices: Array, axes: int) -> Array:
    """The elements of ``x`` at row-major indices in its last axes; the axes in front are batches."""
    shape, lead = dims_of(indices), dims_of(x)[: x.ndim - axes]
    batches, size, count = product(lead), product(dims_of(x)[x.ndim - axes :]), product(shape[len(lead) :])
    index = b.reshape(indices, shape=(batches, count))
    batch = b.broadcast(b.iota(size=batches, dtype=int64), shape=(batches, count), axes=(0,))
    return b.reshape(b.gather(b.reshape(x, shape=(batches, size)), batch, index), shape=shape)


def mean_of(total: Array, counts: Sequence[Any]) -> Array:
    """Sums (..., \\*count) divided by the product of ``counts``: for each axis a number or an array (count,)."""
    number, divisor = dim(1), None
    for axis, own in enumerate(counts):
        if isinstance(own, Dim):
            number = number * own
            continue
        shaped = znp.reshape(own, (-1,) + (1,) * (len(counts) - 1 - axis))
        divisor = shaped if divisor is None else divisor * shaped
    if divisor is None:
        return total / user_size(number)
    return total / znp.astype(divisor * user_size(number), total.dtype)
