"""Residuals of convolutions between two programs: in blocks of channels, the layout of their kernels.

A program takes and gives arrays as its user sees them, (n, channels, sizes...), while its convolutions compute on
blocks of channels (:mod:`zenith.ir.ops.blocked_convolution`). Nobody else sees the residuals of a forward pass: it ends
with the movement into blocks, which cancels against the one out of them after the convolution, and the backward pass
begins with the movement out of blocks, which cancels against the one in front of its own convolutions. So neither
permutes an array for the sake of the other. A residual that no convolution of the backward pass reads, such as the flat
input of a linear layer, stays as it is. Elements only move, so a wrong guess costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zenith.ir.builder import Builder
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Elements, Fold, Scalar, View
from zenith.ir.ops.blocked_convolution import blocked, blocks_of_result, unblocked
from zenith.ir.types import ArrayType
from zenith.transforms.split import Split

Blocks = tuple[Dim, Dim]  # the number of groups, and of channels in a block


def block_residuals(halves: Split, channels_last: bool = False) -> Split:
    """The two halves of a derivative with residuals in blocks; ``channels_last`` is the layout of their target.

    A residual that is also an argument or a result of the forward pass stays as it is.
    """
    own = len(halves.known.outputs) - halves.residuals
    seen, made = {*halves.known.inputs, *halves.known.outputs[:own]}, _in_blocks(halves.known, channels_last)
    read, pairs = _read_in_blocks(halves.unknown), zip(halves.residual_values, halves.unknown.inputs, strict=False)
    blocks = [made.get(value) if value not in seen and reader in read else None for value, reader in pairs]
    if all(size is None for size in blocks):
        return halves
    known = Graph(halves.known.name)
    b = Builder(known)
    outputs = b.inline(halves.known, _inputs(known, halves.known))
    saved = [v if size is None else blocked(b, v, *size) for v, size in zip(outputs[own:], blocks, strict=True)]
    known.set_outputs([*outputs[:own], *saved])
    return replace(halves, known=known, unknown=_from_blocks(halves.unknown, saved))


def _from_blocks(unknown: Graph, residuals: Sequence[Value]) -> Graph:
    """The backward pass, whose first arguments have the layout of the residuals that it is given."""
    graph = Graph(unknown.name)
    b = Builder(graph)
    inputs = _inputs(graph, unknown, residuals)
    pairs = zip(inputs, unknown.inputs, strict=True)
    graph.set_outputs(b.inline(unknown, [v if v.type == known.type else unblocked(b, v) for v, known in pairs]))
    return graph


def _inputs(graph: Graph, source: Graph, types_of: Sequence[Value] = ()) -> list[Value]:
    """A graph's inputs, added to another graph, the first of them with the types of other values."""
    types = [v.type for v in (*types_of, *source.inputs[len(types_of) :])]
    names = [source.node(v.node).params["name"] for v in source.inputs]
    return [graph.add_input(type, name) for type, name in zip(types, names, strict=True)]


def _in_blocks(graph: Graph, channels_last: bool) -> dict[Value, Blocks]:
    """Results of convolutions, and values computed from them whose channels are on the same axis, with their blocks.

    Blocks of one channel do not count: such are channels whose number has no divisor.
    """
    found: dict[Value, Blocks] = {}
    for number, node in graph.nodes():
        args = graph.args(number)
        if node.primitive.name == "conv":
            x, w = args
            sizes = blocks_of_result(x.shape[1], w.shape[0], w.shape[2:], node.params["groups"], channels_last)
            if all(size.static not in (None, 0) for size in sizes) and sizes[1] != 1:
                found[Value(number, 0, node.types[0])] = sizes
        elif node.bodies or isinstance(node.primitive.lowering, Scalar | Elements | Fold | View):
            before = next((a for a in args if a in found), None)
            for output, type in enumerate(node.types if before is not None else ()):
                if before is not None and _has_channels_of(type, before):
                    found[Value(number, output, type)] = found[before]
    return found


def _read_in_blocks(graph: Graph) -> set[Value]:
    """Operands of convolutions, and the values that these are computed from elementwise or by padding and slicing."""
    found: set[Value] = set()
    for number, node in reversed(list(graph.nodes())):
        aligned = isinstance(node.primitive.lowering, Scalar) or node.primitive.name in ("pad", "slice")
        read = aligned and any(Value(number, output, type) in found for output, type in enumerate(node.types))
        if read or node.primitive.name in ("conv", "conv_weights"):
            found.update(graph.args(number))
    return found


def _has_channels_of(type: object, value: Value) -> bool:
    """Whether an array has the examples and the channels of another one, and at least one axis after them."""
    return isinstance(type, ArrayType) and len(type.shape) > 2 and type.shape[:2] == value.shape[:2]
