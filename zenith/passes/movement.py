"""Movement of reshape, transpose, broadcast, slice: they cancel, join, and sink below arithmetic.

The form that is left has three properties that fusion builds on. Movements of movements are one movement. An
elementwise operation works on the smallest shape its operands allow (see :mod:`zenith.passes.sink`), so what NumPy's
``keepdims`` computes on ``[n, 1]`` is computed on ``[n]`` and broadcast once. A broadcast never stretches an axis of
size 1: such an axis is dropped first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Fold, Scalar
from zenith.ir.ops.shape import inverse_permutation
from zenith.ir.types import ArrayType
from zenith.passes import sink
from zenith.passes.axes import align, subsequence
from zenith.passes.rewrite import Rewriter, rebuild

ATTENTION = ("attention", "attention_vjp")


def movement(graph: Graph) -> Graph:
    """The graph with movements cancelled, joined, and sunk below the arithmetic that allows it."""
    return rebuild(graph, _visit, again=True)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name in ATTENTION:
        return sink.below_attention(b, node, args)
    result = _moved(b, node, args)
    return None if result is None or result.type != node.types[0] else (result,)


def _moved(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Value | None:
    if isinstance(node.primitive.lowering, Scalar):
        return sink.below_elementwise(b, node, args)
    if isinstance(node.primitive.lowering, Fold):
        return sink.below_reduction(b, node, args[0])
    if node.primitive.name == "matmul":
        return sink.below_product(b, *args)
    if node.primitive.name == "concat":
        return _without_empty(b, node, args)
    if node.primitive.name in _JOIN:
        return _JOIN[node.primitive.name](b, node, args[0])
    return None


def _reshape(b: Rewriter, node: Node, x: Value) -> Value | None:
    shape: tuple[Dim, ...] = node.params["shape"]
    if shape == x.shape:
        return x
    inner = b.definition(x)
    if inner.primitive.name == "reshape":
        return _value(b.reshape(b.operands(x)[0], shape=shape))
    if inner.primitive.name == "broadcast":
        return _reshape_of_broadcast(b, x, shape)
    if inner.primitive.name == "transpose":
        return _split_of_transpose(b, x, shape) or _join_of_transpose(b, x, shape)
    return None


def _split_of_transpose(b: Rewriter, x: Value, shape: tuple[Dim, ...]) -> Value | None:
    """One axis cut into several before the transpose, so that what stands in memory is reshaped."""
    order, (source,) = b.definition(x).params["axes"], b.operands(x)
    places = align(x.shape, shape)
    if len(places.old_rest) != 1 or len(places.new_rest) < 2 or any(n == 0 for n in x.shape):
        return None
    axis, parts = order[places.old_rest[0]], tuple(shape[a] for a in places.new_rest)
    if len(shape) != len(x.shape) + len(parts) - 1:
        return None
    cut = b.reshape(source, shape=(*source.shape[:axis], *parts, *source.shape[axis + 1 :]))
    return _value(b.transpose(cut, axes=_spread_axis(order, axis, len(parts))))


def _join_of_transpose(b: Rewriter, x: Value, shape: tuple[Dim, ...]) -> Value | None:
    """Several axes made one before the transpose, when they are neighbours in this order in memory too."""
    order, (source,) = b.definition(x).params["axes"], b.operands(x)
    places = align(x.shape, shape)
    old, new = places.old_rest, places.new_rest
    if len(old) < 2 or len(new) != 1 or len(shape) != len(x.shape) - len(old) + 1:
        return None
    first, count = order[old[0]], len(old)
    if any(order[place] != first + i for i, place in enumerate(old)):
        return None
    joined = b.reshape(source, shape=(*source.shape[:first], shape[new[0]], *source.shape[first + count :]))
    turn = tuple(a if a <= first else a - count + 1 for a in order if not first < a < first + count)
    return _value(b.transpose(joined, axes=turn))


def _spread_axis(order: Sequence[int], axis: int, count: int) -> tuple[int, ...]:
    """A permutation in which one axis of the source has become ``count`` neighbours."""
    moved = [[a + (count - 1) * (a > axis)] if a != axis else list(range(axis, axis + count)) for a in order]
    return tuple(a for group in moved for a in group)


def _reshape_of_broadcast(b: Rewriter, x: Value, shape: tuple[Dim, ...]) -> Value | None:
    """The source broadcast to the new shape at once, when the reshape leaves its axes alone."""
    axes, source = b.definition(x).params["axes"], b.operands(x)[0]
    places = align(x.shape, shape).axes
    kept = [i for i, a in enumerate(axes) if a in places]
    if any(x.shape[a] != 1 or n != 1 for a, n in zip(axes, source.shape, strict=True) if a not in places):
        return None
    if not kept and shape and source.shape and all(n == 1 for n in shape):
        return _value(b.reshape(source, shape=shape))
    source = b.reshape(source, shape=tuple(source.shape[i] for i in kept))
    return _value(b.broadcast(source, shape=shape, axes=tuple(places[axes[i]] for i in kept)))


def _broadcast(b: Rewriter, node: Node, x: Value) -> Value | None:
    shape, axes = node.params["shape"], node.params["axes"]
    if shape == x.shape:
        return x
    kept = [i for i, a in enumerate(axes) if x.shape[i] != 1 or shape[a] == 1]
    if len(kept) < len(axes):
        small = b.reshape(x, shape=tuple(x.shape[i] for i in kept))
        return _value(b.broadcast(small, shape=shape, axes=tuple(axes[i] for i in kept)))
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
        places = subsequence(source.shape, x.shape)
        if places is not None:
            return _value(b.broadcast(source, shape=shape, axes=tuple(axes[p] for p in places)))
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
    if inner.primitive.name == "reshape" and b.definition(b.operands(x)[0]).primitive.name in ATTENTION:
        return _transpose_of_joined(b, order, x)
    moving = [a for a in order if x.shape[a] != 1]
    if moving == sorted(moving):
        return _value(b.reshape(x, shape=tuple(x.shape[a] for a in order)))
    return None


def _transpose_of_joined(b: Rewriter, order: tuple[int, ...], x: Value) -> Value | None:
    """Heads that attention has as two axes are joined after the transpose, which is then how it stores its result."""
    (source,) = b.operands(x)
    places = align(source.shape, x.shape)
    if len(places.new_rest) != 1 or len(source.shape) != len(x.shape) + len(places.old_rest) - 1:
        return None
    apart = _spread_axis(order, places.new_rest[0], len(places.old_rest))
    return _value(b.reshape(b.transpose(source, axes=apart), shape=tuple(x.shape[a] for a in order)))


def _transpose_of_broadcast(b: Rewriter, order: tuple[int, ...], x: Value) -> Value:
    """A broadcast of the transposed source, which is smaller."""
    places = inverse_permutation(order)
    moved = [places[a] for a in b.definition(x).params["axes"]]
    turn = tuple(sorted(range(len(moved)), key=lambda i: moved[i]))
    source = b.transpose(b.operands(x)[0], axes=turn)
    return _value(b.broadcast(source, shape=tuple(x.shape[a] for a in order), axes=tuple(sorted(moved))))


def _slice(b: Rewriter, node: Node, x: Value) -> Value | None:
    start, stop, step = node.params["start"], node.params["stop"], node.params["step"]
    if all(lo == 0 and hi == n and s == 1 for lo, hi, s, n in zip(start, stop, step, x.shape, strict=True)):
        return x
    inner = b.definition(x)
    if inner.primitive.name == "broadcast":
        return _slice_of_broadcast(b, node, x)
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
    part = {name: tuple(node.params[name][a] for a in axes) for name in ("start", "stop", "step")}
    if axes:
        source = b.slice(source, **part)
    assert isinstance(node.types[0], ArrayType)
    return _value(b.broadcast(source, shape=node.types[0].shape, axes=axes))


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


def _without_empty(b: Rewriter, node: Node, parts: tuple[Value, ...]) -> Value | None:
    """A concatenation of the parts that have elements: a kernel reads each somewhere, whichever it takes."""
    if parts[0].type == node.types[0]:
        return parts[0]
    filled = [part for part in parts if part.shape[node.params["axis"]] != 0]
    if len(filled) == 1:
        return filled[0]
    return _value(b.concat(*filled, **node.params)) if len(filled) < len(parts) else None


def _pad(b: Rewriter, node: Node, x: Value) -> Value | None:
    nothing = all(n == 0 for n in (*node.params["low"], *node.params["high"])) and not any(node.params["interior"])
    return x if nothing else None


def _value(value: Value) -> Value:
    """A builder's answer, whose type the checker cannot know, as a value."""
    return value


_JOIN: dict[str, Callable[[Rewriter, Node, Value], Value | None]] = {
    "reshape": _reshape,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "pad": _pad,
}
