"""Residuals of convolutions between two programs: in blocks of channels, as kernels have them.

A program takes and gives arrays as its user sees them, (n, channels, sizes...), while its convolutions compute on
blocks of channels (:mod:`zenith.ir.ops.blocked_convolution`). What a way forward hands to a way back nobody else sees:
the one ends with the movement into blocks, which cancels against the one out of them behind the convolution, and the
other begins with the movement back, which cancels against that in front of its own convolutions. So neither turns an
array for the sake of the other. What no convolution of the way back computes with, such as the flat input of a linear
layer, stays as it is. Elements only move, so a wrong guess costs time and nothing else.
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

Blocks = tuple[Dim, Dim]  # groups, and the channels of a block


def block_residuals(parts: Split, channels_last: bool = False) -> Split:
    """The parts of a derivative as two programs that hand over blocks; ``channels_last`` as their target computes.

    A residual that is an argument or a result of the first part, too, stays as it is.
    """
    own = len(parts.known.outputs) - parts.residuals
    seen, made = {*parts.known.inputs, *parts.known.outputs[:own]}, _in_blocks(parts.known, channels_last)
    read, pairs = _read_in_blocks(parts.unknown), zip(parts.kept, parts.unknown.inputs, strict=False)
    cuts = [made.get(value) if value not in seen and reader in read else None for value, reader in pairs]
    if all(cut is None for cut in cuts):
        return parts
    known = Graph(parts.known.name)
    b = Builder(known)
    outputs = b.inline(parts.known, _inputs(known, parts.known))
    kept = [v if cut is None else blocked(b, v, *cut, None) for v, cut in zip(outputs[own:], cuts, strict=True)]
    known.set_outputs([*outputs[:own], *kept])
    return replace(parts, known=known, unknown=_from_blocks(parts.unknown, kept))


def _from_blocks(unknown: Graph, kept: Sequence[Value]) -> Graph:
    """The second part, whose first arguments come as the first one gives them."""
    graph = Graph(unknown.name)
    b = Builder(graph)
    inputs = _inputs(graph, unknown, kept)
    pairs = zip(inputs, unknown.inputs, strict=True)
    graph.set_outputs(b.inline(unknown, [v if v.type == known.type else unblocked(b, v) for v, known in pairs]))
    return graph


def _inputs(graph: Graph, source: Graph, types_of: Sequence[Value] = ()) -> list[Value]:
    """A graph's inputs, added to another graph, the first of them with the types of other values."""
    types = [v.type for v in (*types_of, *source.inputs[len(types_of) :])]
    names = [source.node(v.node).params["name"] for v in source.inputs]
    return [graph.add_input(type, name) for type, name in zip(types, names, strict=True)]


def _in_blocks(graph: Graph, channels_last: bool) -> dict[Value, Blocks]:
    """What convolutions make, and what is computed from it with its channels in their places.

    Blocks of one channel are none: so channels stand whose number has no divisor.
    """
    found: dict[Value, Blocks] = {}
    for number, node in graph.nodes():
        args = graph.args(number)
        if node.primitive.name == "conv":
            x, w = args
            cut = blocks_of_result(x.shape[1], w.shape[0], w.shape[2:], node.params["groups"], channels_last)
            if all(size.static not in (None, 0) for size in cut) and cut[1] != 1:
                found[Value(number, 0, node.types[0])] = cut
        elif node.bodies or isinstance(node.primitive.lowering, Scalar | Elements | Fold | View):
            before = next((a for a in args if a in found), None)
            for place, type in enumerate(node.types if before is not None else ()):
                if before is not None and _has_channels_of(type, before):
                    found[Value(number, place, type)] = found[before]
    return found


def _read_in_blocks(graph: Graph) -> set[Value]:
    """What convolutions read, and what that is computed from, place by place."""
    found: set[Value] = set()
    for number, node in reversed(list(graph.nodes())):
        in_place = isinstance(node.primitive.lowering, Scalar) or node.primitive.name in ("pad", "slice")
        read = in_place and any(Value(number, place, type) in found for place, type in enumerate(node.types))
        if read or node.primitive.name in ("conv", "conv_weights"):
            found.update(graph.args(number))
    return found


def _has_channels_of(type: object, value: Value) -> bool:
    """Whether an array has the examples and the channels of another one, and places behind them."""
    return isinstance(type, ArrayType) and len(type.shape) > 2 and type.shape[:2] == value.shape[:2]
