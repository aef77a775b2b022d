"""The rows of arrays that are transformed in two steps, and what all kernels for them share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zenith.backends.emit import named
from zenith.backends.expressions import Apply, Expr, Name, Number, Position
from zenith.backends.kernel import (
    Buffer,
    CallInnerLoop,
    Kernel,
    Statement,
    TaskLoop,
)
from zenith.backends.lower.words import refuse_words
from zenith.ir.dims import Dim, dim, minimum, symbol
from zenith.ir.lowering import InnerLoop, TwoSteps
from zenith.ir.types import DType, float64, int64

LONG, LONG_REAL = 1 << 14, 1 << 17  # points from which a row is transformed in two steps
PARTS = 64  # of a row's work, its tasks
DIVISOR, MATRIX, SCALE = "fft_divisor", "fft_matrix", "fft_scale"  # buffers
# Of a task: the row that it works on; the matrix; the first of its own short rows, and how many these are.
TASK, ROW, ROWS, COLUMNS, FIRST, COUNT = (
    symbol(f"fft_{name}") for name in ("task", "row", "rows", "columns", "first", "count")
)
INDEX, K = symbol("fft_i"), symbol("fft_k")  # indices of loops


def points_of(loop: InnerLoop) -> Dim:
    """The length of a row."""
    assert loop.factor is not None
    return loop.factor[1]


def steps_of(loop: InnerLoop) -> TwoSteps:
    """How long rows are transformed in two steps."""
    assert loop.two_steps is not None
    return loop.two_steps


def are_long(loop: InnerLoop) -> Dim:
    """1 where the rows of a loop are transformed in two steps, else 0."""
    points = points_of(loop)
    is_even = 1 - points % 2
    return minimum(points // LONG_REAL, 1) * is_even if steps_of(loop).real else minimum(points // LONG, 1)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of arrays: how many, of how many complex ``points`` each is transformed, and their real type.

    They are read from the buffer ``source``. Rows of the source and of the result begin at multiples of ``pitches``.
    """

    loop: InnerLoop
    source: str
    lead: Dim
    points: Dim
    pitches: tuple[Dim, Dim]
    dtype: DType
    tasks: Dim
    sizes: tuple[Dim, Dim]

    def call(self, elements: Sequence[tuple[str, Dim]], points: Dim, strides: Sequence[Dim]) -> Statement:
        """The inner loop for a task's short rows; strides from row to row of both arrays, and of points in them."""
        of = steps_of(self.loop)
        source, target = ((buffer, at * 2) for buffer, at in elements)
        outer, *others = (s * 2 * self.dtype.numpy.itemsize for s in strides)
        steps = (outer, dim(0), *others)  # all have one factor
        return CallInnerLoop(
            f"{of.ufunc}:{of.types}", (source, (SCALE, dim(0)), target), (COUNT, points, points), steps
        )


def part_of(total: Dim) -> tuple[Dim, Dim]:
    """The numbers below a total that are a task's."""
    part = TASK % PARTS
    return part * total // PARTS, (part + 1) * total // PARTS


def kernel_of(label: str, of: Rows, buffers: Sequence[str], tasks: Dim, cost: Dim, body: Sequence[Statement]) -> Kernel:
    """A kernel on some of the buffers: the operand, the result, the matrix, and its number of rows."""
    matrix = of.lead * of.points * 2 * are_long(of.loop)
    known = {
        of.source: Buffer(of.source, of.dtype, of.sizes[0], "in"), "out0": Buffer("out0", of.dtype, of.sizes[1], "out"),
        MATRIX: Buffer(MATRIX, of.dtype, matrix, "temporary"), DIVISOR: Buffer(DIVISOR, int64, dim(1), "temporary"),
    }  # fmt: skip
    symbols = tuple(sorted({s for size in (*of.sizes, of.points) for s in size.symbols()}))
    refuse_words(symbols)
    own = tuple(known[b] for b in buffers)
    return named(Kernel("kernel", label, own, symbols, tasks, cost, tuple(body), tasks * cost))


def task_loop(tasks: Dim, body: Sequence[Statement]) -> TaskLoop:
    """The loop over tasks, each of which has loops of its own."""
    return TaskLoop(str(TASK), tasks, None, (), tuple(body), False)


def angle_of(of: Rows, power: Dim, points: Dim | None = None) -> Expr:
    """The angle of a power of the root of unity of a row's length; powers are less than that length."""
    turn = (2 if steps_of(of.loop).inverse else -2) * math.pi
    numbers = power, of.points if points is None else points
    ratio = Apply("x / y", tuple(Apply("x", (Position(n),), float64) for n in numbers), float64)
    return Apply("x * y", (ratio, Number(turn, float64)), float64)


def of_angle(text: str) -> Expr:
    """A function of the angle that has been bound."""
    return Apply(text, (Name("fft_angle", float64),), float64)


def difference(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    """``a b - c d``: the real part of a product of complex numbers."""
    return Apply("x - y", (Apply("x * y", (a, b), float64), Apply("x * y", (c, d), float64)), float64)


def added(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    """``a b + c d``: the imaginary part of one."""
    return Apply("x + y", (Apply("x * y", (a, b), float64), Apply("x * y", (c, d), float64)), float64)
