"""Fourier transforms of long rows in two steps of short ones, which stay in the cache and are shared by threads.

A row is seen as a matrix: its columns are transformed, multiplied by roots of unity (*twiddle factors*), and then its
rows, which are written as columns (D. H. Bailey, "FFTs in external or hierarchical memory", 1990). How many rows the
matrix has follows from the divisors of the row's length, which a kernel finds; it is 1 where there are none.

Of the short rows NumPy's inner loop transforms some at once. The kernels have no task in calls with shorter rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zenith.backends.emit import named
from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position
from zenith.backends.kernel import (
    Accumulator,
    Bind,
    Buffer,
    CallInnerLoop,
    Check,
    Fold,
    Kernel,
    Let,
    Loop,
    Scratch,
    Statement,
    Store,
    TaskLoop,
)
from zenith.backends.lower.words import refuse_words
from zenith.ir.dims import Dim, dim, minimum, product, symbol
from zenith.ir.lowering import InnerLoop
from zenith.ir.types import ArrayType, DType, float64, int64

LONG = 1 << 14  # points from which a row is transformed in two steps
FEWEST, MOST = 64, 4096  # rows of a matrix
PARTS = 64  # of a row's work, its tasks
BLOCK = 16  # neighbouring twiddle factors of a row, each a product of two that are computed
_DIVISOR, _MATRIX, _ROOTS, _SCALE = "fft_divisor", "fft_matrix", "fft_roots", "fft_scale"  # buffers
# Of a task: the row that it works on; the matrix; the first of its own short rows, and how many these are.
_TASK, _ROW, _ROWS, _COLUMNS, _FIRST, _COUNT = (
    symbol(f"fft_{name}") for name in ("task", "row", "rows", "columns", "first", "count")
)
_I, _K, _BLOCK = (symbol(f"fft_{name}") for name in ("i", "k", "block"))  # indices of loops


def are_long(type: ArrayType) -> Dim:
    """1 where rows are long, else 0."""
    return minimum(type.shape[-1] // LONG, 1)


def is_short(type: ArrayType) -> bool:
    """Whether rows are short in every call."""
    points = type.shape[-1].static
    return points is not None and points < LONG


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of an array: how many, of how many points; the real type, its bytes, and the buffer that they are in."""

    loop: InnerLoop
    source: str
    lead: Dim
    points: Dim
    dtype: DType
    tasks: Dim
    is_real: bool

    @property
    def step(self) -> int:
        """Bytes of a point."""
        return 2 * self.dtype.numpy.itemsize

    def call(self, elements: Sequence[tuple[str, Dim]], points: Dim, strides: Sequence[Dim]) -> Statement:
        """The inner loop for a task's short rows; strides from row to row of both arrays, and of points in them."""
        name = f"{self.loop.ufuncs[0]}:{self.loop.types}"
        source, target = ((buffer, at * 2) for buffer, at in elements)
        outer, *others = (s * self.step for s in strides)
        steps = (outer, dim(0), *others)  # all have one factor
        return CallInnerLoop(name, (source, (_SCALE, dim(0)), target), (_COUNT, points, points), steps)


def two_step_transform(label: str, loop: InnerLoop, source: str, given: ArrayType, result: ArrayType) -> list[Kernel]:
    """Kernels that transform the long rows of a complex array ``source`` for ``out0``, in one type."""
    *lead, points = result.shape
    rows = product(lead)
    tasks = rows * PARTS * are_long(result)
    of = _Rows(loop, source, rows, points, result.dtype.real, tasks, not given.dtype.is_complex)
    first = [_complex(label, of)] if of.is_real else []
    of = replace(of, source=_MATRIX, is_real=False) if first else of
    return [*first, _divisor(of), _columns(label, of), _rows(label, of)]


def _complex(label: str, of: _Rows) -> Kernel:
    """Real rows as complex ones."""
    part = _TASK % PARTS
    begin, end = part * of.points // PARTS, (part + 1) * of.points // PARTS
    at = _TASK // PARTS * of.points + _I
    real, imag = Apply("x", (Load(of.source, at, of.dtype),), of.dtype), Number(0.0, of.dtype)
    pair = (Store(_MATRIX, at * 2, real), Store(_MATRIX, at * 2 + 1, imag))
    body = (Loop(str(_I), begin, end, True, pair),)
    return _kernel(label, of, [of.source, _MATRIX], of.tasks, of.points // PARTS, [_tasks(of.tasks, body)])


def _kernel(label: str, of: _Rows, buffers: Sequence[str], tasks: Dim, cost: Dim, body: Sequence[Statement]) -> Kernel:
    """A kernel on some of the buffers: the operand, the result, the matrix, and its number of rows."""
    elements = of.lead * of.points * 2
    known = {
        of.source: Buffer(of.source, of.dtype, elements // (2 if of.is_real else 1), "in"),
        "out0": Buffer("out0", of.dtype, elements, "out"),
        _MATRIX: Buffer(_MATRIX, of.dtype, elements * minimum(of.points // LONG, 1), "temporary"),
        _DIVISOR: Buffer(_DIVISOR, int64, dim(1), "temporary"),
    }
    symbols = tuple(sorted({s for size in (of.lead, of.points) for s in size.symbols()}))
    refuse_words(symbols)
    own = tuple(known[b] for b in buffers)
    return named(Kernel("kernel", label, own, symbols, tasks, cost, tuple(body), tasks * cost))


def _tasks(tasks: Dim, body: Sequence[Statement]) -> TaskLoop:
    return TaskLoop(str(_TASK), tasks, None, (), tuple(body), False)


def _divisor(of: _Rows) -> Kernel:
    """The largest number of rows that is no more than that of columns."""
    candidate = Position(_ROWS)
    fits = Apply("(x % y == 0) & (y * y <= x)", (Position(of.points), candidate), int64)
    most = Accumulator("fft_most", int64, 1, "maximum(x, y)", Apply("where(x != 0, y, 1)", (fits, candidate), int64))
    search = Fold(str(_ROWS), dim(FEWEST), minimum(of.points // FEWEST, MOST) + 1, (), (most,))
    body = (search, Store(_DIVISOR, dim(0), Name(most.name, int64)))
    return _kernel("divisor", of, [_DIVISOR], minimum(of.points // LONG, 1), dim(MOST * 20), [_tasks(dim(1), body)])


def _share(of: _Rows, total: Dim) -> list[Statement]:
    """The names of a task that has some of so many short rows."""
    part = _TASK % PARTS
    return [
        Bind(str(_ROW), _TASK // PARTS * of.points),
        Check(str(_ROWS), Load(_DIVISOR, dim(0), int64), of.points + 1),
        Bind(str(_COLUMNS), of.points // _ROWS),
        Bind(str(_FIRST), part * total // PARTS),
        Bind(str(_COUNT), (part + 1) * total // PARTS - _FIRST),
    ]


def _scale(of: _Rows, value: Expr) -> list[Statement]:
    return [Scratch(_SCALE, of.dtype, 1), Store(_SCALE, dim(0), value)]


def _columns(label: str, of: _Rows) -> Kernel:
    """The columns of the matrix."""
    assert of.loop.factor is not None
    text, number = of.loop.factor
    call = of.call([(of.source, _ROW + _FIRST), (_MATRIX, _ROW + _FIRST)], _ROWS, [dim(1), dim(1), _COLUMNS, _COLUMNS])
    scale = Apply(text, (Apply("x", (Position(number),), of.dtype),), of.dtype)
    body = [*_scale(of, scale), _tasks(of.tasks, [*_share(of, _COLUMNS), call])]
    return _kernel(label, of, [of.source, _MATRIX, _DIVISOR], of.tasks, of.points // PARTS * 40, body)


def _rows(label: str, of: _Rows) -> Kernel:
    """The rows of the matrix, multiplied by twiddle factors before they are transformed."""
    elements = [(_MATRIX, _ROW + _FIRST * _COLUMNS), ("out0", _ROW + _FIRST)]
    call = of.call(elements, _COLUMNS, [_COLUMNS, dim(1), dim(1), _ROWS])
    multiplied = Loop(str(_I), dim(0), _COUNT, False, tuple(_twiddled(of)))
    body = [*_scale(of, Number(1.0, of.dtype)), Scratch(_ROOTS, float64, 2 * BLOCK),
            _tasks(of.tasks, [*_share(of, _ROWS), multiplied, call])]  # fmt: skip
    return _kernel(label, of, ["out0", _MATRIX, _DIVISOR], of.tasks, of.points // PARTS * 60, body)


def _twiddled(of: _Rows) -> list[Statement]:
    """A row of the matrix times the powers of a root of unity, products of one of few powers and one of many."""
    number, begin = _FIRST + _I, _BLOCK * BLOCK
    few = Loop(str(_K), dim(0), dim(BLOCK), True, (
        Let("fft_angle", _angle(of, number * _K)),
        Store(_ROOTS, _K * 2, _of_angle("cos(x)")), Store(_ROOTS, _K * 2 + 1, _of_angle("sin(x)")),
    ))  # fmt: skip
    at = (_ROW + number * _COLUMNS + begin + _K) * 2
    products = Loop(str(_K), dim(0), minimum(_COLUMNS - begin, BLOCK), True, tuple(_products(of, at)))
    many = Loop(str(_BLOCK), dim(0), -(-_COLUMNS // BLOCK), False, (
        Let("fft_angle", _angle(of, number * begin)),
        Let("fft_cos", _of_angle("cos(x)")), Let("fft_sin", _of_angle("sin(x)")), products,
    ))  # fmt: skip
    return [few, many]


def _angle(of: _Rows, power: Dim) -> Expr:
    """The angle of a power of the root of unity of a row's length; powers are less than that length."""
    turn = (2 if of.loop.ufuncs[0].endswith("ifft") else -2) * math.pi
    ratio = Apply("x / y", tuple(Apply("x", (Position(n),), float64) for n in (power, of.points)), float64)
    return Apply("x * y", (ratio, Number(turn, float64)), float64)


def _of_angle(text: str) -> Expr:
    return Apply(text, (Name("fft_angle", float64),), float64)


def _products(of: _Rows, at: Dim) -> list[Statement]:
    """A point of the matrix times the product of two roots, in float64."""
    cos, sin, real, imag, x, y = (Name(f"fft_{n}", float64) for n in ("cos", "sin", "real", "imag", "x", "y"))
    few = [Load(_ROOTS, _K * 2 + part, float64) for part in (0, 1)]
    point = [Apply("x", (Load(_MATRIX, at + part, of.dtype),), float64) for part in (0, 1)]
    return [
        Let(real.name, _difference(cos, few[0], sin, few[1])), Let(imag.name, _sum(cos, few[1], sin, few[0])),
        Let(x.name, point[0]), Let(y.name, point[1]),
        Store(_MATRIX, at, Apply("x", (_difference(real, x, imag, y),), of.dtype)),
        Store(_MATRIX, at + 1, Apply("x", (_sum(real, y, imag, x),), of.dtype)),
    ]  # fmt: skip


def _difference(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    return Apply("x - y", (Apply("x * y", (a, b), float64), Apply("x * y", (c, d), float64)), float64)


def _sum(a: Expr, b: Expr, c: Expr, d: Expr) -> Expr:
    return Apply("x + y", (Apply("x * y", (a, b), float64), Apply("x * y", (c, d), float64)), float64)
