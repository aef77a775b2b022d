"""What a group of a sequential loop writes in place: a few elements of an array, each by a statement of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product as combinations

from zenith.backends.expressions import Apply, Expr, Load
from zenith.backends.kernel import Store
from zenith.backends.lower.elements import Index
from zenith.backends.lower.sequential.arrays import Array, SequentialElements, Unsuitable
from zenith.ir.dims import Dim, DimLike, dim, product, row_major
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Overwrite, Scalar, Scatter
from zenith.ir.types import ArrayType

SMALL = 16  # elements of an array that are written by a statement each
AT_ONCE = 4  # elements of a value that are computed where it stands


def writes(body: Graph, value: Value) -> bool:
    """Whether a group writes a value over its first operand."""
    return isinstance(body.node(value.node).primitive.lowering, (Scatter, Overwrite))


def check_lazy(body: Graph) -> None:
    """Unsuitable where a group computes arrays of more than a few elements: these are work for vectors and threads."""
    for _, node in body.nodes():
        computes = isinstance(node.primitive.lowering, Scalar)
        if computes and not all(isinstance(t, ArrayType) and is_few(t.shape) for t in node.types):
            raise Unsuitable("its body computes with whole arrays")


def is_few(shape: Sequence[Dim], most: int = SMALL) -> bool:
    """Whether an array has a few elements at most."""
    count = product(shape).static
    return count is not None and count <= most


def indices_of(shape: Sequence[Dim]) -> list[Index]:
    """All indices of a small array."""
    if not is_few(shape):
        raise Unsuitable("its body writes whole arrays")
    return [tuple(map(dim, index)) for index in combinations(*(range(n.static or 0) for n in shape))]


class Update:
    """What a scatter or an overwritten slice changes: positions in the buffer of its first operand, and elements."""

    def __init__(self, e: SequentialElements, body: Graph, value: Value) -> None:
        self.e, self.node, self.value = e, body.node(value.node), value
        self.args = body.args(value.node)
        self.updates: list[tuple[Dim, Expr]] = []
        for index in indices_of(self.args[1].shape):
            self.updates.append((row_major(value.shape, self._place(index)), e.element(self.args[1], index)))

    def _place(self, index: Index) -> Index:
        """Where the update's element at an index goes."""
        lowering, builder = self.node.primitive.lowering, self.e.indexing(self.node.line, index)
        if isinstance(lowering, Scatter):
            lead = len(self.args[2].shape)
            pairs = zip(self.args[2:], self.value.shape, strict=False)
            plain = self.e.indexing(self.node.line, ())
            return (*(plain.checked(self.e.element(i, index[:lead]), n) for i, n in pairs), *index[lead:])
        assert isinstance(lowering, Overwrite)
        read = [partial(self._read, argument) for argument in self.args]
        places = lowering.coordinates(builder, index, read, [a.type for a in self.args], self.node.params)
        return tuple(map(dim, places))

    def _read(self, argument: Value, *index: DimLike) -> Expr:
        return self.e.element(argument, tuple(map(dim, index)))

    def store(self) -> Array:
        """Write the elements; the array afterwards."""
        array = self.e.arrays.get((self.args[0].node, self.args[0].output))
        if array is None:
            raise Unsuitable("an array is made in its body")
        self.e.writer.require_current(array)
        lowering = self.node.primitive.lowering
        for place, update in self.updates:
            if isinstance(lowering, Scatter) and not lowering.overwrites:
                update = Apply(lowering.combine, (Load(array.buffer, place, array.dtype), update), array.dtype)
            self.e.append(Store(array.buffer, place, update))
        return self.e.writer.written(array)
