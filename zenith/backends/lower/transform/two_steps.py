"""Fourier transforms of long rows in two steps of short ones, which stay in the cache and are shared by threads.

A row is seen as a matrix: its columns are transformed, multiplied by roots of unity (*twiddle factors*), and then its
rows, which are written as columns (D. H. Bailey, "FFTs in external or hierarchical memory", 1990). How many rows the
matrix has follows from the divisors of the row's length, which a kernel finds; it is 1 where there are none.

Of the short rows NumPy's inner loop transforms some at once. The kernels have no task in calls with shorter rows.
"""

from __future__ import annotations

from dataclasses import replace

from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position
from zenith.backends.kernel import (
    Accumulator,
    Bind,
    Check,
    Fold,
    Kernel,
    Let,
    Loop,
    Scratch,
    Statement,
    Store,
)
from zenith.backends.lower.transform.real_rows import tangled, untangled
from zenith.backends.lower.transform.rows import (
    COLUMNS,
    COUNT,
    DIVISOR,
    FIRST,
    INDEX,
    LONG,
    LONG_REAL,
    MATRIX,
    PARTS,
    ROW,
    ROWS,
    SCALE,
    TASK,
    K,
    Rows,
    added,
    angle_of,
    are_long,
    difference,
    kernel_of,
    of_angle,
    part_of,
    points_of,
    steps_of,
    task_loop,
)
from zenith.ir.dims import Dim, dim, minimum, product, symbol
from zenith.ir.lowering import InnerLoop
from zenith.ir.types import ArrayType, float64, int64

FEWEST, MOST = 64, 4096  # rows of a matrix
BLOCK = 16  # neighbouring twiddle factors of a row, each a product of two that are computed
ROOTS = "fft_roots"  # a buffer
BLOCKS = symbol("fft_block")  # an index of a loop


def are_short(loop: InnerLoop) -> bool:
    """Whether rows are short in every call."""
    points = points_of(loop).static
    return points is not None and points < (LONG_REAL if steps_of(loop).real else LONG)


def two_step_transform(label: str, loop: InnerLoop, source: str, given: ArrayType, result: ArrayType) -> list[Kernel]:
    """Kernels that transform the long rows of an array ``source`` of one type for ``out0`` of another."""
    lead, points = product(result.shape[:-1]), points_of(loop)
    tasks = lead * PARTS * are_long(loop)
    sizes = tuple(product(t.shape) * (2 if t.dtype.is_complex else 1) for t in (given, result))
    of = Rows(loop, source, lead, points, (points, points), result.dtype.real, tasks, (sizes[0], sizes[1]))
    from_matrix = replace(of, source=MATRIX)
    if not steps_of(loop).real:
        first = [] if given.dtype.is_complex else [_complex(label, of)]
        return [*first, *_steps(label, from_matrix if first else of)]
    half = points // 2
    if steps_of(loop).inverse:
        halved = replace(from_matrix, points=half, pitches=(half, half))
        return [tangled(label, replace(of, points=half)), *_steps(label, halved)]
    halved = replace(of, points=half, pitches=(half, half + 1))
    return [*_steps(label, halved), untangled(label, halved)]


def _steps(label: str, of: Rows) -> list[Kernel]:
    return [_divisor(of), _columns(label, of), _rows(label, of)]


def _complex(label: str, of: Rows) -> Kernel:
    """Real rows as complex ones."""
    begin, end = part_of(of.points)
    at = TASK // PARTS * of.points + INDEX
    real, imag = Apply("x", (Load(of.source, at, of.dtype),), of.dtype), Number(0.0, of.dtype)
    pair = (Store(MATRIX, at * 2, real), Store(MATRIX, at * 2 + 1, imag))
    body = (Loop(str(INDEX), begin, end, True, pair),)
    return kernel_of(label, of, [of.source, MATRIX], of.tasks, of.points // PARTS, [task_loop(of.tasks, body)])


def _divisor(of: Rows) -> Kernel:
    """The largest number of rows that is no more than that of columns."""
    candidate = Position(ROWS)
    fits = Apply("(x % y == 0) & (y * y <= x)", (Position(of.points), candidate), int64)
    most = Accumulator("fft_most", int64, 1, "maximum(x, y)", Apply("where(x != 0, y, 1)", (fits, candidate), int64))
    search = Fold(str(ROWS), dim(FEWEST), minimum(of.points // FEWEST, MOST) + 1, (), (most,))
    body = (search, Store(DIVISOR, dim(0), Name(most.name, int64)))
    return kernel_of("divisor", of, [DIVISOR], are_long(of.loop), dim(MOST * 20), [task_loop(dim(1), body)])


def _share(of: Rows, total: Dim) -> list[Statement]:
    """The names of a task that has some of so many short rows."""
    first, end = part_of(total)
    return [
        Bind(str(ROW), TASK // PARTS),
        Check(str(ROWS), Load(DIVISOR, dim(0), int64), of.points + 1),
        Bind(str(COLUMNS), of.points // ROWS),
        Bind(str(FIRST), first),
        Bind(str(COUNT), end - FIRST),
    ]


def _scale(of: Rows, value: Expr) -> list[Statement]:
    return [Scratch(SCALE, of.dtype, 1), Store(SCALE, dim(0), value)]


def _columns(label: str, of: Rows) -> Kernel:
    """The columns of the matrix."""
    assert of.loop.factor is not None
    text, number = of.loop.factor
    elements = [(of.source, ROW * of.pitches[0] + FIRST), (MATRIX, ROW * of.points + FIRST)]
    call = of.call(elements, ROWS, [dim(1), dim(1), COLUMNS, COLUMNS])
    scale = Apply(text, (Apply("x", (Position(number),), of.dtype),), of.dtype)
    body = [*_scale(of, scale), task_loop(of.tasks, [*_share(of, COLUMNS), call])]
    return kernel_of(label, of, [of.source, MATRIX, DIVISOR], of.tasks, of.points // PARTS * 40, body)


def _rows(label: str, of: Rows) -> Kernel:
    """The rows of the matrix, multiplied by twiddle factors before they are transformed."""
    elements = [(MATRIX, ROW * of.points + FIRST * COLUMNS), ("out0", ROW * of.pitches[1] + FIRST)]
    call = of.call(elements, COLUMNS, [COLUMNS, dim(1), dim(1), ROWS])
    multiplied = Loop(str(INDEX), dim(0), COUNT, False, tuple(_twiddled(of)))
    body = [*_scale(of, Number(1.0, of.dtype)), Scratch(ROOTS, float64, 2 * BLOCK),
            task_loop(of.tasks, [*_share(of, ROWS), multiplied, call])]  # fmt: skip
    return kernel_of(label, of, ["out0", MATRIX, DIVISOR], of.tasks, of.points // PARTS * 60, body)


def _twiddled(of: Rows) -> list[Statement]:
    """A row of the matrix times the powers of a root of unity, products of one of few powers and one of many."""
    number, begin = FIRST + INDEX, BLOCKS * BLOCK
    few = Loop(str(K), dim(0), dim(BLOCK), True, (
        Let("fft_angle", angle_of(of, number * K)),
        Store(ROOTS, K * 2, of_angle("cos(x)")), Store(ROOTS, K * 2 + 1, of_angle("sin(x)")),
    ))  # fmt: skip
    at = (ROW * of.points + number * COLUMNS + begin + K) * 2
    products = Loop(str(K), dim(0), minimum(COLUMNS - begin, BLOCK), True, tuple(_products(of, at)))
    many = Loop(str(BLOCKS), dim(0), -(-COLUMNS // BLOCK), False, (
        Let("fft_angle", angle_of(of, number * begin)),
        Let("fft_cos", of_angle("cos(x)")), Let("fft_sin", of_angle("sin(x)")), products,
    ))  # fmt: skip
    return [few, many]


def _products(of: Rows, at: Dim) -> list[Statement]:
    """A point of the matrix times the product of two roots, in float64."""
    cos, sin, real, imag, x, y = (Name(f"fft_{n}", float64) for n in ("cos", "sin", "real", "imag", "x", "y"))
    few = [Load(ROOTS, K * 2 + part, float64) for part in (0, 1)]
    point = [Apply("x", (Load(MATRIX, at + part, of.dtype),), float64) for part in (0, 1)]
    return [
        Let(real.name, difference(cos, few[0], sin, few[1])), Let(imag.name, added(cos, few[1], sin, few[0])),
        Let(x.name, point[0]), Let(y.name, point[1]),
        Store(MATRIX, at, Apply("x", (difference(real, x, imag, y),), of.dtype)),
        Store(MATRIX, at + 1, Apply("x", (added(real, y, imag, x),), of.dtype)),
    ]  # fmt: skip
