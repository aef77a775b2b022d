"""A reduction over small windows is a chain of shifted arrays.

Element by element, neighbours are computed in one vector, and slices move through transposes; the elements of a window
are few, and no loop over them fills a vector.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from zenith.ir.dims import product
from zenith.ir.graph import Graph, Node, Value
from zenith.passes.rewrite import Rewriter, rebuild

JOINS = {"reduce_sum": "add", "reduce_max": "maximum", "reduce_min": "minimum"}
LARGEST = 25  # elements of a window: longer chains compile slowly


def shifted_windows(graph: Graph) -> Graph:
    """The graph with such reductions written out."""
    return rebuild(graph, _visit)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    made = b.definition(args[0]) if node.primitive.name in JOINS else None
    if made is None or made.primitive.name != "windows":
        return None
    window, stride, dilation = (made.params[name] for name in ("window", "stride", "dilation"))
    axes, rank = len(window), len(args[0].shape)
    count = product(window).static
    known = count is not None and 0 < count <= LARGEST and all(s.static is not None for s in stride)
    if node.params["axes"] != tuple(range(rank - axes, rank)) or not known:
        return None
    (x,), join = b.operands(args[0]), getattr(b, JOINS[node.primitive.name])
    lead, counts = (0,) * (rank - 2 * axes), args[0].shape[rank - 2 * axes : rank - axes]
    total = None
    for place in itertools.product(*(range(k.static) for k in window)):
        low = [i * d for i, d in zip(place, dilation, strict=True)]
        stop = [lo + (n - 1) * s + 1 for lo, n, s in zip(low, counts, stride, strict=True)]
        steps = (1,) * len(lead) + tuple(s.static for s in stride)
        part = b.slice(x, start=(*lead, *low), stop=(*x.shape[: len(lead)], *stop), step=steps)
        total = part if total is None else join(total, part)
    return [total]
