"""Elements on demand: the statements that compute a body's value at an index, each hoisted as far as possible.

Lowering asks for elements (``element(value, index)``) inside a nest of open loops. An element is computed once for
an index and bound in the outermost loop in which everything that it uses is known, so loop invariants are hoisted.
Index maps are applied to the index; nothing is computed for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position
from zenith.backends.kernel import Check, Let, Running, Search, Statement
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim, maximum, minimum, product, prove_at_least, row_major, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Elements, Prefix, Scalar
from zenith.ir.types import DType, bool_, int64, uint64

Index = tuple[Dim, ...]


class SavedElements(NamedTuple):
    """Where elements of a value are saved for a while: a buffer, and how many leading axes of the value it lacks."""

    buffer: str
    outer: int


@dataclass(slots=True)
class Level:
    """An open loop: the names known inside it, its statements so far, and the expressions and elements bound in it."""

    names: set[str]
    statements: list[Statement] = field(default_factory=list)
    bound: dict[Any, Expr] = field(default_factory=dict)
    computed: dict[tuple[int, Index], Expr] = field(default_factory=dict)


class ElementBuilder:
    """Builds statements for the elements of ``body``; ``buffers`` are its inputs, ``taken`` the names in use."""

    def __init__(self, body: Graph, buffers: dict[tuple[int, int], str], taken: set[str]) -> None:
        self.body = body
        self.buffers = buffers
        self.levels = [Level(set())]
        self.level_of: dict[str, int] = {}
        self.known: dict[tuple[int, int], Expr] = {}
        self.saved: dict[int, SavedElements] = {}
        self.starts: dict[int, Expr] = {}  # of prefixes: the total before the first iteration of the loop
        self.uses: list[Dim] = []
        self.doubtful: dict[Dim, Dim] = {}  # clamped indices -> sizes that may be 0: then nothing may be read
        self.asked: list[Dim] = []  # differences of indices on whose signs elements depend
        self.facts: list[Dim] = []  # what is not negative in the loops that are open
        self.taken = set(taken)
        self.counter = 0
        self.args = {number: body.args(number) for number, _ in body.nodes()}

    # --- names and loops ---

    def fresh(self, stem: str) -> str:
        """A name that nothing in the kernel has yet."""
        name, suffix = stem, 0
        while name in self.taken:
            suffix += 1
            name = f"{stem}{suffix}"
        self.taken.add(name)
        return name

    def open(self, *names: str) -> None:
        """Enter a loop that binds ``names``."""
        self.levels.append(Level(set(names)))
        for name in names:
            self.level_of[name] = len(self.levels) - 1

    def close(self) -> tuple[Statement, ...]:
        """Leave the innermost loop and take its statements."""
        return tuple(self.levels.pop().statements)

    def append(self, statement: Statement) -> None:
        """Add a statement to the innermost loop."""
        self.levels[-1].statements.append(statement)

    def _depth(self, expr: Expr) -> int:
        if isinstance(expr, Name):
            return self.level_of.get(expr.name, 0)
        if isinstance(expr, Apply):
            return max((self._depth(a) for a in expr.args), default=0)
        if isinstance(expr, (Load, Position)):
            depth = self._index_depth(expr.at)
            changes = isinstance(expr, Load) and expr.buffer in {saved.buffer for saved in self.saved.values()}
            return max(depth, len(self.levels) - 1) if changes else depth
        return 0

    def _index_depth(self, at: Dim) -> int:
        return max((self.level_of.get(s, 0) for s in at.symbols()), default=0)

    def bound(self, key: Hashable, depth: int) -> Name | None:
        """What is bound already, in the loop of a depth, to an expression or a check."""
        found = self.levels[depth].bound.get(key)
        assert found is None or isinstance(found, Name)
        return found

    def let(self, expr: Expr, line: SourceLine | None = None, stem: str = "v") -> Name:
        """Bind an expression in the outermost loop that knows everything it uses."""
        depth = self._depth(expr)
        found = self.bound(expr, depth)
        if found is not None:
            return found
        level = self.levels[depth]
        self.counter += 1
        name = Name(self.fresh(f"{stem}{self.counter}"), expr.dtype)
        self.level_of[name.name] = depth
        level.statements.append(Let(name.name, expr, line))
        level.bound[expr] = name
        return name

    @contextmanager
    def assuming(self, facts: Sequence[Dim]) -> Iterator[None]:
        """Inside, no fact is negative."""
        before, self.facts = self.facts, [*self.facts, *facts]
        yield
        self.facts = before

    def is_natural(self, difference: Dim) -> bool | None:
        """Whether a difference of indices is not negative, as far as it follows from a single fact.

        Facts decide nothing that is the same in every iteration: it is hoisted out of the loop, which may have none.
        """
        if self._index_depth(difference) < len(self.levels) - 1:
            return None
        if any(prove_at_least(difference - fact, 0) for fact in self.facts):
            return True
        return False if any(prove_at_least(-difference - 1 - fact, 0) for fact in self.facts) else None

    # --- elements ---

    def element(self, value: Value, index: Index) -> Expr:
        """The expression of a value's element: a number, or a name bound by a statement."""
        key = (value.node, value.output)
        if key in self.known:
            return self.known[key]
        if any(n == 0 for n in value.shape):  # only in loops without iterations; a load might be hoisted out of them
            return Number(False, value.dtype)
        if value.node in self.saved:
            buffer, outer = self.saved[value.node]
            return self.let(Load(buffer, row_major(value.shape[outer:], index[outer:]), value.dtype, value.node))
        if key in self.buffers:
            at = row_major(value.shape, tuple(map(self._inside, index, value.shape)))
            self.uses.append(at)
            return self.let(Load(self.buffers[key], at, value.dtype))
        return self._computed(value, index)

    def _computed(self, value: Value, index: Index) -> Expr:
        """An element of a node, memoized: else the walk would double with each value that is read twice."""
        key = value.node, index
        for level in self.levels:
            if key in level.computed:
                return level.computed[key]
        result = self._compute(value, self.body.node(value.node), index)
        self.levels[self._depth(result)].computed[key] = result
        return result

    def _inside(self, at: Dim, size: Dim) -> Dim:
        """An index, clamped to its array if it may be out of bounds: it depends on an index into an empty one."""
        if at in self.doubtful or not self.doubts([at]):
            return at
        return maximum(minimum(at, size - 1), 0)

    def doubts(self, index: Iterable[Dim]) -> list[Dim]:
        """The sizes that must not be 0 for an element to exist at an index."""
        atoms = {atom for at in index for atom in at.atoms()}
        clamped = ((at, {a for monomial, _ in at.terms for a in monomial}) for at in self.doubtful)
        return [self.doubtful[at] for at, own in clamped if own & atoms]

    def _compute(self, value: Value, node: Node, index: Index) -> Expr:
        args = self.args[value.node]
        lowering = node.primitive.lowering
        if node.primitive.name == "literal":
            return Number(node.params["value"], value.dtype)
        if isinstance(lowering, Scalar):
            operands = tuple(self.element(a, index) for a in args)
            if lowering.checks:
                self._check_element(value, operands[-1], node.params[lowering.checks], node.line, index)
            text = lowering.text(operands[0].dtype.kind)
            if text == "divide(x, y)" and self._depth(operands[1]) < self._depth(operands[0]):
                text = "divide_same(x, y)"
            return self.let(Apply(text, operands, value.dtype), node.line)
        if isinstance(lowering, Elements):
            builder = self.indexing(node.line, index)
            read: list[Callable[..., Expr]] = [lambda *i, a=a: self.element(a, tuple(map(dim, i))) for a in args]
            result: Expr = lowering.element(builder, index, read, [a.type for a in args], node.params)
            return result
        if isinstance(lowering, Prefix):
            elements = [self.element(a, index) for a in args]
            return self._running(value, lowering, elements, node.params["axis"])
        raise AssertionError(f"{node.primitive.name} cannot be computed element by element")

    def indexing(self, line: SourceLine | None, index: Index) -> IndexBuilder:
        """What index maps compute indices with."""
        return IndexBuilder(self, line, index)

    def _check_element(self, value: Value, wrong: Expr, why: str, line: SourceLine | None, index: Index) -> None:
        """An error when the program runs and a bool is true for an element: index 1 of one element.

        A check that is the same for all elements is hoisted out of their loop, if the array has elements.
        """
        builder = IndexBuilder(self, line, index)
        for size in (*self.doubts(index), *(n for n in value.shape if not prove_at_least(n, 1))):
            wrong = builder.where(builder.at_least(size, 1), wrong, Number(False, bool_))
        builder.check(wrong, dim(1), why)

    def _running(self, value: Value, prefix: Prefix, operands: Sequence[Expr], axis: int) -> Expr:
        """A prefix of the innermost loop, which walks its axis from end to end."""
        start = self.starts.get(value.node, Number(prefix.identity(value.dtype), value.dtype))
        if value.shape[axis] == 1:
            return self.let(Apply(prefix.combine, (start, operands[-1], *operands[:-1]), value.dtype))
        name = Name(self.fresh("running"), value.dtype)
        self.level_of[name.name] = len(self.levels) - 1
        self.append(Running(name.name, value.dtype, start, prefix.combine, operands[-1], *operands[:-1]))
        return name


def decode(position: Dim, shape: Sequence[Dim]) -> Index:
    """The index of a position in row-major order: the inverse of :func:`row_major`."""
    if any(size == 0 for size in shape):
        return (dim(0),) * len(shape)
    index: list[Dim] = []
    rest = position
    for axis in range(len(shape) - 1, 0, -1):
        index.append(rest % shape[axis])
        rest = rest // shape[axis]
    if shape:
        index.append(rest)
    return tuple(reversed(index))


class IndexBuilder:
    """The builder that element rules of index maps get (``k`` in :class:`zenith.ir.lowering.Elements`)."""

    def __init__(self, elements: ElementBuilder, line: SourceLine | None, index: Index) -> None:
        self.elements, self.line, self.index = elements, line, index

    def _position(self, at: Dim | int) -> Position:
        self.elements.uses.append(_opaque(dim(at)))
        return Position(dim(at))

    def at_least(self, a: Dim | int, b: Dim | int) -> Expr:
        """Whether index ``a`` is not below ``b``."""
        known = self.elements.is_natural(dim(a) - b)
        if known is not None:
            return Number(known, bool_)
        self.elements.asked.append(dim(a) - b)
        return self.elements.let(Apply("x >= y", (self._position(a), self._position(b)), bool_))

    def equal(self, a: Dim | int, b: Dim | int) -> Expr:
        """Whether two indices are equal."""
        return self.elements.let(Apply("x == y", (self._position(a), self._position(b)), bool_))

    def compare(self, text: str, x: Expr, y: Expr) -> Expr:
        """A comparison of two elements."""
        return self.elements.let(Apply(text, (x, y), bool_))

    def all(self, conditions: Sequence[Expr]) -> Expr:
        """Whether all conditions hold."""
        result: Expr = Number(True, bool_)
        for condition in conditions:
            if condition == Number(False, bool_):
                return condition
            if condition != Number(True, bool_):
                result = self.elements.let(Apply("x & y", (result, condition), bool_))
        return result

    def choose(self, condition: Expr, x: Callable[[], Expr], y: Callable[[], Expr]) -> Expr:
        """The same as :meth:`where`, and where the condition is known only the element that is chosen is computed."""
        if isinstance(condition, Number):
            return x() if condition.value else y()
        otherwise = y()
        return self.where(condition, x(), otherwise)

    def where(self, condition: Expr, x: Expr, y: Expr) -> Expr:
        """``x`` where the condition holds, else ``y``."""
        return self.elements.let(Apply("where(x, y, z)", (condition, x, y), x.dtype), self.line)

    def clamp(self, index: Dim | int, size: Dim) -> Dim:
        """The index moved into ``[0, size)``, to 0 for a size of 0."""
        e, last = self.elements, size - 1 - index
        if e.is_natural(dim(index)) and e.is_natural(last):
            return dim(index)
        clamped = maximum(minimum(dim(index), size - 1), 0)
        if not prove_at_least(size, 1):
            self.elements.doubtful[clamped] = size
        return clamped

    def cast(self, index: Dim | int, dtype: DType) -> Expr:
        """An index as an element."""
        return self.elements.let(Apply("x", (self._position(index),), dtype))

    def position(self, at: Dim, dtype: DType) -> Expr:
        """A row-major position as an element: like an address, it is the same when axes become one loop."""
        self.elements.uses.append(at)
        return self.elements.let(Apply("x", (Position(at),), dtype))

    def between(self, value: Expr, last: Dim) -> Dim:
        """An integer element as an index, moved into ``[0, last]``."""
        if last == 0:
            return dim(0)
        if value.dtype == uint64:  # a number above int64's largest would be negative
            value = self.elements.let(Apply("minimum(x, y)", (value, Number(2**63 - 1, uint64)), uint64))
        element, high = (self.elements.let(Apply("x", (v,), int64)) for v in (value, Position(last)))
        inside = Apply("maximum(minimum(x, y), z)", (element, high, Number(0, int64)), int64)
        return symbol(self.elements.let(inside, self.line, "first").name)

    def search(self, size: Dim, condition: Callable[[Dim], Expr]) -> Dim:
        """How many indices below ``size`` fulfil a condition, which holds for none after the first that does not."""
        e = self.elements
        name, at = e.fresh("found"), e.fresh("middle")
        e.open(at)
        fulfilled = condition(symbol(at))
        e.append(Search(name, at, size, e.close(), fulfilled))
        e.level_of[name] = len(e.levels) - 1
        return symbol(name)

    def wrapped(self, value: Expr, size: Dim) -> Expr:
        """An integer element, with ``size`` added where it is negative."""
        element, count = (self.elements.let(Apply("x", (v,), int64)) for v in (value, Position(size)))
        return self.elements.let(Apply("where(x < z, x + y, x)", (element, count, Number(0, int64)), int64), self.line)

    def checked(self, value: Expr, size: Dim) -> Dim:
        """An integer element as an index below ``size``; out of range it is an error when the program runs.

        No index is below a size of 0: such a check stays in its loop, which has iterations only if an element is
        wanted. A discarded read of an empty array is index 0 of one element.
        """
        doubts = self.elements.doubts(self.index)
        for doubt in doubts:
            value = self.where(self.at_least(doubt, 1), value, Number(0, value.dtype))
            size = size + maximum(1 - doubt, 0)
        found = self.check(value, size)
        if doubts:  # what is read there is discarded, too
            self.elements.doubtful[found] = product(doubts)
        return found

    def check(self, value: Expr, size: Dim, why: str = "", wraps: bool = False) -> Dim:
        """A check, in the outermost loop that knows its value."""
        element = self.elements.let(Apply("x", (value,), int64))
        depth = self.elements._depth(element) if size != 0 else len(self.elements.levels) - 1
        key = ("check", element, size, why, wraps)
        bound = self.elements.bound(key, depth)
        if bound is None:
            name = self.elements.fresh("position")
            self.elements.level_of[name] = depth
            level = self.elements.levels[depth]
            level.statements.append(Check(name, element, size, self.line, why, wraps))
            bound = level.bound[key] = Name(name, int64)
        return symbol(bound.name)


def _opaque(at: Dim) -> Dim:
    """A use of an index that is no address: the axes in it must not be collapsed."""
    return at * at
