"""Printing a kernel for a GPU as the code of one thread, which shares no iterations with others.

In the *wide* form loops whose accesses are neighbours take as many elements at a time as one access reads: all are
read, each is computed, all are written (vectorized accesses).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from zenith.backends.cuda.forms import KernelForm, WideLoop
from zenith.backends.cuda.index import Indices, signed
from zenith.backends.emit import Printer, indented
from zenith.backends.expressions import Expr, Load, Position
from zenith.backends.kernel import (
    Accumulator,
    Bind,
    CallInnerLoop,
    CallNative,
    Check,
    Fold,
    Loop,
    Simple,
    Statement,
    Store,
    TaskLoop,
    UserCode,
    runs,
)
from zenith.backends.tiles import PackPanel, ProductTile
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim, symbol
from zenith.ir.types import DType, bool_

TASK = "task"
_OF_INTERVALS = re.compile(r"\b(begin|end)\b")


class ThreadPrinter(Printer):
    """Prints what one thread computes as Numba-CUDA Python, in one of the kernel's forms."""

    def __init__(self, form: KernelForm | None = None, with_lines: bool = True) -> None:
        super().__init__(with_lines)
        self.form = form or KernelForm()
        self.indices = Indices(self.form.index)
        self.index = self.form.index
        self.wide: Mapping[int, WideLoop] = {}  # the loops that take several elements at a time
        self.strips: dict[tuple[str, Dim], str] = {}  # how elements in registers are written, by buffer and index

    # --- expressions ---

    def size(self, at: Dim) -> str:
        return self.indices.text(at)

    def typed_index(self, text: str) -> str:
        return f"{self.index}({text})"

    def expression(self, expr: Expr) -> str:
        match expr:
            case Load(buffer, at, dtype):
                return from_memory(self.element(buffer, at), dtype)
            case Position(at):
                return signed(at)
        return super().expression(expr)

    def element(self, buffer: str, at: Dim) -> str:
        """An element of a buffer in memory, or of a strip in this thread's registers."""
        return self.strips.get((buffer, at)) or f"{buffer}[{self.size(at)}]"

    # --- statements ---

    def statement(self, statement: Statement) -> list[str]:
        match statement:
            case UserCode(text) if _OF_INTERVALS.search(text):
                raise UnsupportedError("a written kernel goes through an interval of tasks, which no GPU thread has",
                                       fix="compile this function for the cpu backend")  # fmt: skip
            case CallNative() | CallInnerLoop():
                raise UnsupportedError("a native function from outside runs on the CPU only",
                                       fix="compile this function for the cpu backend")  # fmt: skip
            case ProductTile() | PackPanel():
                raise UnsupportedError(f"{type(statement).__name__} has no CUDA form: it was written for the CPU",
                                       fix="compile this function for the cpu backend")  # fmt: skip
        return super().statement(statement)

    def line(self, statement: Simple) -> str:
        match statement:
            case Bind(name, at):
                return f"{name} = {self.indices.typed(at)}"
            case Store(buffer, at, value):
                return f"{self.element(buffer, at)} = {to_memory(self.expression(value), value.dtype)}"
            case Check(name, value, size, line):
                assert not statement.wraps, "only sequential kernels of the CPU have such checks"
                text = f"checked({self.expression(value)}, {signed(size)}, {statement.code}, status)"
                return self._with_line(f"{name} = {self.index}({text})", line)
        return super().line(statement)

    # --- loops ---

    def tasks(self, loop: TaskLoop) -> list[str]:
        """The indices of this thread's task, and its statements."""
        u, wide = self.index, self.wide.get(id(loop))
        here = TASK if wide is None else f"{u}({self.form.width} * {TASK})"
        lane = loop.lane if wide is None else first_index(loop.lane)
        lines = [f"{lane} = {here}"]
        if loop.row is not None:
            extent = self.indices.typed(loop.extent)
            lines = [f"{loop.row} = {u}({here} // {extent})", f"{lane} = {u}({here} - {loop.row} * {extent})"]
        lines += self.statements(loop.before)
        return lines + (self.statements(loop.body) if wide is None else self.neighbours(loop.lane, wide, loop.body, ()))

    def loop(self, loop: Loop) -> list[str]:
        lines = self.starts(runs(loop.body))
        return lines + self.walk(loop.index, self.indices.typed(loop.start), loop.stop, self.block(loop.body), "1")

    def fold(self, fold: Fold) -> list[str]:
        lines = [*self.starts(fold.accumulators), *self.starts(runs(fold.body))]
        body = self.block(fold.body) + indented(self.joined(fold.accumulators))
        return lines + self.walk(fold.index, self.indices.typed(fold.start), fold.stop, body, "1")

    def walk(self, index: str, first: str, stop: Dim, body: list[str], step: str) -> list[str]:
        """A ``while`` loop from ``first`` to ``stop``, exclusive, by ``step``; its body is one level further in."""
        end = f"    {index} = {self.index}({index} + {step})"
        return [f"{index} = {first}", f"while {index} < {self.indices.typed(stop)}:", *body, end]

    def neighbours(
        self, variable: str, wide: WideLoop, body: Sequence[Statement], accumulators: Sequence[Accumulator]
    ) -> list[str]:
        """The statements for ``width`` neighbours from the first on: read all, compute each, write all."""
        width, first = self.form.width, first_index(variable)
        starts = dict.fromkeys((a.buffer, a.start) for a in (*wide.reads, *wide.writes))
        counts: Counter[str] = Counter()
        names: dict[tuple[str, Dim], str] = {}
        for buffer, start in starts:
            counts[buffer] += 1
            names[buffer, start] = f"{buffer}_strip{counts[buffer] if counts[buffer] > 1 else ''}"
        read, written = ({(a.buffer, a.start) for a in accesses} for accesses in (wide.reads, wide.writes))
        lines, ends = list[str](), list[str]()
        for (buffer, start), name in names.items():
            at = self.size(start.substitute({variable: symbol(first)}))
            initial = f"load_{width}({buffer}, {at})" if (buffer, start) in read else f"strip_{width}({buffer})"
            lines.append(f"{name} = {initial}")
            if (buffer, start) in written:
                ends.append(f"store_{width}({buffer}, {at}, {name})")
        accesses = (*wide.reads, *wide.writes)
        self.strips = {(a.buffer, a.at): f"{names[a.buffer, a.start]}[element]" for a in accesses}
        inside = [f"{variable} = {self.index}({first} + {self.index}(element))"]
        inside += [*self.statements(body), *self.joined(accumulators)]
        self.strips = {}
        return [*lines, f"for element in range({width}):", *indented(inside), *ends]


def first_index(variable: str) -> str:
    """The variable that holds a loop's index at the first of several neighbours."""
    return f"{variable}_first"


# --- elements in memory, where a bool is a byte ---


def memory_type(dtype: DType) -> str:
    """The type of an element in memory."""
    return "u8" if dtype == bool_ else str(dtype)


def to_memory(text: str, dtype: DType) -> str:
    """An element as it is stored."""
    return f"u8({text})" if dtype == bool_ else text


def from_memory(text: str, dtype: DType) -> str:
    """An element of memory as it is computed with."""
    return f"({text} != 0)" if dtype == bool_ else text
