"""Work: how many operations a kernel takes and how many bytes it moves, as formulas of the sizes.

Operations are those of the program, not of the machine: an elementwise operation counts the cost in its record (one for
an addition, about 14 for an exponential), a reduction one for each element, a product two for each term. Bytes are
those of the buffers, each counted once: a second read should hit a cache. Of an argument that is read through an
index map only (a slice, an embedding's rows) the elements that the map reads count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zenith.backends.kernel import Buffer, Kernel
from zenith.ir.dims import Dim, dim, minimum, product, prove_at_least
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Elements, Fold, Overwrite, Prefix, Scalar, Scatter, Tile
from zenith.ir.types import ArrayType


@dataclass(frozen=True, slots=True)
class Work:
    """Arithmetic operations, bytes read and bytes written."""

    operations: Dim
    read: Dim
    written: Dim

    def __add__(self, other: Work) -> Work:
        return Work(self.operations + other.operations, self.read + other.read, self.written + other.written)


NO_WORK = Work(dim(0), dim(0), dim(0))


def work_of(kernel: Kernel, body: Graph) -> Work:
    """The work of all tasks of a kernel that was made for a group's body."""
    numbers = (number for number, _ in body.nodes())
    operations = operations_of(body, numbers) if kernel.operations is None else kernel.operations
    inputs = {str(body.node(v.node).params["name"]): v for v in body.inputs}
    read = (_elements_read(body, inputs.get(b.name), b) * b.dtype.itemsize for b in kernel.buffers if b.role == "in")
    written = (_elements_written(body, kernel, b) * b.dtype.itemsize for b in kernel.buffers if b.role != "in")
    return Work(operations, sum(read, dim(0)), sum(written, dim(0)))


def bytes_of(types: Iterable[ArrayType]) -> Dim:
    """The bytes of arrays."""
    return sum((product(t.shape) * t.dtype.itemsize for t in types), dim(0))


def _elements_written(body: Graph, kernel: Kernel, buffer: Buffer) -> Dim:
    """How many elements of a buffer are written: all, unless the kernel updates a copy that another kernel makes."""
    result = body.outputs[0].node
    changes = isinstance(body.node(result).primitive.lowering, (Overwrite, Scatter)) and kernel.operations is None
    return minimum(buffer.size, _size(body.args(result)[1])) if changes else buffer.size


def operations_of(body: Graph, numbers: Iterable[int]) -> Dim:
    """The operations of some nodes of a body."""
    return sum((_node_operations(body, number) for number in numbers), dim(0))


def _node_operations(body: Graph, number: int) -> Dim:
    node, args = body.node(number), body.args(number)
    match node.primitive.lowering:
        case Scalar(cost=cost):
            return _size(Value(number, 0, node.types[0])) * cost
        case Fold():
            return _size(args[0])
        case Prefix(cost=cost):
            return _size(args[0]) * cost
        case Tile(operations=operations):
            return operations([a.type for a in args], node.types)
        case Scatter():
            return _size(args[1])
    return dim(0)


def _size(value: Value) -> Dim:
    return product(value.shape)


def _elements_read(body: Graph, value: Value | None, buffer: Buffer) -> Dim:
    """How many elements of a buffer are read: all, unless it is an input that only index maps read."""
    if value is None:
        return buffer.size
    total = dim(0)
    for _, user, argument in body.users(value.node):
        taken = _elements_taken(body, user, argument, buffer.size)
        if taken is None:
            return buffer.size
        total = total + taken
    if prove_at_least(buffer.size, total):
        return total
    return minimum(buffer.size, total)


def _elements_taken(body: Graph, user: int, argument: int, size: Dim) -> Dim | None:
    """How many elements of an argument an index map takes; None when it is none, or takes all."""
    node = body.node(user)
    if not isinstance(node.primitive.lowering, Elements) or not isinstance(node.types[0], ArrayType):
        return None
    result = product(node.types[0].shape)
    chosen_by_values = (
        argument == 0 and len(body.args(user)) > 1 and node.primitive.name in ("take", "gather", "dynamic_slice")
    )
    return result if chosen_by_values or prove_at_least(size, result) else None
