"""Movement of reshape, transpose, broadcast, slice: they cancel, compose, and sink below arithmetic.

The resulting form has three properties that fusion relies on. Movements of movements are one movement. An
elementwise operation works on the smallest shape its operands allow (see :mod:`zenith.passes.sink`), so what NumPy's
``keepdims`` computes on ``[n, 1]`` is computed on ``[n]`` and broadcast once. A broadcast never stretches an axis of
size 1: such an axis is dropped first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.ir.dims import Dim, dim, maximum, product
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Fold, Prefix, Scalar
from zenith.ir.ops.shape import inverse_permutation
from zenith.ir.types import ArrayType
from zenith.passes import sink
from zenith.passes.axes import pieces, spread_axes, subsequence
from zenith.passes.rewrite import Rewriter, rebuild

Shape = Sequence[Dim]
Border = tuple[Dim, Dim, int]  # elements before an axis, after it, and between its own
NO_BORDER: Border = (dim(0), dim(0), 0)
PRODUCTS = ("matmul", "matmul_integer")
BOUNDS = ("start", "stop", "step")  # the parameters of a slice


def movement(graph: Graph) -> Graph:
    """The graph with movements cancelled, composed, and sunk below the arithmetic that allows it."""
    return rebuild(graph, _visit, revisit=True)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name in sink.ATTENTION:
        return sink.below_attention(b, node, args)
    result = _moved(b, node, args)
    return None if result is None or result.type != node.types[0] else (result,)


def _moved(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Value | None:
    if isinstance(node.primitive.lowering, Scalar):
        return sink.below_elementwise(b, node, args)
    if isinstance(node.primitive.lowering, Fold):
        return sink.below_reduction(b, node, args[0])
    if isinstance(node.primitive.lowering, Prefix):
        return sink.below_prefix(b, node, args)
    if node.primitive.name in PRODUCTS:
        return sink.below_product(b, getattr(b, node.primitive.name), *args)
    if node.primitive.name == "concat":
        return _without_empty(b, node, args)
    if node.primitive.name == "pad":
        return _pad(b, node, *args)
    if node.primitive.name == "optimization_barrier":
        return _optimization_barrier(b, args[0])
    if node.primitive.name in _RULES:
        return _RULES[node.primitive.name](b, node, args[0])
    return None


def _reshape(b: Rewriter, node: Node, x: Value) -> Value | None:
    shape: tuple[Dim, ...] = node.params["shape"]
    if shape == x.shape:
        return x
    inner = b.definition(x)
    if inner.primitive.name == "reshape":
        return sink.reshaped(b, b.operands(x)[0], shape)
    if inner.primitive.name == "broadcast":
        return _reshape_of_broadcast(b, x, shape)
    if inner.primitive.name == "transpose":
        return _reshape_of_transpose(b, x, shape)
    return None


def _reshape_of_transpose(b: Rewriter, x: Value, shape: Shape) -> Value | None:
    """The stored array reshaped, then transposed: axes are split, or joined where they are neighbours in memory."""
    (source,) = b.operands(x)
    order = [a for a in b.definition(x).params["axes"] if source.shape[a] != 1]
    partition = pieces([source.shape[a] for a in order], shape)
    runs = [[sorted(order).index(order[a]) for a in piece.old] for piece in partition]
    if any(not run or run != [*range(run[0], run[-1] + 1)] for run in runs):
        return None
    axes = [a for _, piece in sorted(zip(runs, partition, strict=True), key=lambda pair: pair[0]) for a in piece.new]
    reshaped = b.reshape(source, shape=tuple(shape[a] for a in axes))
    return _value(b.transpose(reshaped, axes=inverse_permutation(axes)))


def _reshape_of_broadcast(b: Rewriter, x: Value, shape: Shape) -> Value | None:
    """The source broadcast to the new shape at once, when the reshape does not mix its axes with repeated ones."""
    axes, source = b.definition(x).params["axes"], b.operands(x)[0]
    spread = spread_axes(x.shape, axes, shape)
    if spread is None or any(n != x.shape[a] for a, n in zip(axes, source.shape, strict=True)):
        return None
    if not spread and shape and source.shape and all(n == 1 for n in shape):
        return _value(b.reshape(source, shape=shape))
    source = sink.reshaped(b, source, tuple(shape[a] for a in spread))
    return _value(b.broadcast(source, shape=shape, axes=spread))


def _broadcast(b: Rewriter, node: Node, x: Value) -> Value | None:
    shape, axes = node.params["shape"], node.params["axes"]
    if shape == x.shape:
        return x
    remaining = [i for i, a in enumerate(axes) if x.shape[i] != 1 or shape[a] == 1]
    if len(remaining) < len(axes):
        small = b.reshape(x, shape=tuple(x.shape[i] for i in remaining))
        return _value(b.broadcast(small, shape=shape, axes=tuple(axes[i] for i in remaining)))
    if (
        x.shape
        and all(n == 1 for a, n in enumerate(shape) if a not in axes)
        and all(shape[a] == n for a, n in zip(axes, x.shape, strict=True))
    ):
        return _value(b.reshape(x, shape=shape))
    inner = b.definition(x)
    if inner.primitive.name == "broadcast":
        joined = tuple(axes[a] for a in inner.params["axes"])
        return _value(b.broadcast(b.operands(x)[0], shape=shape, axes=joined))
    if inner.primitive.name == "reshape":
        source = b.operands(x)[0]
        found = subsequence(source.shape, x.shape)
        if found is not None:
            return _value(b.broadcast(source, shape=shape, axes=tuple(axes[a] for a in found)))
    return None


def _transpose(b: Rewriter, node: Node, x: Value) -> Value | None:
    order: tuple[int, ...] = node.params["axes"]
    if order == tuple(range(len(order))):
        return x
    inner = b.definition(x)
    if inner.primitive.name == "transpose":
        first = inner.params["axes"]
        return _value(b.transpose(b.operands(x)[0], axes=tuple(first[a] for a in order)))
    if inner.primitive.name == "broadcast":
        return _transpose_of_broadcast(b, order, x)
    if inner.primitive.name == "reshape" and b.definition(b.operands(x)[0]).primitive.name in sink.ATTENTION:
        return _transpose_of_joined(b, order, x)
    moving = [a for a in order if x.shape[a] != 1]
    if moving == sorted(moving):
        return _value(b.reshape(x, shape=tuple(x.shape[a] for a in order)))
    return None


def _transpose_of_joined(b: Rewriter, order: tuple[int, ...], x: Value) -> Value | None:
    """Heads that attention has as two axes are joined after the transpose, which is then the layout of its result."""
    (source,) = b.operands(x)
    partition = {piece.new: piece.old for piece in pieces(source.shape, x.shape)}
    if any((a,) not in partition for a in order):
        return None
    axes = tuple(old for a in order for old in partition[a,])
    return _value(b.reshape(b.transpose(source, axes=axes), shape=tuple(x.shape[a] for a in order)))


def _transpose_of_broadcast(b: Rewriter, order: tuple[int, ...], x: Value) -> Value:
    """A broadcast of the transposed source, which is smaller."""
    inverse = inverse_permutation(order)
    moved = [inverse[a] for a in b.definition(x).params["axes"]]
    permutation = tuple(sorted(range(len(moved)), key=lambda i: moved[i]))
    source = b.transpose(b.operands(x)[0], axes=permutation)
    return _value(b.broadcast(source, shape=tuple(x.shape[a] for a in order), axes=tuple(sorted(moved))))


def _slice(b: Rewriter, node: Node, x: Value) -> Value | None:
    start, stop, step = node.params["start"], node.params["stop"], node.params["step"]
    if all(lo == 0 and hi == n and s == 1 for lo, hi, s, n in zip(start, stop, step, x.shape, strict=True)):
        return x
    inner = b.definition(x)
    if inner.primitive.name == "broadcast":
        return _slice_of_broadcast(b, node, x)
    if inner.primitive.name == "transpose":
        return _slice_of_transpose(b, node, x)
    if inner.primitive.name == "reshape":
        return _slice_of_reshape(b, node, x)
    if inner.primitive.name == "slice":
        first, pace = inner.params["start"], inner.params["step"]
        low = tuple(f + lo * p for f, lo, p in zip(first, start, pace, strict=True))
        high = tuple(f + hi * p for f, hi, p in zip(first, stop, pace, strict=True))
        if all(p == 1 for p in pace):
            return _value(b.slice(b.operands(x)[0], start=low, stop=high, step=step))
    return None


def _slice_of_broadcast(b: Rewriter, node: Node, x: Value) -> Value | None:
    """The sliced source, broadcast; axes that repeat only become shorter."""
    source, axes = b.operands(x)[0], b.definition(x).params["axes"]
    if any(x.shape[a] != n for a, n in zip(axes, source.shape, strict=True)):
        return None
    bounds = {name: tuple(node.params[name][a] for a in axes) for name in ("start", "stop", "step")}
    if axes:
        source = b.slice(source, **bounds)
    assert isinstance(node.types[0], ArrayType)
    return _value(b.broadcast(source, shape=node.types[0].shape, axes=axes))


def _slice_of_transpose(b: Rewriter, node: Node, x: Value) -> Value:
    """The transpose of a slice of the stored array."""
    order = b.definition(x).params["axes"]
    bounds = {name: tuple(node.params[name][a] for a in inverse_permutation(order)) for name in BOUNDS}
    return _value(b.transpose(b.slice(b.operands(x)[0], **bounds), axes=order))


def _slice_of_reshape(b: Rewriter, node: Node, x: Value) -> Value | None:
    """The slice before the reshape, where the elements that it selects of a split axis are contiguous in memory.

    ``x[i]`` is such a slice, where an axis was split into equal chunks.
    """
    (source,) = b.operands(x)
    start, stop, steps = [dim(0)] * len(source.shape), list(source.shape), [1] * len(source.shape)
    for piece in pieces(source.shape, x.shape):
        if len(piece.old) == len(piece.new) == 1:
            (old,), (new,) = piece.old, piece.new
            start[old], stop[old], steps[old] = (node.params[name][new] for name in BOUNDS)
            continue
        axes = [a for a in piece.old if source.shape[a] != 1]
        selected = _contiguous_range(piece.new, x.shape, node.params["start"], node.params["stop"])
        whole = selected is not None and selected[1] == product(x.shape[a] for a in piece.new)
        if selected is None or any(node.params["step"][a] != 1 for a in piece.new) or (len(axes) != 1 and not whole):
            return None
        if len(axes) == 1:
            start[axes[0]], stop[axes[0]] = selected[0], selected[0] + selected[1]
    sliced = b.slice(source, start=tuple(start), stop=tuple(stop), step=tuple(steps))
    assert isinstance(node.types[0], ArrayType)
    return _value(b.reshape(sliced, shape=node.types[0].shape))


def _contiguous_range(axes: Sequence[int], shape: Shape, start: Shape, stop: Shape) -> tuple[Dim, Dim] | None:
    """Start and length, in the row-major order of some axes, of what a slice selects there, if it is contiguous."""
    first, length = dim(0), dim(1)
    for axis in axes:
        selected = stop[axis] - start[axis]
        if length != 1 and selected != shape[axis]:
            return None
        first, length = first * shape[axis] + start[axis], length * selected
    return first, length


def _reverse(b: Rewriter, node: Node, x: Value) -> Value | None:
    inner, axes = b.definition(x), set(node.params["axes"])
    if inner.primitive.name == "reverse":
        once = tuple(sorted(axes ^ set(inner.params["axes"])))
        return _value(b.reverse(b.operands(x)[0], axes=once))
    moving = tuple(sorted(a for a in axes if x.shape[a] != 1))
    if inner.primitive.name == "broadcast":
        moving = tuple(a for a in moving if a in inner.params["axes"])
    if not moving:
        return x
    return None if moving == node.params["axes"] else _value(b.reverse(x, axes=moving))


def _optimization_barrier(b: Rewriter, x: Value) -> Value | None:
    """A movement of the barrier instead of a barrier of the movement: a barrier alone needs no transposed copy."""
    made = b.definition(x)
    if made.primitive.name not in ("reshape", "transpose", "broadcast"):
        return None
    return _value(getattr(b, made.primitive.name)(b.optimization_barrier(*b.operands(x)), **made.params))


def _without_empty(b: Rewriter, node: Node, operands: tuple[Value, ...]) -> Value | None:
    """A concatenation of the operands that have elements: a kernel loads from each of them, whichever it selects."""
    if operands[0].type == node.types[0]:
        return operands[0]
    filled = [operand for operand in operands if operand.shape[node.params["axis"]] != 0]
    if len(filled) == 1:
        return filled[0]
    return _value(b.concat(*filled, **node.params)) if len(filled) < len(operands) else None


def _pad(b: Rewriter, node: Node, x: Value, value: Value) -> Value | None:
    borders = tuple(zip(node.params["low"], node.params["high"], node.params["interior"], strict=True))
    if all(border == NO_BORDER for border in borders):
        return x
    made = b.definition(x)
    if made.primitive.name == "transpose":
        return _pad_of_transpose(b, x, value, borders)
    if made.primitive.name == "reshape":
        (source,) = b.operands(x)
        drops_units = [n for n in source.shape if n != 1] == list(x.shape)  # as of the only block of channels
        if drops_units or b.definition(source).primitive.name == "transpose":
            return _pad_of_reshape(b, x, value, borders)
    return None


def _pad_of_transpose(b: Rewriter, x: Value, value: Value, borders: Sequence[Border]) -> Value | None:
    """The border in the order of axes in memory, unless it would separate neighbours there."""
    order, (source,) = b.definition(x).params["axes"], b.operands(x)
    moved = [borders[a] for a in inverse_permutation(order)]
    if moved[-1] != NO_BORDER:
        return None
    return _value(b.transpose(_bordered(b, source, value, moved), axes=order))


def _pad_of_reshape(b: Rewriter, x: Value, value: Value, borders: Sequence[Border]) -> Value | None:
    """The border before axes are split or joined, where it is around other axes."""
    (source,) = b.operands(x)
    partition = pieces(source.shape, x.shape)
    unmixed = {piece.new[0]: piece.old[0] for piece in partition if len(piece.new) == len(piece.old) == 1}
    if any(border != NO_BORDER and axis not in unmixed for axis, border in enumerate(borders)):
        return None
    moved = [NO_BORDER] * len(source.shape)
    for new, old in unmixed.items():
        moved[old] = borders[new]
    shape = [lo + n + hi + maximum(n - 1, 0) * i if i else lo + n + hi
             for n, (lo, hi, i) in zip(x.shape, borders, strict=True)]  # fmt: skip
    return _value(b.reshape(_bordered(b, source, value, moved), shape=tuple(shape)))


def _bordered(b: Rewriter, source: Value, value: Value, borders: Sequence[Border]) -> Value:
    low, high, interior = zip(*borders, strict=True)
    return _value(b.pad(source, value, low=low, high=high, interior=interior))


def _value(value: Value) -> Value:
    """A builder's result, whose type the checker cannot know, as a value."""
    return value


_RULES: dict[str, Callable[[Rewriter, Node, Value], Value | None]] = {
    "reshape": _reshape,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
}
