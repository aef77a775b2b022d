"""What was stored as bytes: an array that is ``(levels - zero) * scale``, however that is written.

The levels are bytes, with or without a sign; zero and scale may be other ones along some axes. Conversions between
floats and integers, the order of factors, and movements between the operations make no difference; what would round or
wrap in between does, such as a subtraction in bytes or a 16-bit float.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zenith.ir.dims import Dim
from zenith.ir.graph import Node, Value
from zenith.ir.lowering import Scalar
from zenith.ir.types import ArrayType, DType, float32, float64, int8, int16, int32, int64, uint8
from zenith.passes.axes import pieces
from zenith.passes.rewrite import Rewriter, number_of
from zenith.passes.widenings import MOVEMENTS

BYTES = (int8, uint8)
WHOLE = (int16, int32, int64)  # types in which the difference of two levels is exact
REAL = (float32, float64)
LEAST, MOST = -128, 255  # levels, of either kind of bytes


DEEPEST = 40  # operations between bytes and a product


@dataclass(frozen=True, slots=True)
class Moved:
    """A value, and the movements after it, the first one first."""

    value: Value
    moves: tuple[Node, ...] = ()

    def after(self, node: Node) -> Moved:
        """The same after one movement more."""
        return replace(self, moves=(*self.moves, node))

    def written(self, b: Rewriter) -> Value:
        """The moved value as nodes."""
        value = self.value
        for node in self.moves:
            (value,) = b.copy(node, [value])
        return value

    def varies_along(self, b: Rewriter, axes: Collection[int]) -> bool:
        """Whether elements may differ along some axes of the moved value."""
        shapes = [self.value.shape]
        for node in self.moves:
            (type,) = node.types
            assert isinstance(type, ArrayType)
            shapes.append(type.shape)
        for node, before in zip(self.moves[::-1], shapes[-2::-1], strict=True):
            axes = _axes_before(node, before, axes)
        return _varies_along(b, self.value, axes)


@dataclass(frozen=True, slots=True)
class Dequantized:
    """An array that is ``(levels - zero) * scales``; no zero is the level 0, and there may be no scale, or several."""

    levels: Moved
    zero: Moved | None = None
    scales: tuple[Moved, ...] = ()

    def after(self, node: Node) -> Dequantized:
        """The same after a movement."""
        zero = None if self.zero is None else self.zero.after(node)
        return Dequantized(self.levels.after(node), zero, tuple(scale.after(node) for scale in self.scales))

    def varies_along(self, b: Rewriter, axes: Collection[int]) -> bool:
        """Whether zero or a scale may differ along some axes."""
        numbers = (*self.scales, *(() if self.zero is None else (self.zero,)))
        return any(number.varies_along(b, axes) for number in numbers)


Known = dict[Value, Dequantized | None]


def dequantized(b: Rewriter, value: Value) -> Dequantized | None:
    """How a value of the new graph was made of bytes; None where it was not."""
    return _made(b, value, {}, 0)


def _made(b: Rewriter, value: Value, known: Known, depth: int) -> Dequantized | None:
    """The same, where that of the values in ``known`` is known already."""
    if value not in known:
        known[value] = None if depth > DEEPEST else _by_definition(b, value, known, depth + 1)
    return known[value]


def _by_definition(b: Rewriter, value: Value, known: Known, depth: int) -> Dequantized | None:
    made, operands = b.definition(value), b.operands(value)
    if made.primitive.name in MOVEMENTS:
        inner = _made(b, operands[0], known, depth)
        return None if inner is None else inner.after(made)
    if made.primitive.name == "cast":
        (source,) = operands
        if source.dtype in BYTES:
            return Dequantized(Moved(source)) if value.dtype in (*WHOLE, *REAL) else None
        return _made(b, source, known, depth) if _keeps_differences(source.dtype, value.dtype) else None
    if made.primitive.name == "sub" and value.dtype in (*WHOLE, *REAL):
        return _less_zero(b, _made(b, operands[0], known, depth), operands[1])
    if made.primitive.name == "mul" and value.dtype in REAL:
        for left, scale in (operands, operands[::-1]):
            inner = _made(b, left, known, depth)
            if inner is not None:
                return replace(inner, scales=(*inner.scales, Moved(scale)))
    return None


def _keeps_differences(source: DType, dtype: DType) -> bool:
    """Whether a conversion loses nothing of the difference of levels, or rounds a float once."""
    return (source in (*WHOLE, *REAL) and dtype in REAL) or (source in WHOLE and dtype in WHOLE)


def _less_zero(b: Rewriter, inner: Dequantized | None, zero: Value) -> Dequantized | None:
    if inner is None or inner.zero is not None or inner.scales:
        return None
    if number_of(b, zero) == 0:
        return inner
    if zero.dtype in WHOLE and not is_level(b, zero):
        return None  # the difference might wrap
    return replace(inner, zero=Moved(zero))


def is_level(b: Rewriter, value: Value) -> bool:
    """Whether numbers are certain to be levels of bytes: known or constant ones, widened bytes, integers in bounds."""
    while (made := b.definition(value)).primitive.name in ("cast", *MOVEMENTS) and number_of(b, value) is None:
        (value,) = b.operands(value)
        if value.dtype in BYTES:
            return True
    if value.dtype.is_integer and made.primitive.name in ("minimum", "maximum"):
        return _is_clipped(b, value)
    known = number_of(b, value)
    constant = b.so_far.constants.get(made.params["id"]) if made.primitive.name == "constant" else None
    if known is None and constant is None:
        return False
    numbers = np.asarray(known if constant is None else constant)
    return bool(np.all((numbers >= LEAST) & (numbers <= MOST) & (numbers == np.rint(numbers))))


def _is_clipped(b: Rewriter, value: Value) -> bool:
    """Whether integers are the larger of some and of a level, or the smaller, and the same in the other direction."""
    found = dict[str, float | None]()
    while (name := b.definition(value).primitive.name) in ("minimum", "maximum") and name not in found:
        operands = b.operands(value)
        numbers = [number_of(b, operand) for operand in operands]
        found[name] = next((n for n in numbers if n is not None), None)
        value = operands[0 if numbers[0] is None else 1]
    least, most = found.get("maximum"), found.get("minimum")
    return least is not None and most is not None and LEAST <= least <= most <= MOST


def _varies_along(b: Rewriter, value: Value, axes: Collection[int]) -> bool:
    """Whether elements of a value may differ along some of its axes."""
    seen, todo = set[tuple[Value, frozenset[int]]](), [(value, frozenset(axes))]
    while todo:
        value, axes = todo.pop()
        long = frozenset(axis for axis in axes if value.shape[axis] != 1)
        if not long or (value, long) in seen:
            continue
        seen.add((value, long))
        made, operands = b.definition(value), b.operands(value)
        if made.primitive.name in MOVEMENTS:
            todo.append((operands[0], frozenset(_axes_before(made, operands[0].shape, long))))
        elif isinstance(made.primitive.lowering, Scalar):
            todo += [(operand, long) for operand in operands]
        else:
            return True
    return False


def _axes_before(node: Node, shape: Sequence[Dim], axes: Collection[int]) -> set[int]:
    """Axes of what a node moves, of this shape: the result differs along ``axes`` only where it differs along them."""
    if node.primitive.name == "transpose":
        return {node.params["axes"][axis] for axis in axes}
    if node.primitive.name == "broadcast":
        return {old for old, new in enumerate(node.params["axes"]) if new in axes}
    if node.primitive.name == "reshape":
        parts = pieces(shape, node.params["shape"])
        return {old for piece in parts if set(piece.new) & set(axes) for old in piece.old}
    return set(axes)
