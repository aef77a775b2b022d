"""The two ends of a graph of AOTAutograd: what its placeholders and results are to a Zenith program.

Programs know dense arrays in row-major order and sizes that belong to arrays. PyTorch's graphs also take and give
tensors in other orders of axes (a transposed view, ``channels_last``) and bare sizes (``SymInt``). Here each becomes
the other without a copy: a tensor is permuted to the order of its memory before the call and the array transposed back
inside the program, where that is free, and a bare size comes as the length of a tensor without elements.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch._guards import detect_fake_mode
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from zenith.ir.dims import Dim
from zenith.ir.types import DType, float64, int64
from zenith.torch.dynamo.blocks import Blocked, layout_of
from zenith.torch.layouts import MemoryFormat, element_type
from zenith.torch.sizes import Size, Sizes
from zenith.trace import InputSpec


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor argument: its element type, sizes, and layout."""

    dtype: DType
    sizes: tuple[Dim, ...]
    layout: MemoryFormat | Blocked

    def leaf(self, value: torch.Tensor) -> torch.Tensor:
        """The argument as the program takes it; PyTorch may have deferred to conjugate or negate its elements."""
        if value.is_conj() or value.is_neg():
            value = value.resolve_conj().resolve_neg()
        return self.layout.in_memory_order(value)

    def spec(self, name: str, leaf: torch.Tensor) -> InputSpec:
        """What the program is traced with."""
        return InputSpec(name, self.dtype, self.layout.shape(self.sizes), tuple(leaf.shape))


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """A Python number, an ``int`` or a ``float``, that is no size: a weak argument without axes."""

    kind: type[int] | type[float] = int

    def leaf(self, value: float) -> float:
        """The number."""
        return self.kind(value)

    def spec(self, name: str, leaf: float) -> InputSpec:
        """What the program is traced with."""
        return InputSpec(name, int64 if self.kind is int else float64, (), (), weak=True)


Argument = TensorArgument | Size | NumberArgument


def arguments_of(graph: torch.fx.Graph, sizes: Sizes) -> dict[torch.fx.Node, Argument]:
    """The argument of each placeholder that is read, in order; a size that tensors bind needs none."""
    found: dict[torch.fx.Node, Argument] = {}
    bound: set[str] = set()
    device = device_of(graph)
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol and _is_negative(value):
            found[node] = Size(sizes.negate(value), device)
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and node.users:
            dtype, shape = element_type(value, f"argument {node.name}"), tuple(map(sizes.of, value.shape))
            found[node] = TensorArgument(dtype, shape, layout_of(node))
            bound |= {str(size) for size in shape if str(size).isidentifier()}
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymFloat) and node.users:
            found[node] = NumberArgument(float)
        if isinstance(value, torch.SymInt) and node not in found and not is_ragged(value):
            size = sizes.of(value)
            if not _is_size(value):
                found[node] = NumberArgument()
            elif str(size).isidentifier() and str(size) not in bound:
                bound.add(str(size))
                found[node] = Size(size, device)
    return {node: found[node] for node in graph.nodes if node in found}


def is_ragged(value: object) -> bool:
    """Whether this is the size of an axis of different lengths, of nested tensors, which is no number."""
    return isinstance(value, torch.SymInt) and value.node.has_hint() and isinstance(value.node.hint, torch.SymInt)


def _is_size(value: torch.SymInt) -> bool:
    """Whether a number is not negative, so that sizes may depend on it; PyTorch compiles anew where that changes."""
    return statically_known_true(value >= 0) or (value.node.has_hint() and bool(value >= 0))


def _is_negative(value: torch.SymInt) -> bool:
    return not statically_known_true(value >= 0) and value.node.has_hint() and bool(value < 0)


def with_examples(graph: torch.fx.Graph) -> torch.fx.Graph:
    """The graph, with examples of its results in the meta of every node; the partition leaves some out."""
    mode = detect_fake_mode([node.meta.get("val") for node in graph.find_nodes(op="placeholder")])
    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta and mode is not None:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
            with mode:
                node.meta["val"] = node.target(*args, **kwargs)
    return graph


def device_of(graph: torch.fx.Graph) -> torch.device:
    """Where the first tensor is that a graph takes or makes."""
    values = (node.meta.get("val") for node in graph.nodes)
    tensors = (leaf for value in values for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))
    return next((tensor.device for tensor in tensors), torch.device("cpu"))
