"""Arrays of a sequential kernel: each is what a buffer contains between two writes.

A value of a graph is what its array was when it was computed; the buffer changes in place. So each write gives the
buffer another *version*, and a value is read only as long as its version is the buffer's current one. What would be
read later is no program for one kernel, and the driver runs it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from zenith.backends.expressions import Apply, Expr, Load, Name
from zenith.backends.kernel import Assign, Let
from zenith.backends.lower.elements import ElementBuilder, Index, IndexBuilder, Level
from zenith.backends.lower.loops import fold
from zenith.backends.lower.sequential.intervals import Counter, Intervals
from zenith.backends.lower.sequential.parallel import Access, Turns, WrittenRow
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim, product, row_major
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Elements, Fold, Interleave, Scalar
from zenith.ir.types import ArrayType, DType, bool_, int64

Read = Callable[[Index], Expr]


def real_shape(value: Value) -> tuple[Dim, ...]:
    """The sizes of a value's elements; complex ones have another axis, of real and imaginary parts."""
    return (*value.shape, dim(2)) if value.dtype.is_complex else value.shape


def is_number(value: Value) -> bool:
    """Whether a value is one number."""
    return isinstance(value.type, ArrayType) and all(n == 1 for n in value.shape)


def parts(value: Value) -> list[Index]:
    """The indices of a number's element, or of its real and imaginary part."""
    origin = (dim(0),) * len(value.shape)
    return [(*origin, dim(0)), (*origin, dim(1))] if value.dtype.is_complex else [origin]


class Unsuitable(Exception):
    """Why a loop is no single kernel."""


class NotYet(Unsuitable):
    """A value of an outer graph is not computed yet."""


@dataclass(frozen=True, slots=True)
class Array:
    """A version of a buffer, as an array of some sizes."""

    buffer: str
    version: int
    shape: tuple[Dim, ...]
    dtype: DType


@dataclass(slots=True)
class Writer:
    """What all graphs in a kernel share: open loops, names in use, and each buffer's current version.

    ``indices`` are the sizes that are turns of the kernel's loops, ``depth`` is the number of loops around. While
    elements of an array are computed that are written in place in a loop, ``writing`` says where. ``wrapped``
    are indices that count from the end where they are negative, as they were, with the sizes. ``accesses`` are all of
    arrays, ``turns`` are those of the program's loop, where their number is known. With ``windows`` a piece may have
    several axes of unknown sizes.
    """

    taken: set[str]
    indices: set[str] = field(default_factory=set)
    depth: int = 1
    writing: WrittenRow | None = None
    levels: list[Level] = field(default_factory=lambda: [Level(set())])
    level_of: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=Intervals)
    numbers: int = 0
    graphs: int = 0
    wrapped: dict[Expr, tuple[Expr, Dim]] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)
    turns: Turns | None = None
    windows: bool = False

    def is_piece(self, shape: Sequence[Dim]) -> bool:
        """Whether an array is a row, in a loop in a loop or as long as turns say: work for the loop's own kernel.

        Larger ones are work for vectors and threads.
        """
        count = product(shape)
        linear = self.windows or all(len(monomial) <= 1 for monomial, _ in count.terms)
        return count.static is None and linear and (self.depth > 1 or bool(count.symbols() & self.indices))

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """The body of a loop in the kernel's."""
        self.depth += 1
        yield
        self.depth -= 1

    def written(self, array: Array) -> Array:
        """The array after a write into its buffer."""
        self.numbers += 1
        self.versions[array.buffer] = self.numbers
        return Array(array.buffer, self.numbers, array.shape, array.dtype)

    def require_current(self, array: Array) -> None:
        """Unsuitable where the buffer has been written since."""
        if self.versions.get(array.buffer, 0) != array.version:
            raise Unsuitable("an array is read after it was written in place")


_ARITHMETIC: dict[str, Callable[[Dim, Dim], Dim]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_INTEGERS = frozenset({*_ARITHMETIC, "maximum", "floor_divide"})


class SequentialElements(ElementBuilder):
    """Elements where they are asked for: nothing moves out of a loop or branch, since what it reads may change there.

    ``sources`` are the values that other graphs compute, ``arrays`` those of them that are whole buffers.
    """

    def __init__(self, body: Graph, writer: Writer) -> None:
        super().__init__(body, {}, set())
        writer.graphs += 1
        self.number = writer.graphs
        self.writer, self.levels, self.level_of, self.taken = writer, writer.levels, writer.level_of, writer.taken
        self.sources: dict[tuple[int, int], Read] = {}
        self.arrays: dict[tuple[int, int], Array] = {}

    def _depth(self, expr: Expr) -> int:
        return len(self.levels) - 1

    def bound(self, key: Hashable, depth: int) -> Name | None:
        """In any of the loops and branches that are open: what they have bound is there."""
        levels = reversed(range(depth + 1))
        return next((found for i in levels if (found := super(SequentialElements, self).bound(key, i))), None)

    def let(self, expr: Expr, line: SourceLine | None = None, stem: str = "v") -> Name:
        """Bind an expression in the innermost loop; a load anew, since a store may come between."""
        if not isinstance(expr, Load):
            return super().let(expr, line, stem)
        self.counter += 1
        name = Name(self.fresh(f"{stem}{self.counter}"), expr.dtype)
        self.append(Let(name.name, expr, line))
        return name

    def element(self, value: Value, index: Index) -> Expr:
        key = (value.node, value.output)
        return self.sources[key](index) if key in self.sources else super().element(value, index)

    def _computed(self, value: Value, index: Index) -> Expr:
        key = ("element", self.number, value.node, value.output, index)
        for level in self.levels:
            if key in level.bound:
                return level.bound[key]
        result = self.levels[-1].bound[key] = self._compute(value, self.body.node(value.node), index)
        return result

    def _compute(self, value: Value, node: Node, index: Index) -> Expr:
        lowering = node.primitive.lowering
        if isinstance(lowering, Interleave):
            return self._interleaved(value, index)
        if node.primitive.name == "input":
            raise NotYet("a value is read before it is computed")
        if isinstance(lowering, Fold) and not value.dtype.is_complex:
            return self._folded(value, node, lowering, index)
        if node.primitive.name == "matmul" and not value.dtype.is_complex:
            return self._product(value, index)
        if (
            node.primitive.name != "literal" and not isinstance(lowering, (Scalar, Elements))
        ) or value.dtype.is_complex:
            raise Unsuitable(f"{node.primitive.name} in its body is no elementwise operation")
        if node.primitive.name == "remainder" and value.dtype == int64:
            number, divisor = (self.element(a, index) for a in self.args[value.node])
            return self._remainder(number, divisor, node.line)
        found = super()._compute(value, node, index)
        if found.dtype == int64 and node.primitive.name in _INTEGERS:
            operands = [self.writer.intervals.value(self.element(a, index)) for a in self.args[value.node]]
            self._note(node.primitive.name, found, *operands)
        return found

    def _remainder(self, number: Expr, divisor: Expr, line: SourceLine | None) -> Expr:
        """A remainder; an index that is less than one period away from its range needs no division."""
        intervals = self.writer.intervals
        a, period = intervals.value(number), intervals.value(divisor)
        text, is_positive = "remainder(x, y)", period is not None and intervals.is_at_least_zero(period - 1)
        if a is not None and period is not None and is_positive:
            if intervals.is_at_least_zero(a) and intervals.is_at_least_zero(period * 2 - 1 - a):
                text = "where(x < y, x, x - y)"
            elif intervals.is_at_least_zero(a + period) and intervals.is_at_least_zero(period - 1 - a):
                text = f"where(x < {int64.name}(0), x + y, x)"
        found = self.let(Apply(text, (number, divisor), int64), line)
        if is_positive:
            intervals.note_remainder(found, period)
        return found

    def _note(self, operation: str, found: Expr, left: Dim | None, right: Dim | None) -> None:
        """Note what is known of an integer."""
        intervals = self.writer.intervals
        if operation == "floor_divide":
            intervals.note_quotient(found, left, right)
        elif operation == "maximum":
            intervals.note(found, intervals.larger(left, right))
        elif left is not None and right is not None:
            intervals.note(found, _ARITHMETIC[operation](left, right))

    def _folded(self, value: Value, node: Node, how: Fold, index: Index) -> Expr:
        """An element of a reduction along axes of a piece: one loop in another for each."""
        (operand,), axes = self.args[value.node], node.params["axes"]
        reduced = [a for a in axes if operand.shape[a] != 1]
        if not reduced or not self._is_short([operand.shape[a] for a in reduced]) or operand.dtype.is_complex:
            raise Unsuitable(f"{node.primitive.name} in its body is of more than a row of the loop's own")
        kept = iter(index)
        places = [dim(0) if a in axes else next(kept) for a in range(len(operand.shape))]

        def along(axis: int, *others: int) -> Expr:
            def term(at: Dim) -> Expr:
                places[axis] = at
                return along(*others) if others else self.element(operand, tuple(places))

            return self._fold(operand.shape[axis], how.identity(operand.dtype), how.combine, term)

        return along(*reduced)

    def _product(self, value: Value, index: Index) -> Expr:
        """An element of a product, whose terms are a piece."""
        left, right = self.args[value.node]
        terms = left.shape[-1]
        if not self._is_short([terms]):
            raise Unsuitable("a product in its body is of more than a row of the loop's own")
        *lead, row, column = index

        def term(at: Dim) -> Expr:
            factors = self.element(left, (*lead, row, at)), self.element(right, (*lead, at, column))
            return self.let(Apply("x * y", factors, value.dtype))

        return self._fold(terms, 0, "x + y", term)

    def _is_short(self, sizes: Sequence[Dim]) -> bool:
        if len(sizes) > 1 and not self.writer.windows:
            return False
        return all(size.static is not None for size in sizes) or self.writer.is_piece(sizes)

    def _fold(self, stop: Dim, initial: float, combine: str, term: Callable[[Dim], Expr]) -> Expr:
        intervals = self.writer.intervals

        def counted(at: Dim) -> Expr:
            with intervals.within(Counter(str(at), dim(0), stop - 1)):
                return term(at)

        return fold(self, ("along", "total"), stop, initial, combine, counted)

    def compute_numbers(self, value: Value) -> None:
        """Compute the numbers that a row needs here, and not once for each of its elements."""
        for number in sorted(self.body.ancestors([value.node])):
            for found in self.body.results(number):
                if is_number(found) and not found.dtype.is_complex:
                    self.element(found, (dim(0),) * len(found.shape))

    def indexing(self, line: SourceLine | None, index: Index) -> IndexBuilder:
        """Index maps whose indices are not checked where that is not needed."""
        return ProvenIndexBuilder(self, line, index)

    def _interleaved(self, value: Value, index: Index) -> Expr:
        *rest, which = index
        operands = [self.element(a, tuple(rest)) for a in self.args[value.node]]
        return self._picked(operands, which)

    def _picked(self, operands: Sequence[Expr], which: Dim) -> Expr:
        """One of a few expressions, by number."""
        if which.static is not None:
            return operands[which.static]
        builder, found = IndexBuilder(self, None, ()), operands[0]
        for number, operand in enumerate(operands[1:], 1):
            found = builder.where(builder.equal(which, number), operand, found)
        return found

    def assign(self, name: str, expr: Expr) -> None:
        """Give a variable a value. What buffers have for a bool is converted: a variable has one type."""
        self.append(Assign(name, Apply("x", (expr,), bool_) if expr.dtype == bool_ else expr))

    def put(self, value: Value, array: Array) -> None:
        """Take a value from a buffer."""
        key = (value.node, value.output)
        self.arrays[key] = array
        self.sources[key] = lambda index: self.load(array, index)

    def put_elements(self, value: Value, found: Mapping[Index, Expr], otherwise: Read) -> None:
        """Take a value of a few elements from expressions; at an index that is no number from ``otherwise``."""
        self.sources[value.node, value.output] = lambda index: found[index] if index in found else otherwise(index)

    def put_number(self, value: Value, parts: Sequence[Expr]) -> None:
        """Take a number from its expression, a complex one from those of its real and imaginary part."""

        def read(index: Index) -> Expr:
            if len(parts) == 1:
                return parts[0]
            return self._picked(parts, index[-1])

        self.sources[value.node, value.output] = read

    def share(self, value: Value, other: SequentialElements, source: Value) -> None:
        """Take a value from another graph's."""
        key = (source.node, source.output)
        if key in other.arrays:
            self.put(value, other.arrays[key])
        else:
            self.sources[value.node, value.output] = lambda index: other.element(source, index)

    def load(self, array: Array, index: Sequence[Dim]) -> Expr:
        """An element of an array."""
        self.writer.require_current(array)
        read, row = Access(array.buffer, array.shape, tuple(index), False), self.writer.writing
        if row is not None and not row.is_apart(read, self.writer.intervals, self.writer.taken):
            raise Unsuitable("an array is read where it is written in place")
        self.writer.accesses.append(read)
        return self.let(Load(array.buffer, row_major(array.shape, tuple(index)), array.dtype))


class ProvenIndexBuilder(IndexBuilder):
    """An :class:`IndexBuilder` that leaves out what :class:`Intervals` prove needless."""

    elements: SequentialElements

    def cast(self, index: Dim | int, dtype: DType) -> Expr:
        """An index as an element, whose value is known."""
        found = super().cast(index, dtype)
        self.elements.writer.intervals.note(found, dim(index))
        return found

    def wrapped(self, value: Expr, size: Dim) -> Expr:
        """An integer element; it counts from the end where it may be negative."""
        intervals = self.elements.writer.intervals
        known = intervals.value(value)
        if known is not None and intervals.is_at_least_zero(known):
            return value
        found = super().wrapped(value, size)
        self.elements.writer.wrapped[found] = value, size
        return found

    def checked(self, value: Expr, size: Dim) -> Dim:
        """An integer element as an index below ``size``; checked where it may be outside."""
        intervals = self.elements.writer.intervals
        known = intervals.value(value)
        if known is not None and not self.elements.doubts(self.index) and intervals.is_inside(known, size):
            return known
        raw, wrapped_size = self.elements.writer.wrapped.get(value, (None, None))
        if raw is not None and wrapped_size == size and not self.elements.doubts(self.index):
            return self.check(raw, size, wraps=True)  # which most indices need not: they count from the start
        return super().checked(value, size)
