"""A reshape of a slice becomes a slice of a reshape: the stored array is reshaped, and readers slice it.

A slice is an index map, which kernels read through, but a reshape needs its operand in memory, and so a copy of the
slice. The queries, keys and values that one product computes side by side are such slices, which are then split into
heads.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.dims import Dim, divide_exactly, product
from zenith.ir.graph import Graph, Node, Value
from zenith.passes.axes import pieces
from zenith.passes.rewrite import Rewriter, rebuild

SlicedAxis = tuple[Dim, Dim, Dim]  # the size of an axis, and where a slice of it starts and stops


def slices_of_views(graph: Graph) -> Graph:
    """The graph with slices after the reshapes that can be moved in front of them."""
    return rebuild(graph, _visit)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name != "reshape" or b.definition(args[0]).primitive.name != "slice":
        return None
    (sliced,), made = args, b.definition(args[0])
    (source,), (start, stop, step) = b.operands(sliced), (made.params[name] for name in ("start", "stop", "step"))
    axes: list[SlicedAxis] = []
    for piece in pieces(sliced.shape, node.params["shape"]):
        new = [node.params["shape"][a] for a in piece.new]
        old = [(source.shape[a], start[a], stop[a]) for a in piece.old]
        whole = all(low == 0 and high == size for size, low, high in old)
        split = [(n, Dim({}), n) for n in new] if whole else _split(old, new)
        if split is None or any(step[a] != 1 for a in piece.old):
            return None
        axes += split
    view = b.reshape(source, shape=tuple(size for size, _, _ in axes))
    low, high = (tuple(axis[i] for axis in axes) for i in (1, 2))
    return (b.slice(view, start=low, stop=high, step=(1,) * len(axes)),)


def _split(old: Sequence[SlicedAxis], new: Sequence[Dim]) -> list[SlicedAxis] | None:
    """A sliced axis as several, of which the first is sliced; None where the bounds are no multiples."""
    if len(old) != 1 or not new:
        return None
    inner = product(new[1:])
    bounds = [divide_exactly(n, inner) for n in old[0]]
    if inner == 0 or any(n is None for n in bounds):
        return None
    size, low, high = (n for n in bounds if n is not None)
    return [(size, low, high), *((n, Dim({}), n) for n in new[1:])]
