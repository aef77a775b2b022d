"""Channels last: how a GPU's convolutions stand in memory, all channels of a group beside each other.

A GPU multiplies windows with weights (:mod:`zenith.backends.lower.shared_convolution`) and copies 16 bytes at a time.
It wants many neighbours, not blocks of so many; a row of a window with its channels is then one run of memory, a
convolution of one place an ordinary product, and libraries know the layout by the name NHWC, weights as KRSC.

A gradient by weights is a convolution, too, whose channels are the examples and whose weights are the cotangent. There
the examples stay where they are, outermost in both: each is a block of its own, so the cotangent, channels last, is the
matrix of weights as it lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.blocked_convolution import Layout, expand, share
from zenith.passes.rewrite import Rewriter, rebuild


def channels_last(graph: Graph) -> Graph:
    """The graph with convolutions written out on whole groups of channels."""
    return rebuild(graph, _visit)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    return expand(b, args, node.params, _whole) if node.primitive.name == "conv" else None


def _whole(b: Any, w: Any, groups: Dim) -> Layout:
    """All channels together, but those that were examples."""
    made = b.graph.node(w.node)
    exchanged = made.primitive.name == "transpose" and made.params["axes"][:2] == (1, 0)
    return Layout(dim(1) if exchanged else w.shape[1], share(w.shape[0], groups), not exchanged)
