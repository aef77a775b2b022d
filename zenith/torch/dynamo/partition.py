"""Which residuals the forward pass saves for the backward pass: a minimum cut, and in which layout.

The cut is PyTorch's (Griewank and Walther's checkpointing question, as a flow problem). What convolutions
compute, and what is elementwise from there, is saved in the layout that programs have it in, blocks of channels:
neither program permutes an array for the other (:mod:`zenith.ir.ops.blocked_convolution`).
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
from zenith.torch.dynamo.blocks import LAYOUT, Blocked
from zenith.torch.dynamo.results import root_of, view_key
from zenith.torch.translate import returned

Graphs = tuple[torch.fx.GraphModule, torch.fx.GraphModule]


def partition(joint: torch.fx.GraphModule, inputs: Sequence[object], *, num_fwd_outputs: int, **more: Any) -> Graphs:
    """The forward and the backward graph of a joint graph, whose first results are the user's."""
    forward, backward = min_cut_rematerialization_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **more)
    _mark_blocked_residuals(forward.graph, backward.graph, num_fwd_outputs)
    return forward, backward


def _mark_blocked_residuals(forward: torch.fx.Graph, backward: torch.fx.Graph, users: int) -> None:
    """Mark, in both graphs, the residuals that are in blocks of channels."""
    blocks = _blocks(forward)
    nodes = [node if isinstance(node, torch.fx.Node) else None for node in returned(forward)]
    roots = {node: root_of(node) for node in nodes if node is not None}
    seen = {roots[node] for node in nodes[:users] if node is not None}
    residuals = dict.fromkeys(node for node in nodes[users:] if node is not None)
    times = Counter(roots[node] for node in residuals)
    placeholders = {node.name: node for node in backward.find_nodes(op="placeholder")}
    for node in residuals:
        root, other = roots[node], placeholders.get(node.name)
        if root in blocks and root not in seen and times[root] == 1 and view_key(root) == view_key(node) and other:
            root.meta[LAYOUT] = other.meta[LAYOUT] = blocks[root]


def _blocks(graph: torch.fx.Graph) -> dict[torch.fx.Node, Blocked]:
    """The layout of results of convolutions, and of descendants with the same channels."""
    found: dict[torch.fx.Node, Blocked] = {}
    for node in graph.nodes:
        layout = _blocks_of_convolution(node) or next((found[n] for n in node.all_input_nodes if n in found), None)
        channels = [t.shape[1] for t in pytree.tree_leaves(node.meta.get("val")) if _is_image(t)]
        if layout is not None and node.op == "call_function" and any(_has(layout, n) for n in channels):
            found[node] = layout
    return found


def _blocks_of_convolution(node: torch.fx.Node) -> Blocked | None:
    """The layout of a convolution's result, on the device where it is; None for any other operator."""
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


def _is_image(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.ndim >= 3


def _has(layout: Blocked, channels: object) -> bool:
    return isinstance(channels, int) and channels % (layout.groups * layout.block) == 0
