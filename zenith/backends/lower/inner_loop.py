"""Inner loops of NumPy's ufuncs as kernels: a task calls the loop for some examples, in a row or side by side.

Factors of matrices and Fourier transforms so need no Python: they may stand in loops, and tasks share stacks of them.
Elements that the loop does not take are converted to memory of the kernel's before the call, as NumPy does, and its
results after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from zenith.backends.emit import named
from zenith.backends.expressions import Apply, Expr, Load, Number, Position
from zenith.backends.kernel import (
    Bind,
    Branch,
    Buffer,
    CallInnerLoop,
    Kernel,
    Loop,
    Scratch,
    Statement,
    Store,
    TaskLoop,
)
from zenith.backends.lower.transform.rows import are_long
from zenith.backends.lower.transform.two_steps import are_short, two_step_transform
from zenith.backends.lower.words import refuse_words
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.lowering import InnerLoop
from zenith.ir.types import ArrayType, DType, float32, float64

BESIDE = 32  # examples of a task, where their elements alternate: some lines of the cache
OPERATIONS = 1 << 17  # of a task's examples, where they follow each other: a call of the loop is to be worth it
_ELEMENTS = {"f": (float32, 1), "d": (float64, 1), "F": (float32, 2), "D": (float64, 2)}  # real type, parts


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of the loop in the memory ``buffer``, of which an example has ``axes``; its elements' real type."""

    buffer: str
    shape: tuple[Dim, ...]
    axes: tuple[int, ...]
    dtype: DType
    parts: int  # 2 for complex elements

    @property
    def core(self) -> tuple[Dim, ...]:
        """The sizes of an example."""
        return tuple(self.shape[axis] for axis in self.axes)

    @property
    def lead(self) -> Dim:
        """The number of rows of examples that are side by side."""
        return product(self.shape[: self.axes[0]] if self.axes else self.shape)

    @property
    def beside(self) -> Dim:
        """How many examples alternate in memory."""
        return product(self.shape[self.axes[-1] + 1 :] if self.axes else ())

    @property
    def size(self) -> Dim:
        """The number of real elements."""
        return product(self.shape) * self.parts

    def at(self, row: Dim, element: Dim, column: Dim, part: int = 0) -> Dim:
        """The position of an element of an example."""
        return ((row * product(self.core) + element) * self.beside + column) * self.parts + part

    @property
    def step(self) -> Dim:
        """Bytes of an element."""
        return dim(self.dtype.numpy.itemsize * self.parts)

    @property
    def strides(self) -> list[Dim]:
        """Bytes along each axis of an example."""
        return [product(self.shape[axis + 1 :]) * self.step for axis in self.axes]


@dataclass(frozen=True, slots=True)
class _Examples:
    """The examples of a task: ``count`` from a row and a column on, in rows that follow each other or in one row."""

    row: Dim
    column: Dim
    count: Dim
    in_rows: bool

    def number(self, number: Dim) -> tuple[Dim, Dim]:
        """The row and the column of one of them."""
        return (self.row + number, self.column) if self.in_rows else (self.row, self.column + number)

    def step(self, argument: _Argument) -> Dim:
        """Bytes from one to the next."""
        return product(argument.core) * argument.step if self.in_rows else argument.step


def lower_inner_loop(
    label: str, loop: InnerLoop, operands: Sequence[ArrayType], results: Sequence[ArrayType], in_place: bool
) -> list[Kernel]:
    """Kernels for a loop's operands and results; ``in_place`` where the first result is the only operand."""
    kernel = _lowered(label, loop, operands, results, in_place)
    if not loop.two_steps or are_short(loop):
        return [kernel]
    short = 1 - are_long(loop)
    few = replace(kernel, tasks=kernel.tasks * short, operations=(kernel.operations or dim(0)) * short)
    return [few, *two_step_transform(label, loop, "out0" if in_place else "p0", operands[0], results[0])]


def _lowered(
    label: str, loop: InnerLoop, operands: Sequence[ArrayType], results: Sequence[ArrayType], in_place: bool
) -> Kernel:
    """A kernel that calls the loop on operands ``p0``, ... for results ``out0``, ...; ``in_place`` on the latter."""
    names = ["out0"] if in_place else [f"p{i}" for i in range(len(operands))]
    given = list(zip([*names, *(f"out{i}" for i in range(len(results)))], [*operands, *results], strict=True))
    symbols = tuple(sorted({s for _, type in given for size in type.shape for s in size.symbols()}))
    refuse_words(symbols)
    fresh = (name for name in (f"t{i}" for i in count()) if name not in symbols)
    stored = _stored(given, loop)
    read = stored[: len(operands)]
    wanted = [_wanted(a, kind, fresh) for a, kind in zip(stored[loop.overwrites :], _kinds(loop), strict=True)]
    task, tasks, block, start, where = _cut(wanted[0], loop.cost, fresh)
    before, calls = _calls(loop, wanted, where, fresh)
    body = [*start, *(s for pair in zip(read, wanted, strict=False) for s in _converted(*pair, where, fresh)), calls]
    for target, source in zip(stored[len(operands) :], wanted[-len(results) :], strict=True):
        body += _converted(source, target, where, fresh)
    statements = (*before, TaskLoop(task, tasks, None, (), tuple(body), False))
    own = {a.buffer: Buffer(a.buffer, a.dtype, a.size, "out" if a.buffer.startswith("out") else "in") for a in stored}
    made = [Buffer(w.buffer, w.dtype, w.size, "temporary") for w in wanted if w.buffer not in own]
    operations = loop.cost * wanted[0].lead * wanted[0].beside
    kernel = Kernel("kernel", label, (*own.values(), *made), symbols, tasks, loop.cost * block, statements, operations)
    return named(kernel)


def _kinds(loop: InnerLoop) -> list[str]:
    """The characters of the loop's types, without that of a factor."""
    kinds = list(loop.types.replace("->", ""))
    return kinds if loop.factor is None else [kinds[0], *kinds[2:]]


def _letters(loop: InnerLoop) -> list[list[str]]:
    """The names of the axes that an example of each argument has, without those of a factor."""
    found = [re.findall(r"\w+", text) for text in re.findall(r"\(([^)]*)\)", loop.signature)]
    return found if loop.factor is None else [found[0], *found[2:]]


def _stored(given: Iterable[tuple[str, ArrayType]], loop: InnerLoop) -> list[_Argument]:
    """The operands and results as they are in memory."""
    letters, found = _letters(loop), []
    for (name, type), own in zip(given, letters[:1] * loop.overwrites + letters, strict=True):
        last = tuple(range(type.rank - len(own), type.rank))
        axes = last if loop.axis is None else (loop.axis,)
        found.append(_Argument(name, type.shape, axes, type.dtype.real, 2 if type.dtype.is_complex else 1))
    return found


def _wanted(argument: _Argument, kind: str, fresh: Iterator[str]) -> _Argument:
    """The argument as the loop takes it: itself, or converted."""
    dtype, parts = _ELEMENTS[kind]
    if (dtype, parts) == (argument.dtype, argument.parts):
        return argument
    return _Argument(next(fresh), argument.shape, argument.axes, dtype, parts)


def _cut(first: _Argument, cost: Dim, fresh: Iterator[str]) -> tuple[str, Dim, Dim, list[Statement], _Examples]:
    """The name and number of tasks, the examples of one, the statements that begin it, and which examples they are."""
    task, row, column, examples = (next(fresh) for _ in range(4))
    if first.beside == 1:
        block = maximum(dim(OPERATIONS) // maximum(cost, 1), 1)
        start: list[Statement] = [
            Bind(row, symbol(task) * block),
            Bind(examples, minimum(first.lead - symbol(row), block)),
        ]
        where = _Examples(symbol(row), dim(0), symbol(examples), in_rows=True)
        return task, -(-first.lead // block), block, start, where
    blocks = maximum(-(-first.beside // BESIDE), 1)
    start = [Bind(row, symbol(task) // blocks), Bind(column, symbol(task) % blocks * BESIDE),
             Bind(examples, minimum(first.beside - symbol(column), BESIDE))]  # fmt: skip
    where = _Examples(symbol(row), symbol(column), symbol(examples), in_rows=False)
    return task, first.lead * blocks, dim(BESIDE), start, where


def _converted(source: _Argument, target: _Argument, where: _Examples, fresh: Iterator[str]) -> list[Statement]:
    """The conversion of an argument's elements, if there is any to do."""
    if source is target:
        return []
    example, element = next(fresh), next(fresh)
    row, column = where.number(symbol(example))
    stores: list[Statement] = []
    for part in range(target.parts):
        value: Expr = Number(0.0, target.dtype)
        if part < source.parts:
            load = Load(source.buffer, source.at(row, symbol(element), column, part), source.dtype)
            value = Apply("x", (load,), target.dtype)
        stores.append(Store(target.buffer, target.at(row, symbol(element), column, part), value))
    inner = Loop(element, dim(0), product(source.core), False, tuple(stores))
    return [Loop(example, dim(0), where.count, False, (inner,))]


def _calls(
    loop: InnerLoop, arguments: Sequence[_Argument], where: _Examples, fresh: Iterator[str]
) -> tuple[list[Statement], Statement]:
    """What comes before all tasks, and the call for the examples of one."""
    sizes = {letter: size for letters, a in zip(_letters(loop), arguments, strict=True)
             for letter, size in zip(letters, a.core, strict=True)}  # fmt: skip
    elements = [(a.buffer, a.at(where.row, dim(0), where.column)) for a in arguments]
    steps, strides = [where.step(a) for a in arguments], [s for a in arguments for s in a.strides]
    before: list[Statement] = []
    if loop.factor is not None:
        name, dtype = next(fresh), arguments[0].dtype
        text, number = loop.factor
        value = Apply(text, (Apply("x", (Position(number),), dtype),), dtype)
        before = [Scratch(name, dtype, 1), Store(name, dim(0), value)]
        elements.insert(1, (name, dim(0)))
        steps.insert(1, dim(0))
    calls = [
        CallInnerLoop(f"{ufunc}:{loop.types}", tuple(elements), (where.count, *sizes.values()), (*steps, *strides))
        for ufunc in loop.ufuncs
    ]
    call: Statement = calls[0] if len(calls) == 1 else Branch(loop.choice, 0, tuple((c,) for c in calls))
    if loop.factor is None or loop.factor[1].static:
        return before, call
    return before, Branch(minimum(loop.factor[1], 1), 1, ((call,),))  # no points have no transform
