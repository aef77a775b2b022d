"""Tile kernels' results and operands: matrices at constant strides inside a buffer, found by following index maps.

A tile reads 16-bit floats from memory and widens them itself, so that casts which widen are followed, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.lower.collapse import step
from zenith.backends.lower.elements import Index
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.tiles import Operand
from zenith.ir.dims import Dim, DimLike, dim, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Elements
from zenith.ir.primitive import get
from zenith.ir.types import DType


@dataclass(frozen=True, slots=True)
class OperandAccess:
    """The memory of an operand [batch..., row, column]: buffer, position at the batch index, two strides.

    ``dtype`` is that of the buffer.
    """

    buffer: str
    at: Dim
    strides: tuple[Dim, Dim]
    dtype: DType


def dense(buffer: str, at: Dim, width: DimLike) -> Operand:
    """A matrix whose rows of ``width`` elements follow each other in a buffer."""
    return Operand(buffer, at, (dim(width), dim(1)))


def source_of(face: KernelInterface, value: Value, index: Index) -> tuple[Value, Index]:
    """Follow index maps and widenings from an operand's element back to an input and its index in that."""
    while (value.node, value.output) not in face.inputs:
        node, found = face.body.node(value.node), list[Index]()
        (source,) = face.body.args(value.node)
        if node.primitive is get("cast"):
            value = source
            continue
        assert isinstance(node.primitive.lowering, Elements)
        read = [lambda *i, found=found: found.append(tuple(map(dim, i)))]
        node.primitive.lowering.element(None, index, read, [source.type], node.params)
        value, index = source, found[0]
    return value, index


def element_type(face: KernelInterface, operand: Value) -> DType:
    """The element type of an operand in memory, before it is widened."""
    return source_of(face, operand, tuple(symbol(f"axis{k}_of_operand") for k in range(len(operand.shape))))[0].dtype


@dataclass(frozen=True, slots=True)
class Strided:
    """An operand in a buffer: where it begins, and its steps along its own axes."""

    buffer: str
    at: Dim
    steps: tuple[Dim, ...]

    @classmethod
    def of(cls, face: KernelInterface, value: Value) -> Strided:
        """Follow index maps from an operand back to its buffer."""
        names = [f"axis{k}_of_operand" for k in range(len(value.shape))]
        source, index = source_of(face, value, tuple(map(symbol, names)))
        at = row_major(source.shape, index)
        steps = [step(at, name) for name in names]
        assert all(s is not None for s in steps), "fusion keeps operands at constant strides"
        origin = at.substitute(dict.fromkeys(names, 0))
        return cls(face.inputs[source.node, source.output], origin, tuple(s for s in steps if s is not None))


def access(face: KernelInterface, value: Value, batch: Index) -> OperandAccess:
    """Follow index maps from an operand back to a buffer and read off the strides of its last two axes."""
    row, column = "row_of_operand", "column_of_operand"
    value, index = source_of(face, value, (*batch, symbol(row), symbol(column)))
    at = row_major(value.shape, index)
    strides = step(at, row), step(at, column)
    assert strides[0] is not None and strides[1] is not None, "fusion keeps operands at constant strides"
    origin = at.substitute({row: 0, column: 0})
    return OperandAccess(face.inputs[value.node, value.output], origin, (strides[0], strides[1]), value.dtype)


def is_read_elsewhere(face: KernelInterface, operand: Value, argument: int) -> bool:
    """Whether the input of an operand, the tile kernel's argument of that number, has other readers, too."""
    body, reader = face.body, (tile_result(face.body).node, argument)
    while True:
        if any((user, argument_number) != reader for _, user, argument_number in body.users(operand.node)):
            return True
        if (operand.node, operand.output) in face.inputs:
            return False
        reader, (operand,) = (operand.node, 0), body.args(operand.node)


def tile_doc(body: Graph) -> str:
    """What a tile kernel's body computes, as its one line of documentation."""
    names = (r.primitive.name for _, r in body.nodes() if r.primitive.name not in ("input", "transpose"))
    return "; ".join(dict.fromkeys(names))
