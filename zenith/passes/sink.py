"""Sinking: a movement of all operands becomes one movement of the result.

Work then happens on the shape of the operands before they were spread, and the movement meets the next one below, to
compose or cancel. Movements only ever go down, so this ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zenith.ir.dims import Dim, product, prove_at_least
from zenith.ir.graph import Node, Value
from zenith.ir.lowering import Data, Elements, Fold, Prefix, Scalar, Tile
from zenith.ir.ops.shape import inverse_permutation
from zenith.ir.types import ArrayType
from zenith.passes.axes import align, inserts_units, pieces, spread_axes
from zenith.passes.rewrite import Rewriter

ATTENTION = ("attention", "attention_vjp")
Shape = tuple[Dim, ...]


def below_elementwise(b: Rewriter, node: Node, args: Sequence[Value]) -> Value | None:
    """An elementwise operation above the broadcast, reshape or transpose of its operands; None when they differ."""
    if not args[0].shape:
        return None
    kinds = [b.definition(a).primitive.name for a in args]
    if all(kind == "broadcast" for kind in kinds):
        return _below_broadcast(b, node, args)
    for arg, kind in zip(args, kinds, strict=True):
        if kind == "reshape":
            result = _below_reshape(b, node, args, arg)
        elif kind == "transpose" and not _is_layout_of_attention(b, arg):
            result = _below_transpose(b, node, args, b.definition(arg).params["axes"])
        else:
            continue
        if result is not None:
            return result
    return None


def reshaped(b: Rewriter, value: Value, shape: Shape) -> Value:
    """A value in another shape: itself, or what it was reshaped from, if that has the shape."""
    if value.shape == shape:
        return value
    if b.definition(value).primitive.name == "reshape":
        return reshaped(b, b.operands(value)[0], shape)
    result: Value = b.reshape(value, shape=shape)
    return result


def _emit(b: Rewriter, node: Node, args: Sequence[Value]) -> Value:
    result: Value = getattr(b, node.primitive.name)(*args, **node.params)
    return result


def _below_broadcast(b: Rewriter, node: Node, args: Sequence[Value]) -> Value | None:
    """Work on the axes that some operand really has; repeat the result along the others."""
    shape = args[0].shape
    used = sorted({axis for a in args for axis in b.definition(a).params["axes"]})
    others = [n for a, n in enumerate(shape) if a not in used]
    lowering = node.primitive.lowering
    checks = isinstance(lowering, Scalar) and lowering.checks  # what has no elements is not checked
    if not others or (checks and not all(prove_at_least(n, 1) for n in others)):
        return None
    small = tuple(shape[a] for a in used)
    sources = []
    for arg in args:
        axes = tuple(used.index(a) for a in b.definition(arg).params["axes"])
        sources.append(b.broadcast(b.operands(arg)[0], shape=small, axes=axes))
    result: Value = b.broadcast(_emit(b, node, sources), shape=shape, axes=tuple(used))
    return result


def _below_reshape(b: Rewriter, node: Node, args: Sequence[Value], model: Value) -> Value | None:
    """Work on the shape that ``model`` had before its reshape, if all operands can be viewed in that shape."""
    source = b.operands(model)[0]
    if not _worth_sinking(b, source, model.shape) and not all(_is_reshaped_index_map(b, a, source.shape) for a in args):
        return None
    stored = isinstance(b.definition(source).primitive.lowering, Data)
    if not all(_has_free_view(b, a, source.shape, stored) for a in args):
        return None
    operands = [reshaped(b, a, source.shape) for a in args]
    result: Value = b.reshape(_emit(b, node, operands), shape=model.shape)
    return result


def _worth_sinking(b: Rewriter, source: Value, shape: Shape) -> bool:
    """Whether a reshape separates what it reads from its users: of stored arrays it is free where it is."""
    return inserts_units(source.shape, shape) or _is_computed(b, source)


def _is_reshaped_index_map(b: Rewriter, value: Value, shape: Shape) -> bool:
    """Whether a value is a reshape, from ``shape``, of an index map's result: one kernel then reads all of these."""
    if b.definition(value).primitive.name != "reshape" or b.operands(value)[0].shape != shape:
        return False
    return isinstance(b.definition(b.operands(value)[0]).primitive.lowering, Elements)


def _is_layout_of_attention(b: Rewriter, value: Value) -> bool:
    """Whether a transpose says how attention stores its result: below arithmetic it would be a kernel of its own.

    That is so unless another one cancels it there, which costs a kernel then.
    """
    made = b.definition(value)
    if made.primitive.name != "transpose" or b.definition(b.operands(value)[0]).primitive.name not in ATTENTION:
        return False
    last = len(value.shape) - 1
    return bool(made.params["axes"][last] == last)


def _is_computed(b: Rewriter, value: Value) -> bool:
    """Whether a value is a computed one, or its transpose or optimization barrier, or the transpose of an argument."""
    is_transposed = b.definition(value).primitive.name == "transpose"
    while b.definition(value).primitive.name in ("transpose", "reshape", "optimization_barrier"):
        if _is_layout_of_attention(b, value):
            return False
        (value,) = b.operands(value)
    made = b.definition(value).primitive
    return isinstance(made.lowering, Scalar | Fold | Prefix | Tile) or (is_transposed and made.name == "input")


def _has_free_view(b: Rewriter, value: Value, shape: Shape, stored: bool) -> bool:
    """Whether a value is available in another shape without computing or storing anything new.

    Computed values lose axes of size 1 for the sake of other computed values only: a ``stored`` array was perhaps
    given such axes to meet them, and the two must not chase each other.
    """
    node = b.definition(value)
    if isinstance(node.primitive.lowering, Data):
        return True
    if node.primitive.name == "reshape":
        return b.operands(value)[0].shape == shape or inserts_units(shape, value.shape)
    if node.primitive.name == "broadcast":
        return spread_axes(value.shape, node.params["axes"], shape) is not None
    return not stored and inserts_units(shape, value.shape)


def _below_transpose(b: Rewriter, node: Node, args: Sequence[Value], order: tuple[int, ...]) -> Value | None:
    """Work in the order of axes before the transpose, if all operands are transposed alike or broadcast."""
    shape = args[0].shape
    inverse = inverse_permutation(order)
    before = tuple(shape[i] for i in inverse)
    sources = []
    for arg in args:
        made = b.definition(arg)
        axes = tuple(order[a] for a in made.params["axes"]) if made.primitive.name == "broadcast" else ()
        if made.primitive.name == "transpose" and made.params["axes"] == order:
            sources.append(b.operands(arg)[0])
        elif made.primitive.name == "broadcast" and list(axes) == sorted(axes):
            sources.append(b.broadcast(b.operands(arg)[0], shape=before, axes=axes))
        else:
            return None
    result: Value = b.transpose(_emit(b, node, sources), axes=order)
    return result


def below_reduction(b: Rewriter, node: Node, x: Value) -> Value | None:
    """A reduction of what was reshaped or transposed; axes of size 1 are dropped, not reduced."""
    axes: tuple[int, ...] = node.params["axes"]
    units = [a for a in axes if x.shape[a] == 1]
    if units:
        left = [a for a in range(len(x.shape)) if a not in units]
        x = b.reshape(x, shape=tuple(x.shape[a] for a in left))
        rest = tuple(i for i, a in enumerate(left) if a in axes)
        return _reduce(b, node, x, rest) if rest else x
    inner = b.definition(x)
    if inner.primitive.name == "transpose":
        return _reduction_of_transpose(b, node, b.operands(x)[0], inner.params["axes"])
    if inner.primitive.name == "reshape":
        return _reduction_of_reshape(b, node, x, b.operands(x)[0])
    return None


def below_prefix(b: Rewriter, node: Node, args: Sequence[Value]) -> Value | None:
    """A prefix without axes of size 1, in the order of axes that its operands had before all were transposed alike."""
    axis, shape = node.params["axis"], args[0].shape
    if shape[axis] == 1:
        return None
    axes = [a for a, size in enumerate(shape) if size != 1]
    if len(axes) < len(shape):
        small = [reshaped(b, a, tuple(shape[k] for k in axes)) for a in args]
        return reshaped(b, _along(b, node, small, axes.index(axis)), shape)
    made = [b.definition(a) for a in args]
    orders = {m.params["axes"] if m.primitive.name == "transpose" else None for m in made}
    order = orders.pop()
    if orders or order is None:
        return None
    result: Value = b.transpose(_along(b, node, [b.operands(a)[0] for a in args], order[axis]), axes=order)
    return result


def _along(b: Rewriter, node: Node, args: Sequence[Value], axis: int) -> Value:
    """The prefix of a node along another axis."""
    result: Value = getattr(b, node.primitive.name)(*args, axis=axis, reverse=node.params["reverse"])
    return result


def _reduce(b: Rewriter, node: Node, x: Value, axes: tuple[int, ...]) -> Value:
    result: Value = getattr(b, node.primitive.name)(x, axes=axes)
    return result


def _reduction_of_transpose(b: Rewriter, node: Node, source: Value, order: tuple[int, ...]) -> Value:
    axes = node.params["axes"]
    small = _reduce(b, node, source, tuple(sorted(order[a] for a in axes)))
    remaining = [order[a] for a in range(len(order)) if a not in axes]
    result: Value = b.transpose(small, axes=tuple(sorted(remaining).index(a) for a in remaining))
    return result


def _reduction_of_reshape(b: Rewriter, node: Node, x: Value, source: Value) -> Value | None:
    """The same reduction before the reshape, which must leave the reduced axes alone or mix them only."""
    axes = node.params["axes"]
    if any(size == 0 for size in x.shape):
        return None  # a reshape of nothing does not say which axes it leaves alone
    alignment = align(x.shape, source.shape)
    mixed = [a for a in axes if a not in alignment.axes]
    if not _worth_sinking(b, source, x.shape) or (mixed and set(mixed) != set(alignment.old_rest)):
        return None
    found = sorted([alignment.axes[a] for a in axes if a in alignment.axes] + [*(alignment.new_rest if mixed else ())])
    result: Value = b.reshape(_reduce(b, node, source, tuple(found)), shape=_without(x.shape, axes))
    return result


def _without(shape: Shape, axes: Any) -> Shape:
    return tuple(n for a, n in enumerate(shape) if a not in axes)


def below_attention(b: Rewriter, node: Node, args: Sequence[Value]) -> Sequence[Value] | None:
    """Heads that repeat keys and values, joined to one axis, stay two axes: then the repetition needs no copies.

    This applies to attention and to its backward pass.
    """
    k, v = args[1:3]
    if any(b.definition(x).primitive.name != "reshape" for x in (k, v)):
        return None
    keys, values = b.operands(k)[0], b.operands(v)[0]
    if b.definition(keys).primitive.name != "broadcast" or keys.shape[:-2] != values.shape[:-2]:
        return None
    lead, alignment = keys.shape[:-2], align(keys.shape, k.shape)
    rank = len(lead)
    if len(alignment.new_rest) != 1 or alignment.axes.get(rank) is None or alignment.axes.get(rank + 1) is None:
        return None
    joined = len(k.shape) - 2
    operands = [b.reshape(x, shape=(*lead, *x.shape[joined:])) for x in args]
    results = getattr(b, node.primitive.name)(*operands, **node.params)
    types = [t for t in node.types if isinstance(t, ArrayType)]
    return [reshaped(b, r, t.shape) for r, t in zip(results, types, strict=True)]


def below_product(b: Rewriter, multiply: Callable[[Value, Value], Value], x: Value, y: Value) -> Value | None:
    """Many products with one matrix are one: the leading axes of ``x`` become rows, in their order in memory."""
    made = b.definition(y)
    rank = len(x.shape)
    if rank > 2 and made.primitive.name == "broadcast" and made.params["axes"] == (rank - 2, rank - 1):
        rows = b.reshape(x, shape=(product(x.shape[:-1]), x.shape[-1]))
        return reshaped(b, multiply(rows, b.operands(y)[0]), (*x.shape[:-1], y.shape[-1]))
    return _below_product_of_rows(b, multiply, x, y) if rank == 2 else None


def _below_product_of_rows(b: Rewriter, multiply: Callable[[Value, Value], Value], x: Value, y: Value) -> Value | None:
    """Rows that are permuted axes joined to one: the product of rows in memory order, then permuted and joined."""
    if b.definition(x).primitive.name != "reshape":
        return None
    (transposed,) = b.operands(x)
    partition = pieces(transposed.shape, x.shape)
    if b.definition(transposed).primitive.name != "transpose" or [piece.new for piece in partition] != [(0,), (1,)]:
        return None
    (source,), order = b.operands(transposed), b.definition(transposed).params["axes"]
    rows, columns = partition[0].old, partition[1].old
    stored = tuple(sorted(rows, key=lambda a: int(order[a])))
    if stored == rows:
        return None
    reordered = b.transpose(source, axes=tuple(order[a] for a in (*stored, *columns)))
    result = multiply(b.reshape(reordered, shape=x.shape), y)
    separate = b.reshape(result, shape=(*(transposed.shape[a] for a in stored), y.shape[1]))
    restored = b.transpose(separate, axes=(*(stored.index(a) for a in rows), len(rows)))
    return reshaped(b, restored, (x.shape[0], y.shape[1]))
