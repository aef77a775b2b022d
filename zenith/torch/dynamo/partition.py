"""What the way back keeps of the way forward: a minimum cut, and in which layout.

The cut is PyTorch's (Griewank and Walther's checkpointing question, as a flow problem). What convolutions make, and
what is computed from it place by place, is kept in the layout that programs have it in, blocks of channels: neither
program turns an array for the sake of the other (:mod:`zenith.ir.ops.blocked_convolution`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.utils import _pytree as pytree

from zenith.ir.dims import dims
from zenith.ir.ops.blocked_convolution import blocks_of_result
from zenith.torch.dynamo.blocks import KEPT, Blocked
from zenith.torch.dynamo.results import looks, root_of
from zenith.torch.translate import returned

ComplexRule = tuple[torch.fx.GraphModule, torch.fx.GraphModule]


def partition(joint: torch.fx.GraphModule, inputs: Sequence[Any], *, num_fwd_outputs: int, **more: Any) -> ComplexRule:
    """The ways forward and back of a joint graph, whose first results are the user's."""
    forward, back = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)
    _mark_blocked_residuals(forward.graph, back.graph, num_fwd_outputs)
    return forward, back


def _mark_blocked_residuals(forward: torch.fx.Graph, back: torch.fx.Graph, users: int) -> None:
    """Mark, in both graphs, what is kept in blocks of channels."""
    blocks = _blocks(forward)
    nodes = [node if isinstance(node, torch.fx.Node) else None for node in returned(forward)]
    roots = {node: root_of(node) for node in nodes if node is not None}
    seen = {roots[node] for node in nodes[:users] if node is not None}
    kept = dict.fromkeys(node for node in nodes[users:] if node is not None)
    times = Counter(roots[node] for node in kept)
    places = {node.name: node for node in back.find_nodes(op="placeholder")}
    for node in kept:
        root, place = roots[node], places.get(node.name)
        if root in blocks and root not in seen and times[root] == 1 and looks(root) == looks(node) and place:
            root.meta[KEPT] = place.meta[KEPT] = blocks[root]


def _blocks(graph: torch.fx.Graph) -> dict[torch.fx.Node, Blocked]:
    """The layout of what convolutions make, and of what has the same channels behind them."""
    found: dict[torch.fx.Node, Blocked] = {}
    for node in graph.nodes:
        layout = _made(node) or next((found[n] for n in node.all_input_nodes if n in found), None)
        channels = [t.shape[1] for t in pytree.tree_leaves(node.meta.get("val")) if _is_image(t)]
        if layout is not None and node.op == "call_function" and any(_has(layout, n) for n in channels):
            found[node] = layout
    return found


def _made(node: torch.fx.Node) -> Blocked | None:
    """The layout of what a convolution makes, on the device where it is; None for any other operator."""
    value: Any = node.meta.get("val")
    if node.target is not torch.ops.aten.convolution.default or not _is_image(value):
        return None
    read, weights = (argument.meta["val"] for argument in node.args[:2])  # type: ignore[union-attr]
    sizes = (read.shape[1], value.shape[1], *weights.shape[2:], node.args[-1])
    if not all(isinstance(size, int) for size in sizes):
        return None
    inputs, outputs, *window, groups = dims(sizes)
    found = blocks_of_result(inputs, outputs, window, groups, channels_last=value.device.type == "cuda")
    cut, block = (size.static for size in found)
    return None if cut is None or block is None else Blocked(cut, block)


def _is_image(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim >= 3


def _has(layout: Blocked, channels: Any) -> bool:
    return isinstance(channels, int) and channels % (layout.groups * layout.block) == 0
