"""What a group of a sequential loop writes in place: a few elements of an array, each by a statement of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product as combinations

from zenith.backends.expressions import Apply, Expr, Load
from zenith.backends.kernel import Loop, Store
from zenith.backends.lower.elements import Index
from zenith.backends.lower.sequential.arrays import Array, SequentialElements, Unsuitable, Writer
from zenith.backends.lower.sequential.intervals import Counter
from zenith.backends.lower.sequential.parallel import Access, WrittenRow
from zenith.ir.dims import Dim, DimLike, dim, product, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Fold, Overwrite, Scalar, Scatter, Tile
from zenith.ir.types import ArrayType

SMALL = 16  # elements of an array that are written by a statement each
AT_ONCE = 4  # elements of a value that are computed where it stands
AGAIN = 2  # how often elements of a row are computed at most, once for each reader


def writes(body: Graph, value: Value) -> bool:
    """Whether a group writes a value over its first operand."""
    return isinstance(body.node(value.node).primitive.lowering, (Scatter, Overwrite))


def check_lazy(body: Graph, writer: Writer) -> None:
    """Unsuitable where a group computes arrays of more than a few elements: these are work for vectors and threads."""
    for number, node in body.nodes():
        if not isinstance(node.primitive.lowering, (Scalar, Fold, Tile)):
            continue
        for output, type in enumerate(node.types):
            assert isinstance(type, ArrayType)
            if is_few(type.shape):
                continue
            readers = [user for o, user, _ in body.users(number) if o == output]
            lazy = isinstance(node.primitive.lowering, Scalar) and len(readers) <= AGAIN and writer.is_piece(type.shape)
            if not lazy:
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
        self.updates: list[tuple[Index, Expr]] = []
        shape = self.args[1].shape
        self.is_row = sum(n != 1 for n in shape) == 1 and e.writer.is_piece(shape)
        for index in () if self.is_row else indices_of(self.args[1].shape):
            self.updates.append((self._place(index), e.element(self.args[1], index)))

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
        if self.is_row:
            self._store_row(array)
        for place, update in self.updates:
            self._store(array, place, update)
        return self.e.writer.written(array)

    def _store(self, array: Array, index: Index, update: Expr) -> None:
        lowering, place = self.node.primitive.lowering, row_major(self.value.shape, index)
        self.e.writer.accesses.append(Access(array.buffer, array.shape, index, True))
        if isinstance(lowering, Scatter) and not lowering.overwrites:
            update = Apply(lowering.combine, (Load(array.buffer, place, array.dtype), update), array.dtype)
        self.e.append(Store(array.buffer, place, update))

    def _store_row(self, array: Array) -> None:
        """Write a row in a loop, whose iterations read nothing that others of them write."""
        e, writer = self.e, self.e.writer
        shape = self.args[1].shape
        axis = next(a for a, n in enumerate(shape) if n != 1)
        e.compute_numbers(self.args[1])
        outside, name = frozenset(writer.taken), e.fresh("along")
        index = tuple(symbol(name) if a == axis else dim(0) for a in range(len(shape)))
        e.open(name)
        with writer.intervals.within(Counter(name, dim(0), shape[axis] - 1)):
            place = self._place(index)
            before, writer.writing = (
                writer.writing,
                WrittenRow(Access(array.buffer, self.value.shape, place, True), name, outside),
            )
            self._store(array, place, e.element(self.args[1], index))
            writer.writing = before
        e.append(Loop(name, dim(0), shape[axis], False, e.close()))
