"""A border around points that have several elements each, contiguous in memory: both axes become one, and so do loops.

Rows of an array are then long: the offset computed once for each row does not take longer than the row itself. A border
around what a kernel computes for a convolution stays: that kernel writes inside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from zenith.ir.dims import dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Elements
from zenith.passes.borders import written_borders
from zenith.passes.grouping import Grouping
from zenith.passes.rewrite import Rewriter, rebuild


def joined_borders(graph: Graph) -> Graph:
    """The graph with borders of the last axis but one on both last axes as one."""
    written = Grouping(graph).transposed if written_borders(graph) else ()
    return rebuild(graph, partial(_visit, written), inner=joined_borders)


def _visit(written: Collection[int], b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name != "pad" or b.number in written or len(args[0].shape) < 2:
        return None
    (x, value), (low, high, interior) = args, (node.params[name] for name in ("low", "high", "interior"))
    moved = isinstance(
        b.definition(x).primitive.lowering, Elements
    )  # an index map has no memory that could be viewed in another shape
    bordered = (low[-2] != 0 or high[-2] != 0) and interior[-2] == 0
    if moved or not bordered or low[-1] != 0 or high[-1] != 0 or interior[-1] != 0 or x.shape[-1] == 1:
        return None
    *outer, count, each = x.shape
    rows = b.reshape(x, shape=(*outer, count * each))
    found = b.pad(
        rows, value, low=(*low[:-2], low[-2] * each), high=(*high[:-2], high[-2] * each), interior=(*interior[:-2], 0)
    )
    total = low[-2] + count + high[-2]
    return [b.reshape(found, shape=(*found.shape[:-1], dim(total), each))]
