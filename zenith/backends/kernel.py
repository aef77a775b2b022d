"""The kernel IR: one kernel as loops over typed scalars, small enough to read on one screen.

A kernel computes ``tasks`` independent tasks, some of them in each call; :class:`TaskLoop` iterates over these. The
printer decides how tasks are distributed: an interval a thread on a CPU, one at a time on a GPU. A body without it is
a single task. Indices and sizes are :class:`~zenith.ir.dims.Dim` over loop variables and size symbols; data
are typed expressions in single assignment. *Lanes* loops have independent iterations: printers make vectors of them. A
:class:`Fold` joins its iterations by an associative operation; its tree of combinations is declared to depend on the
trip count, the instruction set and, on a GPU, how addresses are aligned only.

========================  ==========================================================================
``Let, Store``            bind a name, write an element
``AtomicAdd``             add to an element that other tasks may add to at the same time
``Check``                 an index in bounds, else it is clamped and the status word says what is wrong
``Search``                the first index at which a condition is false, by bisection
``TaskLoop``              iterate over the tasks of this call
``Loop, Fold``            iterate; iterate and join
``Running``               in these: a prefix, what all iterations so far join to, in order
``UserCode``              statements of a user's kernel, as text
``Scratch``               a small buffer of the task's own
``Strip``                 an element for each iteration of some loops, live from one loop to the next
``ForEachRegister``       iterate over the elements of a matrix in registers
``CallNative``            a call of a user's native function
``CallInnerLoop``         a call of the inner loop of a ufunc of NumPy's
``Branch``                one of several cases, by its number
``Assign, While``         a variable gets another value; iterate as long as a condition holds
``Poll``                  leave the kernel where the call was interrupted
``LastOf``                what the last of several tasks does, with what all have written
========================  ==========================================================================

Statements on whole tiles are in :mod:`zenith.backends.tiles`, scalar expressions in :mod:`zenith.backends.expressions`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from zenith.backends.expressions import Expr, Number
from zenith.backends.tiles import FoldRegisters, RegisterMatrix, TileCall
from zenith.errors import SourceLine
from zenith.ir.dims import Dim
from zenith.ir.types import ArrayType, DType


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that a kernel reads or writes; ``size`` is its number of elements.

    ``role`` is ``in``, ``out``, ``temporary``, which is written for later statements or kernels of the same group, or
    ``counter``: zeros, which a kernel leaves as zeros.
    """

    name: str
    dtype: DType
    size: Dim
    role: str

    @property
    def type(self) -> ArrayType:
        """All elements as one row."""
        return ArrayType(self.dtype, (self.size,))


@dataclass(frozen=True, slots=True)
class Let:
    """Bind ``name`` to an element; ``line`` is the user's."""

    name: str
    value: Expr
    line: SourceLine | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class Store:
    """Write an element; ``version`` names the value, for the loads that need it.

    See :class:`~zenith.backends.expressions.Load`.
    """

    buffer: str
    at: Dim
    value: Expr
    version: int | None = None


@dataclass(frozen=True, slots=True)
class AtomicAdd:
    """Add to an element that other tasks may add to at the same time: in any order, so sums of floats may differ."""

    buffer: str
    at: Dim
    value: Expr


@dataclass(frozen=True, slots=True)
class Check:
    """Bind ``name`` to an int64 element clamped into ``[0, size)``; set the status word when it had to be clamped.

    ``why`` is what is wrong then: an index outside its axis where it is empty. The word is set to ``code``. One that
    ``wraps`` counts from the end where it is negative.
    """

    name: str
    value: Expr
    size: Dim
    line: SourceLine | None = field(compare=False, default=None)
    why: str = ""
    wraps: bool = False

    @property
    def code(self) -> int:
        """A number for ``why``, the same in every process; 1 for an index."""
        return 2 + zlib.crc32(self.why.encode()) if self.why else 1


@dataclass(frozen=True, slots=True)
class Bind:
    """Name an index expression."""

    name: str
    at: Dim


@dataclass(frozen=True, slots=True)
class Loop:
    """``for index in range(start, stop)``; with ``lanes`` the iterations are independent.

    With ``warps`` they are independent, too, but contain loops of lanes: warps share those of a team.
    """

    index: str
    start: Dim
    stop: Dim
    lanes: bool
    body: tuple[Statement, ...]
    warps: bool = False


@dataclass(frozen=True, slots=True)
class TaskLoop:
    """The tasks of this call, ``task = row * extent + lane``.

    ``before`` depends on the row only, ``body`` on the task. With ``row`` None all tasks are one row, and the index
    ``lane`` is the task. With ``lanes`` the tasks of a row are vector lanes; without, ``body`` has loops of its own. A
    kernel may have several loops over its tasks.
    """

    lane: str
    extent: Dim
    row: str | None
    before: tuple[Statement, ...]
    body: tuple[Statement, ...]
    lanes: bool


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One result of a fold: ``name = combine(name, value)`` from ``initial``."""

    name: str
    dtype: DType
    initial: float | int | bool
    combine: str
    value: Expr

    @property
    def start(self) -> Expr:
        """What it is before the first iteration."""
        return Number(self.initial, self.dtype)


@dataclass(frozen=True, slots=True)
class Fold:
    """Iterate and join each accumulator's values."""

    index: str
    start: Dim
    stop: Dim
    body: tuple[Statement, ...]
    accumulators: tuple[Accumulator, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """In a loop or fold: ``name`` is the prefix, what the values of all iterations up to this one join to, in order.

    ``combine`` joins ``x``, the prefix so far, from ``initial`` on, and ``y``, this iteration's value. A ``factor`` is
    its ``z``; two neighbours then combine to one value whose factor is the product of theirs. It is associative, and
    the tree of combinations is a fold's.
    """

    name: str
    dtype: DType
    initial: Expr
    combine: str
    value: Expr
    factor: Expr | None = None

    @property
    def start(self) -> Expr:
        """What it is before the first iteration."""
        return self.initial

    @property
    def values(self) -> tuple[Expr, ...]:
        """The value of an iteration, and its factor."""
        return (self.value,) if self.factor is None else (self.value, self.factor)


@dataclass(frozen=True, slots=True)
class Search:
    """Bind ``name`` to the number of indices ``at`` below ``stop`` that fulfil ``condition``, a partition point.

    No index does after one that does not. ``body`` binds what the condition needs at an index. The number of indices
    that are probed depends on ``stop`` alone.
    """

    name: str
    at: str
    stop: Dim
    body: tuple[Statement, ...]
    condition: Expr

    @property
    def values(self) -> tuple[Expr, ...]:
        """The condition at each index."""
        return (self.condition,)


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer of ``length`` elements that lives while the kernel runs."""

    name: str
    dtype: DType
    length: int


@dataclass(frozen=True, slots=True)
class Strip:
    """A buffer of ``extent`` elements; each iteration of a loop touches only its own element, that of its index.

    Loops distribute iterations over threads alike, so a thread's elements of a strip are private to it.
    """

    name: str
    dtype: DType
    extent: Dim


@dataclass(frozen=True, slots=True)
class ForEachRegister:
    """Run ``before`` for every ``row < height`` and then ``body`` for every ``column < width``, of register matrices.

    Statements load and store their elements at ``row * columns + column`` or, one a row, at ``row``. Iterations are
    independent, as those of lanes. Without ``columns`` there is only ``before``.
    """

    rows: int
    columns: int
    row: str
    column: str
    height: Dim
    width: Dim
    before: tuple[Statement, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class UserCode:
    """Statements of a user's kernel: Python text over the names that are bound here, on these buffers."""

    text: str
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallNative:
    """Call the native function whose address is the first element of the buffer ``function``.

    It takes the addresses of elements, each a buffer and a position, then ``sizes`` as 64-bit integers.
    """

    function: str
    elements: tuple[tuple[str, Dim], ...]
    sizes: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class CallInnerLoop:
    """Call an inner loop of NumPy's (:mod:`zenith.backends.cpu.ufuncs`), named by its ufunc and types, for examples.

    ``elements`` are the first ones of the arguments, each a buffer and a position; ``dimensions`` the number of
    examples and the sizes of their axes; ``strides``, in bytes, those from example to example of each argument, then
    those along the axes of each.
    """

    loop: str
    elements: tuple[tuple[str, Dim], ...]
    dimensions: tuple[Dim, ...]
    strides: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Run the case whose number equals ``at`` (cases are numbered from ``first``).

    Where there is no such case, nothing runs; or the first or the last one, if they are ``exhaustive``.
    """

    at: Dim
    first: int
    cases: tuple[tuple[Statement, ...], ...]
    exhaustive: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """Give a variable a value, which it has until it is assigned another one: what a sequential loop carries."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class While:
    """Run ``before`` and, as long as ``condition`` holds after it, ``body`` and ``before`` again.

    There are ``most`` turns at most, where that is known when it begins.
    """

    before: tuple[Statement, ...]
    condition: Expr
    body: tuple[Statement, ...]
    most: Dim | None = None


@dataclass(frozen=True, slots=True)
class Poll:
    """Where the variable ``fuel`` is used up: leave the kernel if its call was interrupted, else refill it.

    A kernel that may run for long counts down what it does, since looking at the clock takes as long as some turns.
    """

    fuel: str
    amount: int


@dataclass(frozen=True, slots=True)
class LastOf:
    """Run ``body`` in the last of ``count`` tasks that arrive with the same ``at``; it sees what the others wrote.

    ``counters`` is a buffer of arrival counters; the last task resets its own to zero.
    """

    counters: str
    at: Dim
    count: Dim
    body: tuple[Statement, ...]


Call = CallNative | CallInnerLoop | TileCall
Simple = Let | Assign | Store | AtomicAdd | Check | Bind | Scratch | Strip | RegisterMatrix | Call
Statement = (
    Simple
    | Running
    | Search
    | UserCode
    | TaskLoop
    | Loop
    | While
    | Poll
    | Fold
    | ForEachRegister
    | FoldRegisters
    | Branch
    | LastOf
)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its interface, how many tasks it has, and its body.

    ``cost`` is about the number of simple operations of one task; the planner cuts launches into chunks with it.
    ``operations`` is what all tasks together compute, None for everything in the group's body. A chunk has at least
    ``together`` neighbouring tasks, which are computed in lanes or share memory. ``wide`` says that vector loads and
    stores make it faster. The argument block holds the address of a status word, the buffers'
    addresses and the sizes, in this order.
    """

    name: str
    doc: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[str, ...]
    tasks: Dim
    cost: Dim
    body: tuple[Statement, ...]
    operations: Dim | None = None
    together: int = 1
    wide: bool = True

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks among its statements."""
        return tuple(s for s in walk(self.body) if isinstance(s, Check))


def runs(statements: tuple[Statement, ...]) -> tuple[Running, ...]:
    """The prefixes that a loop with these statements computes."""
    return tuple(s for s in statements if isinstance(s, Running))


def inner(statement: Statement) -> tuple[Statement, ...]:
    """The statements inside a statement."""
    if isinstance(statement, TaskLoop | ForEachRegister | While):
        return statement.before + statement.body
    if isinstance(statement, (Loop, Fold, Search, LastOf)):
        return statement.body
    if isinstance(statement, Branch):
        return tuple(s for case in statement.cases for s in case)
    return ()


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, in preorder, with those inside of others."""
    for statement in statements:
        yield statement
        yield from walk(inner(statement))
