"""Printing a kernel for a GPU: one thread, or one warp, a task.

A thread takes one task at a time, so a :class:`~zenith.backends.kernel.TaskLoop` becomes definitions of its indices. A
kernel with folds gives each task (a row) to a warp: its lanes stride along the row, so that neighbours read
neighbouring elements, and a fold's 32 partial results are joined by shuffles. All threads walk the tasks in steps of
the whole grid.

Indices are unsigned integers of 32 bits, or of 64 for buffers of 2**31 elements and more. Numba computes sums,
differences and products in 64 bits; they are exact modulo the width, so one conversion around a whole polynomial is
enough, and LLVM narrows what is inside. Quotients, remainders and extremes take converted operands for that reason,
and are computed in int64 where an operand may be negative.

The source is a function of ``(tasks, status, *buffers, *sizes)``; the block's size must be a multiple of 32.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from zenith.backends.emit import Printer
from zenith.backends.kernel import (
    Bind,
    Branch,
    CallNative,
    Check,
    Expr,
    Fold,
    Kernel,
    Load,
    Loop,
    Number,
    PackPanel,
    Position,
    ProductTile,
    Scratch,
    Simple,
    SoftmaxTile,
    Statement,
    Store,
    TaskLoop,
    inner,
)
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim, Opaque, prove_at_least
from zenith.ir.types import bool_, int64

TASK = "task"
WARP = 32
THREAD = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
THREADS = "cuda.gridDim.x * cuda.blockDim.x"


class CudaPrinter(Printer):
    """Prints kernels as Numba-CUDA Python; ``index`` is ``u32`` or ``u64``, the type of indices and sizes."""

    def __init__(self, with_lines: bool = True, index: str = "u32") -> None:
        super().__init__(with_lines)
        self.index = index
        self.warps = False

    def kernel(self, kernel: Kernel) -> str:
        """The whole source of a kernel: one function of ``(tasks, status, *buffers, *sizes)``."""
        self.warps = has_fold(kernel.body)
        names = ["tasks", "status", *(b.name for b in kernel.buffers), *kernel.sizes]
        lines = [f"def {kernel.name}({', '.join(names)}):", f'    """{kernel.doc}."""']
        lines += ["    " + line for line in self.prologue(kernel)]
        lines.append(f"    while {TASK} < tasks:")
        lines += ["        " + line for line in self.task_body(kernel.body)]
        lines.append(f"        {TASK} = {self.index}({TASK} + stride)")
        return "\n".join(lines) + "\n"

    def prologue(self, kernel: Kernel) -> list[str]:
        """What the buffers are, and which tasks are this thread's or this warp's."""
        lines = [f"# {b.name}: {b.role}, {b.size} elements of {b.dtype}" for b in kernel.buffers]
        if not self.warps:
            return [*lines, f"{TASK} = {self.index}({THREAD})", f"stride = {self.index}({THREADS})"]
        return [
            *lines,
            f"lane = {self.index}(cuda.threadIdx.x & {WARP - 1})",
            f"{TASK} = {self.index}(({THREAD}) >> 5)",
            f"stride = {self.index}(({THREADS}) >> 5)",
        ]

    # --- expressions ---

    def size(self, at: Dim) -> str:
        """An index expression, of the index type."""
        if at.static is not None and at.static >= 0:
            return str(at.static)
        text = _polynomial(at, self._atom)
        return text if text.isidentifier() else f"{self.index}({text})"

    def _atom(self, atom: str | Opaque) -> str:
        if isinstance(atom, str):
            return atom
        if not (prove_at_least(atom.left, 0) and prove_at_least(atom.right, 0)):
            return f"{self.index}({_apply(atom, _signed(atom.left), _signed(atom.right))})"
        return _apply(atom, self._operand(atom.left), self._operand(atom.right))

    def _operand(self, at: Dim) -> str:
        """An index expression that is of the index type even where it is a number."""
        return self.size(at) if at.static is None else f"{self.index}({at.static})"

    def expression(self, expr: Expr) -> str:
        match expr:
            case Load(buffer, at, dtype):
                element = f"{buffer}[{self.size(at)}]"
                return f"({element} != 0)" if dtype == bool_ else element
            case Position(at):
                return _signed(at)
        return super().expression(expr)

    # --- statements ---

    def statement(self, statement: Statement) -> list[str]:
        if isinstance(statement, (ProductTile, PackPanel, SoftmaxTile, Scratch, Branch)):
            raise UnsupportedError(
                f"{type(statement).__name__} has no CUDA form: matrix products and attention run on the CPU only",
                fix="compile this function for the cpu backend",
            )
        if isinstance(statement, CallNative):
            raise UnsupportedError("a native function from outside runs on the CPU only",
                                   fix="compile this function for the cpu backend")  # fmt: skip
        return super().statement(statement)

    def line(self, statement: Simple) -> str:
        match statement:
            case Bind(name, at):
                return f"{name} = {self._operand(at)}"
            case Store(buffer, at, value):
                text = self.expression(value)
                text = f"u8({text})" if value.dtype == bool_ else text
                return f"{buffer}[{self.size(at)}] = {text}"
            case Check(name, value, size, line):
                text = f"checked({self.expression(value)}, {_signed(size)}, status)"
                return self._with_line(f"{name} = {self.index}({text})", line)
        return super().line(statement)

    def tasks(self, loop: TaskLoop) -> list[str]:
        """The indices of this thread's task, and what is done for it."""
        if loop.row is None:
            return [f"{loop.lane} = {TASK}", *self.task_body(loop.body)]
        extent = self._operand(loop.extent)
        row = f"{loop.row} = {self.index}({TASK} // {extent})"
        lane = f"{loop.lane} = {self.index}({TASK} - {loop.row} * {extent})"
        return [row, lane, *self.task_body(loop.before + loop.body)]

    def loop(self, loop: Loop) -> list[str]:
        """Lanes of a row are shared by a warp; other iterations are walked."""
        return self.walk(loop.index, loop.start, loop.stop, self.block(loop.body), self.warps and loop.lanes)

    def task_body(self, body: Sequence[Statement]) -> list[str]:
        """The statements of a task, at the same depth; what a warp stores once is stored by its first lane."""
        lines: list[str] = []
        for statement in body:
            printed = self.statement(statement)
            if self.warps and isinstance(statement, Store):
                printed = ["if lane == 0:", *("    " + line for line in printed)]
            lines += printed
        return lines

    def walk(self, index: str, start: Dim, stop: Dim, body: list[str], spread: bool) -> list[str]:
        """A loop in steps of one, or of a warp from this lane on."""
        first = self._operand(start)
        if spread:
            first = "lane" if start == 0 else f"{self.index}({first} + lane)"
        step = f"    {index} = {self.index}({index} + {WARP if spread else 1})"
        return [f"{index} = {first}", f"while {index} < {self._operand(stop)}:", *body, step]

    def fold(self, fold: Fold) -> list[str]:
        """Each lane joins its share of the iterations, then the warp joins the lanes' results."""
        lines = [f"{a.name} = {self.expression(Number(a.initial, a.dtype))}" for a in fold.accumulators]
        body = self.block(fold.body)
        for a in fold.accumulators:
            combined = self._combine(a.combine, a.name, self.expression(a.value))
            body.append(f"    {a.name} = {a.dtype}({combined})")
        lines += self.walk(fold.index, fold.start, fold.stop, body, spread=True)
        lines += [f"distance = {WARP // 2}", "while distance > 0:"]
        for a in fold.accumulators:
            combined = self._combine(a.combine, a.name, f"shuffle({a.name}, distance)")
            lines.append(f"    {a.name} = {a.dtype}({combined})")
        return [*lines, "    distance >>= 1"]


def has_fold(body: Sequence[Statement]) -> bool:
    """Whether a task joins iterations, so that it is work for a warp."""
    return any(isinstance(s, Fold) or has_fold(inner(s)) for s in body)


def _signed(at: Dim) -> str:
    """An index expression in int64, exact for negative values too."""

    def atom_text(atom: str | Opaque) -> str:
        if isinstance(atom, str):
            return f"{int64}({atom})"
        return _apply(atom, _signed(atom.left), _signed(atom.right))

    return _polynomial(at, atom_text) if at.static is None else f"{int64}({at.static})"


def _apply(atom: Opaque, left: str, right: str) -> str:
    """The text of an atom's operation on the texts of its operands."""
    if atom.kind in ("max", "min"):
        return f"{atom.kind}({left}, {right})"
    left, right = (side if re.fullmatch(r"\w+(\([^()]*\))?", side) else f"({side})" for side in (left, right))
    return f"({left} {atom.kind} {right})"


def _polynomial(at: Dim, atom_text: Callable[[str | Opaque], str]) -> str:
    """A sum of products of numbers and texts of its atoms."""
    text = ""
    for monomial, coefficient in at.terms:
        factors = [atom_text(atom) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        text += f" {'-' if coefficient < 0 else '+'} {' * '.join(factors)}"
    return text[3:] if text.startswith(" + ") else f"0{text}"
