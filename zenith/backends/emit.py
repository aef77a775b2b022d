"""Printing a kernel as Python source.

:class:`Printer` writes scalar loops: ordinary Python that runs undecorated on one-dimensional NumPy arrays, and that
Numba compiles.

The names that a source uses besides the kernel's own are a *namespace*, which each target provides: an element type's
name converts (``f32(x)``), ``where``, ``exp`` ... compute, ``f32_buffer(args, slot, count)`` finds a buffer,
``fold_add`` combines in a fold, ``checked`` and ``wrapped`` check an index, ``interrupted`` asks whether to stop.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from zenith.backends.emit_calls import call
from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position, filled, literal
from zenith.backends.kernel import (
    Accumulator,
    Assign,
    AtomicAdd,
    Bind,
    Branch,
    Check,
    Fold,
    ForEachRegister,
    Kernel,
    LastOf,
    Let,
    Loop,
    Poll,
    Running,
    Scratch,
    Search,
    Simple,
    Statement,
    Store,
    Strip,
    TaskLoop,
    UserCode,
    While,
    runs,
    walk,
)
from zenith.backends.tiles import FoldRegisters, RegisterMatrix, SharedProduct
from zenith.ir.dims import Dim, dim, symbol
from zenith.ir.types import DType, float32, int64

FOLDS = {"x + y": "fold_add", "x * y": "fold_mul", "maximum(x, y)": "fold_max", "minimum(x, y)": "fold_min"}


class Printer:
    """Prints kernels as scalar Python loops."""

    def __init__(self, with_lines: bool = True) -> None:
        self.with_lines = with_lines

    def kernel(self, kernel: Kernel) -> str:
        """The whole source of a kernel: one function of ``(begin, end, args)``."""
        lines = [f"def {kernel.name}(begin, end, args):", f'    """{kernel.doc}."""']
        lines += [*indented(self.prologue(kernel)), *self.block(kernel.body)]
        return "\n".join(lines) + "\n"

    def prologue(self, kernel: Kernel) -> list[str]:
        """Names for the argument block's words."""
        count = len(kernel.buffers)
        lines = [
            f"{b.name} = {b.dtype}_buffer(args, {slot}, {count})  # {b.role}, {b.size} elements"
            for slot, b in enumerate(kernel.buffers, 1)
        ]
        return lines + [f"{name} = args[{count + slot}]" for slot, name in enumerate(kernel.sizes, 1)]

    # --- expressions ---

    def size(self, at: Dim) -> str:
        """An index expression."""
        return str(at)

    def expression(self, expr: Expr) -> str:
        """A typed expression."""
        match expr:
            case Number(value, dtype):
                return literal(value, dtype)
            case Name(name):
                return name
            case Load(buffer, at):
                return f"{buffer}[{self.size(at)}]"
            case Position(at):
                return self.size(at)
            case Apply(text, args, dtype):
                return f"{dtype}({filled(text, [self.expression(a) for a in args], dtype)})"

    # --- statements ---

    def statement(self, statement: Statement) -> list[str]:
        """The lines of a statement."""
        match statement:
            case TaskLoop():
                return self.tasks(statement)
            case Loop():
                return self.loop(statement)
            case While():
                return self.while_(statement)
            case Fold():
                return self.fold(statement)
            case Search():
                return self.search(statement)
            case Branch():
                return self.branch(statement)
            case LastOf():
                return self.last(statement)
            case ForEachRegister():
                return self.for_each_register(statement)
            case FoldRegisters():
                return self.fold_registers(statement)
        return self.without_body(statement)

    def without_body(self, statement: Running | UserCode | Poll | Simple) -> list[str]:
        """The lines of a statement with no others inside."""
        match statement:
            case Running():
                return self.running(statement)
            case UserCode(text):
                return text.splitlines()
            case Poll():
                return self.poll(statement)
        return [self.line(statement)]

    def line(self, statement: Simple) -> str:
        """A statement that is one line."""
        match statement:
            case Let(name, value, line):
                return self._with_line(f"{name} = {self.expression(value)}", line)
            case Assign(name, value):
                return f"{name} = {self.expression(value)}"
            case Bind(name, at):
                return f"{name} = {self.size(at)}"
            case Store(buffer, at, value):
                return f"{buffer}[{self.size(at)}] = {self.expression(value)}"
            case AtomicAdd(buffer, at, value):
                return f"atomic_add({buffer}, {self.size(at)}, {self.expression(value)})"
            case Check(name, value, size, line):
                function = "wrapped" if statement.wraps else "checked"
                text = f"{name} = {function}({self.expression(value)}, {self.size(size)}, {statement.code}, args)"
                return self._with_line(text, line)
            case Scratch(name, dtype, length):
                return f"{name} = {dtype}_scratch({length})"
            case Strip(name, dtype, extent):
                return f"{name} = {dtype}_scratch({self.size(extent)})"
            case RegisterMatrix(name, rows, columns, dtype):
                return f"{name} = {dtype}_scratch({rows * max(columns, 1)})"
            case _:
                return call(statement, self.size)

    def tasks(self, loop: TaskLoop) -> list[str]:
        """The tasks ``[begin, end)``: for each row that intersects the interval, the tasks of the row inside it."""
        if loop.row is None:
            return self.iterate(loop.lane, "begin", "end", loop.lanes, loop.body)
        extent = self.size(loop.extent)
        extent = extent if re.fullmatch(r"\w+", extent) else f"({extent})"
        start, stop = f"max(begin - {loop.row}*{extent}, 0)", f"min(end - {loop.row}*{extent}, {extent})"
        lines = self.statements(loop.before) + self.iterate(loop.lane, start, stop, loop.lanes, loop.body)
        return [f"for {loop.row} in range(begin//{extent}, -(-end//{extent})):", *indented(lines)]

    def loop(self, loop: Loop) -> list[str]:
        """A loop, lanes or not."""
        lines = self.starts(runs(loop.body))
        return lines + self.iterate(loop.index, self.size(loop.start), self.size(loop.stop), loop.lanes, loop.body)

    def running(self, run: Running) -> list[str]:
        """One iteration's step of a prefix."""
        words = [run.name, *map(self.expression, run.values)]
        return [f"{run.name} = {run.dtype}({filled(run.combine, words, run.dtype)})"]

    def iterate(self, index: str, start: str, stop: str, lanes: bool, body: Sequence[Statement]) -> list[str]:
        """Statements for each index of an interval, which is given as text."""
        return [f"for {index} in range({start}, {stop}):", *(self.block(body) or ["    pass"])]

    def search(self, search: Search) -> list[str]:
        """Bisection: probe the middle of the remaining interval, and keep the half that has the partition point."""
        left = f"{search.at}_left"
        lines = [f"{search.name} = {self.typed_index('0')}", f"{left} = {self.typed_index(self.size(search.stop))}"]
        lines.append(f"while {left} > 0:")
        return lines + indented(self.halve(search))

    def halve(self, search: Search) -> list[str]:
        """One step of a search."""
        at, left = search.at, f"{search.at}_left"
        condition = self.expression(search.condition)
        return [
            f"{at} = {self.typed_index(f'{search.name} + ({left} + 1) // 2 - 1')}",
            *(line for s in search.body for line in self.statement(s)),
            f"{search.name} = where({condition}, {self.typed_index(f'{at} + 1')}, {search.name})",
            f"{left} = {self.typed_index(f'{left} // 2')}",
        ]

    def typed_index(self, text: str) -> str:
        """A number as an index to compute with."""
        return f"i64({text})"

    def fold(self, fold: Fold) -> list[str]:
        """A loop that joins its iterations."""
        lines = [*self.starts(runs(fold.body)), *self.starts(fold.accumulators)]
        lines.append(f"for {fold.index} in range({self.size(fold.start)}, {self.size(fold.stop)}):")
        return lines + self.block(fold.body) + indented(self.joined(fold.accumulators))

    def starts(self, found: Iterable[Accumulator | Running], suffix: str = "") -> list[str]:
        """Accumulators and prefixes with what they are before the first iteration."""
        return [f"{a.name}{suffix} = {self.expression(a.start)}" for a in found]

    def joined(self, accumulators: Iterable[Accumulator]) -> list[str]:
        """Accumulators joined with their values of this iteration."""
        return [self.join(a, self.expression(a.value)) for a in accumulators]

    def join(self, a: Accumulator, value: str) -> str:
        """An accumulator joined with a value."""
        return f"{a.name} = {a.dtype}({self.combined(a.combine, a.name, value, a.dtype)})"

    def combined(self, combine: str, accumulator: str, value: str, dtype: DType) -> str:
        """A fold's operation on two values."""
        if combine in FOLDS:
            return f"{FOLDS[combine]}({accumulator}, {value})"
        return filled(combine, [accumulator, value], dtype)

    def for_each_register(self, each: ForEachRegister) -> list[str]:
        """Register matrices are arrays here: loops over rows and columns."""
        body = (Loop(each.column, dim(0), each.width, True, each.body),) if each.columns else ()
        return self.loop(Loop(each.row, dim(0), each.height, False, (*each.before, *body)))

    def fold_registers(self, fold: FoldRegisters) -> list[str]:
        """A loop over rows, each of which is folded."""
        row, column = symbol("register_row"), symbol("register_column")
        value = Load(fold.source, row * fold.columns + column, float32)
        joined = Accumulator("register_joined", float32, fold.initial, fold.combine, value)
        total = Apply(fold.combine, (Load(fold.target, row, float32), Name("register_joined", float32)), float32)
        body = (Fold("register_column", dim(0), dim(fold.columns), (), (joined,)), Store(fold.target, row, total))
        return self.loop(Loop("register_row", dim(0), dim(fold.rows), False, body))

    def branch(self, branch: Branch) -> list[str]:
        """A choice by number."""
        lines, at = list[str](), self.size(branch.at)
        last = branch.first + len(branch.cases) - 1 if branch.exhaustive else None
        for number, case in enumerate(self.cases(branch), branch.first):
            relation = "<=" if branch.exhaustive and not lines else "=="
            test = f"{'elif' if lines else 'if'} {at} {relation} {number}:"
            lines.append("else:" if lines and number == last else test)
            lines += case or ["    pass"]
        return lines

    def cases(self, branch: Branch) -> list[list[str]]:
        """The statements of each case, one level further in."""
        return [self.block(case) for case in branch.cases]

    def while_(self, loop: While) -> list[str]:
        """A loop that a condition ends."""
        leave = [f"    if not {self.expression(loop.condition)}:", "        break"]
        return ["while True:", *self.block(loop.before), *leave, *self.block(loop.body)]

    def poll(self, poll: Poll) -> list[str]:
        """A return in the middle of the kernel."""
        refill = self.expression(Number(poll.amount, int64))
        return [f"if {poll.fuel} <= 0:", "    if interrupted(args):", "        return", f"    {poll.fuel} = {refill}"]

    def last(self, last: LastOf) -> list[str]:
        """What the last of several tasks does, where tasks run one after another."""
        counter = f"{last.counters}[{self.size(last.at)}]"
        lines = [f"{counter} += 1", f"if {counter} == {self.size(last.count)}:", f"    {counter} = 0"]
        return [*lines, *self.block(last.body)]

    def block(self, statements: Sequence[Statement]) -> list[str]:
        """Statements one level further in."""
        return indented(self.statements(statements))

    def statements(self, statements: Sequence[Statement]) -> list[str]:
        """Statements in a row."""
        return [line for s in statements for line in self.statement(s)]

    def _with_line(self, text: str, line: object) -> str:
        return f"{text:<56}  # {line}" if line is not None and self.with_lines else text


def indented(lines: Iterable[str]) -> list[str]:
    """Lines one level further in."""
    return ["    " + line for line in lines]


def named(kernel: Kernel) -> Kernel:
    """The kernel under a name derived from its content: equal kernels have equal names."""
    plain = Printer(with_lines=False).kernel(replace(kernel, name="kernel", doc=""))
    schedules = [s.schedule for s in walk(kernel.body) if isinstance(s, SharedProduct) and s.schedule]
    digest = hashlib.sha256(f"{plain}{schedules or ''}".encode()).hexdigest()[:6]
    words = [w for w in kernel.doc.split("; ") if w not in ("broadcast", "literal", "cast")]
    stem = "_".join(words[:3]) if words else "copy"
    return replace(kernel, name=f"{stem}_{digest}")
