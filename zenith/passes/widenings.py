"""16-bit floats are converted by their readers, and bytes by some: movements move them as they are in memory.

A *widening* is the exact conversion of a 16-bit float to float32. After this pass no movement follows one, so that
fusion can count it to the readers, each of which widens while it loads: in memory there are 16 bits. Bytes that become
float32 are treated alike, for products to read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, DType, float32, int8, int32, uint8
from zenith.passes.rewrite import Rewriter, rebuild

MOVEMENTS = frozenset({"reshape", "transpose", "broadcast", "slice", "reverse"})


def widenings(graph: Graph) -> Graph:
    """The graph with widenings after the movements of what they widen."""
    return rebuild(graph, _visit)


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.primitive.name not in MOVEMENTS or not (
        is_widening(b.so_far, args[0].node) or makes_float_of_byte(b.so_far, args[0].node)
    ):
        return None
    (source,) = b.operands(args[0])
    (moved,) = b.copy(node, [source])
    return [b.cast(moved, dtype=float32)]


def is_widening(graph: Graph, number: int) -> bool:
    """Whether a node converts 16-bit floats to float32."""
    node = graph.node(number)
    if node.primitive is not get("cast") or node.params["dtype"] != float32:
        return False
    (source,) = graph.args(number)
    return isinstance(source.type, ArrayType) and source.dtype.is_narrow


def widens_byte(graph: Graph, number: int) -> bool:
    """Whether a node converts 8-bit integers to int32."""
    return _casts(graph, number, (int8, uint8), int32)


def makes_float_of_byte(graph: Graph, number: int) -> bool:
    """Whether a node converts int8 to float32."""
    return _casts(graph, number, (int8,), float32)


def _casts(graph: Graph, number: int, stored: Collection[DType], dtype: DType) -> bool:
    node = graph.node(number)
    if node.primitive is not get("cast") or node.params["dtype"] != dtype:
        return False
    (source,) = graph.args(number)
    return isinstance(source.type, ArrayType) and source.dtype in stored
