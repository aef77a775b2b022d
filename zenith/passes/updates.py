"""Updates of stored arrays: an update of a slice of a view becomes an update of a slice of the array itself.

An assignment to ``x.T[0]`` is recorded as the transpose of an update of the transpose, and one to ``x[1:][:2]`` as an
update by an update of a slice. Only the array can be written in place, so transposes, reversals and slices in front of
an update move to after it or into it. Joined arrays are written piece by piece into memory without contents.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.shape import inverse_permutation
from zenith.passes.rewrite import Rewriter, rebuild

BOUNDS = ("start", "stop", "step")


def updates(graph: Graph) -> Graph:
    """The graph with updates of arrays instead of updates of their views."""
    return rebuild(graph, _visit, revisit=True)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name != "update_slice":
        return None
    found = _moved(b, node, *args)
    return None if found is None or found.type != node.types[0] else (found,)


def _moved(b: Rewriter, node: Node, x: Value, update: Value) -> Value | None:
    inner, bounds = b.definition(x), [node.params[name] for name in BOUNDS]
    if all(low == 0 and high == n and step == 1 for low, high, step, n in zip(*bounds, x.shape, strict=True)):
        return update
    if _is_slice_of(b, update, x, node):
        return x
    if inner.primitive.name == "transpose":
        return _below_transpose(b, node, x, update)
    if inner.primitive.name == "reverse":
        return _below_reverse(b, node, x, update)
    if inner.primitive.name == "empty" and b.definition(update).primitive.name == "concat":
        return _in_pieces(b, node, x, update)
    if b.definition(update).primitive.name == "update_slice" and _is_slice_of(b, b.operands(update)[0], x, node):
        return _nested_update(b, node, x, update)
    return None


def _is_slice_of(b: Rewriter, update: Value, x: Value, node: Node) -> bool:
    """Whether a value is the slice of the array that the update overwrites."""
    made = b.definition(update)
    return made.primitive.name == "slice" and b.operands(update) == (x,) and made.params == node.params


def _below_transpose(b: Rewriter, node: Node, x: Value, update: Value) -> Value:
    order = b.definition(x).params["axes"]
    inverse = inverse_permutation(order)
    bounds = {name: tuple(node.params[name][a] for a in inverse) for name in BOUNDS}
    updated = b.update_slice(b.operands(x)[0], b.transpose(update, axes=inverse), **bounds)
    return _value(b.transpose(updated, axes=order))


def _below_reverse(b: Rewriter, node: Node, x: Value, update: Value) -> Value | None:
    """The update reversed too, at bounds counted from the other end; for steps of 1, whose first and last are known."""
    axes, bounds = b.definition(x).params["axes"], list(zip(*(node.params[name] for name in BOUNDS), strict=True))
    if any(bounds[a][2] != 1 for a in axes):
        return None
    flipped = [(n - high, n - low, 1) if a in axes else (low, high, step)
               for a, ((low, high, step), n) in enumerate(zip(bounds, x.shape, strict=True))]  # fmt: skip
    low, high, step = (tuple(bound[i] for bound in flipped) for i in range(3))
    updated = b.update_slice(b.operands(x)[0], b.reverse(update, axes=axes), start=low, stop=high, step=step)
    return _value(b.reverse(updated, axes=axes))


def _nested_update(b: Rewriter, node: Node, x: Value, update: Value) -> Value | None:
    """An update of a slice by an update of that slice: one update, at the sum of the two offsets."""
    inner, first = b.definition(update), node.params["start"]
    if any(step != 1 for step in node.params["step"]):
        return None
    low, high = (tuple(f + o for f, o in zip(first, inner.params[name], strict=True)) for name in ("start", "stop"))
    return _value(b.update_slice(x, b.operands(update)[1], start=low, stop=high, step=inner.params["step"]))


def _in_pieces(b: Rewriter, node: Node, x: Value, update: Value) -> Value | None:
    """An update for each of the arrays that are joined: none of them reads what the others overwrite."""
    axis, start = b.definition(update).params["axis"], list(node.params["start"])
    if any(step != 1 for step in node.params["step"]):
        return None
    for piece in b.operands(update):
        stop = [low + n for low, n in zip(start, piece.shape, strict=True)]
        x = _value(b.update_slice(x, piece, start=tuple(start), stop=tuple(stop), step=node.params["step"]))
        start[axis] = stop[axis]
    return x


def _value(value: Value) -> Value:
    """A builder's result, whose type the checker cannot know, as a value."""
    return value
