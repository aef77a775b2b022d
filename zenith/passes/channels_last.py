"""Channels last: the layout of a GPU's convolutions in memory, all channels of a group next to each other.

A GPU multiplies windows with weights (:mod:`zenith.backends.lower.convolution.gpu`) and copies 16 bytes at a time.
It needs many neighbours, not blocks of a few; a row of a window with its channels is then contiguous in memory, a
convolution with windows of one point an ordinary product. Libraries call the layout NHWC, that of weights KRSC.

A gradient by weights is a convolution here, too, whose channels are the examples and whose weights are the cotangent.
There the examples stay outermost in both: each is a block of its own, so the cotangent, channels last, is the matrix of
weights as it is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith.ir.dims import dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.blocked_convolution import BlockedLayout, expand, share
from zenith.ir.primitive import Params
from zenith.passes.rewrite import Rewriter, rebuild


def channels_last(graph: Graph) -> Graph:
    """The graph with convolutions written out on whole groups of channels."""
    return rebuild(graph, _visit)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name == "conv":
        return expand(b, args, node.params, _whole)
    return _by_weights(b, args[0], args[1], node.params) if node.primitive.name == "conv_weights" else None


def _whole(w: Any, params: Params, word: int) -> BlockedLayout:
    """A block of all channels."""
    return BlockedLayout(w.shape[1], share(w.shape[0], params["groups"]), outputs_first=True)


def _exchanged(w: Any, params: Params, word: int) -> BlockedLayout:
    """Examples as channels: a block each."""
    return BlockedLayout(dim(1), share(w.shape[0], params["groups"]))


def _by_weights(b: Rewriter, x: Value, y: Value, params: Params) -> Sequence[Value]:
    """The gradient by weights as a convolution whose examples are the channels, and whose channels the examples."""
    groups, axes = params["groups"], tuple(range(2, len(x.shape)))
    n, channels = x.shape[0], params["channels"]
    grouped = b.reshape(x, shape=(n, groups, channels, *x.shape[2:]))
    exchanged = b.transpose(grouped, axes=(2, 1, 0, *(a + 1 for a in axes)))
    examples = b.reshape(exchanged, shape=(channels, groups * n, *x.shape[2:]))
    own = {"strides": params["dilation"], "dilation": params["strides"], "groups": groups}
    (found,) = expand(b, (examples, b.transpose(y, axes=(1, 0, *axes))), own, _exchanged)
    none, every = (0,) * len(x.shape), (1,) * len(x.shape)
    inside = b.slice(found, start=none, stop=(*found.shape[:2], *params["window"]), step=every)
    return [b.transpose(inside, axes=(1, 0, *axes))]
