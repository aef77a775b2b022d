"""Updates of what stands in memory: a part of a view that is written over becomes a part of the array itself.

An assignment to ``x.T[0]`` is recorded as the transpose of an update of the transpose, and one to ``x[1:][:2]`` as an
update by an update of a slice. What can be written in place is the array, so transposes, reversals and slices move from
in front of an update to behind it or into it.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.shape import inverse_permutation
from zenith.passes.rewrite import Rewriter, rebuild

BOUNDS = ("start", "stop", "step")


def updates(graph: Graph) -> Graph:
    """The graph with updates of arrays in place of those of their views."""
    return rebuild(graph, _visit, again=True)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name != "update_slice":
        return None
    found = _moved(b, node, *args)
    return None if found is None or found.type != node.types[0] else (found,)


def _moved(b: Rewriter, node: Node, x: Value, part: Value) -> Value | None:
    inner, bounds = b.definition(x), [node.params[name] for name in BOUNDS]
    if all(low == 0 and high == n and step == 1 for low, high, step, n in zip(*bounds, x.shape, strict=True)):
        return part
    if _is_slice_of(b, part, x, node):
        return x
    if inner.primitive.name == "transpose":
        return _below_transpose(b, node, x, part)
    if inner.primitive.name == "reverse":
        return _below_reverse(b, node, x, part)
    if b.definition(part).primitive.name == "update_slice" and _is_slice_of(b, b.operands(part)[0], x, node):
        return _of_part(b, node, x, part)
    return None


def _is_slice_of(b: Rewriter, part: Value, x: Value, node: Node) -> bool:
    """Whether a value is what the array has where the update writes."""
    made = b.definition(part)
    return made.primitive.name == "slice" and b.operands(part) == (x,) and made.params == node.params


def _below_transpose(b: Rewriter, node: Node, x: Value, part: Value) -> Value:
    order = b.definition(x).params["axes"]
    back = inverse_permutation(order)
    bounds = {name: tuple(node.params[name][a] for a in back) for name in BOUNDS}
    updated = b.update_slice(b.operands(x)[0], b.transpose(part, axes=back), **bounds)
    return _value(b.transpose(updated, axes=order))


def _below_reverse(b: Rewriter, node: Node, x: Value, part: Value) -> Value | None:
    """The part turned round too, counted from the other end; neighbours only, whose first and last are known."""
    axes, bounds = b.definition(x).params["axes"], list(zip(*(node.params[name] for name in BOUNDS), strict=True))
    if any(bounds[a][2] != 1 for a in axes):
        return None
    turned = [(n - high, n - low, 1) if a in axes else (low, high, step)
              for a, ((low, high, step), n) in enumerate(zip(bounds, x.shape, strict=True))]  # fmt: skip
    low, high, step = (tuple(bound[i] for bound in turned) for i in range(3))
    updated = b.update_slice(b.operands(x)[0], b.reverse(part, axes=axes), start=low, stop=high, step=step)
    return _value(b.reverse(updated, axes=axes))


def _of_part(b: Rewriter, node: Node, x: Value, part: Value) -> Value | None:
    """The part of a part: where it stands in the array."""
    inner, first = b.definition(part), node.params["start"]
    if any(step != 1 for step in node.params["step"]):
        return None
    low, high = (tuple(f + at for f, at in zip(first, inner.params[name], strict=True)) for name in ("start", "stop"))
    return _value(b.update_slice(x, b.operands(part)[1], start=low, stop=high, step=inner.params["step"]))


def _value(value: Value) -> Value:
    """A builder's answer, whose type the checker cannot know, as a value."""
    return value
