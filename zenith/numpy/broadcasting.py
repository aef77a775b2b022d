"""Broadcasting: the shape that operands have in common, and operands repeated to it.

Sizes that are not fixed are compared in this call, and the answer is assumed of others. One that is 1 is repeated, also
where it is a formula: the kernels of an axis whose size is not the number 1 read an element for each index.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.errors import ShapeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.numpy.operands import ask, asked_recorder, dims_of, shape_text
from zenith.numpy.typing import Array
from zenith.trace.bind import b


def broadcast_dims(name: str, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The common shape of operands; ShapeError when two sizes differ and neither is 1."""
    rank = max(map(len, shapes), default=0)
    first = shapes[0] if shapes else ()
    if all(s == first or not s for s in shapes) and len(first) == rank:
        return first
    result: list[Dim] = []
    for axis in range(-rank, 0):
        size = dim(1)
        for shape in shapes:
            if len(shape) >= -axis and shape[axis] != size:
                size = _common(name, size, shape[axis], shapes)
        result.append(size)
    return tuple(map(asked_recorder().canonical, result))


def _common(name: str, x: Dim, y: Dim, shapes: Sequence[tuple[Dim, ...]]) -> Dim:
    if y == 1 or x == 1:
        return x if y == 1 else y
    recorder = asked_recorder()
    p, q = recorder.hint(x), recorder.hint(y)
    if (recorder.varies(x) or recorder.varies(y)) and recorder.holds(x, "==", y):
        return x
    if p == q and recorder.holds(x, "==", y):
        return y if x.static is None else x
    small, large = (x, y) if p == 1 else (y, x)
    if p != q and 1 in (p, q) and recorder.holds(small, "==", 1):
        return large
    raise ShapeError(
        f"{name}: shapes {' and '.join(map(shape_text, shapes))} do not fit together: sizes {_sized(x, p)} and "
        f"{_sized(y, q)} differ",
        where=user_line(),
        fix="make the sizes equal, or 1 (sizes are matched from the last axis on)",
    )


def same_shape(shape: Sequence[Dim], other: Sequence[Dim]) -> bool:
    """Whether two shapes are one, assuming it of sizes that are not fixed."""
    return len(shape) == len(other) and all(n == m or ask(n, "==", m) for n, m in zip(shape, other, strict=True))


def _sized(size: Dim, hint: int) -> str:
    return str(size) if size.static is not None else f"{size} = {hint}"


def spread(x: Array, shape: tuple[Dim, ...]) -> Array:
    """An array repeated to ``shape``, which it is known to fit."""
    own = dims_of(x)
    if own == shape:
        return x
    axes = tuple(range(len(shape) - len(own), len(shape)))
    ones = tuple(dim(1) if is_stretched(n, shape[a]) else n for n, a in zip(own, axes, strict=True))
    return b.broadcast(x if ones == own else b.reshape(x, shape=ones), shape=shape, axes=axes)


def is_stretched(size: Dim, wanted: Dim) -> bool:
    """Whether an axis, which is known to fit, has one element that is repeated, also where its size is a formula.

    A formula that is 1 in this call, such as ``n // 2``, is assumed to be 1, and another one than that of the result.
    """
    if size.static is not None or size == wanted:
        return size == 1 and wanted != 1
    recorder = asked_recorder()
    may_be = not recorder.varies(size) and recorder.hint(size) == 1 and recorder.hint(wanted) != 1
    return may_be and recorder.holds(size, "==", 1)


def align(name: str, arrays: Sequence[Array]) -> list[Array]:
    """Arrays broadcast against each other."""
    shape = broadcast_dims(name, [dims_of(a) for a in arrays])
    return [spread(a, shape) for a in arrays]
