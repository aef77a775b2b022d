"""Long programs in which many arrays of few sizes are alive: which memory each has, and how long, decides results.

There are products, sorts and sums of columns, after which kernels end; views of arrays; slices of arrays, early ones
too, that are overwritten; and arrays that are first read again near the end. Many values that
something has read are returned all the same.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.program_chains import length_of
from tests.program_growth import Program
from tests.program_proposals import propose
from zenith.ir.graph import Value
from zenith.ir.primitive import get
from zenith.ir.types import float32, float64, int32, int64

SIZES = (1, 2, 3, 4, 6)
OTHERS = (float64, int32, int64)  # a program has float32, and one of these
# Operations that move, change or join arrays, as the stream of all primitives proposes them, and how often.
MOVING = {
    "reshape": 3, "transpose": 3, "slice": 2, "reverse": 1, "concat": 1, "pad": 1, "update_slice": 4, "scatter_add": 2,
    "scatter_set": 2, "dynamic_update_slice": 3, "dynamic_slice": 1, "take": 1, "matmul": 3, "sort": 1,
}  # fmt: skip
SIMPLE = ("add", "sub", "mul", "maximum")
RETURNED = 0.05  # of the values that something has read


def begin_storage(program: Program) -> Callable[[], None]:
    """Arrays of two sizes in a few shapes; the function returned proposes another operation on them."""
    rows, columns = (length_of(program, SIZES, 0.5) for _ in range(2))
    shapes = [(rows, columns), (rows, columns), (columns, rows), (rows, rows), (rows * columns,), (columns,)]
    dtypes = (float32, float32, program.one(OTHERS))
    for number in range(program.rng.integers(4, 7)):
        program.input(program.one(dtypes), program.one(shapes) if number else shapes[0])
    moving = [name for name, share in MOVING.items() for _ in range(share)]

    def proposes() -> None:
        if program.chance(0.4):
            propose(program, get(program.one(moving)))
        elif program.chance(0.7):
            _join(program)
        else:
            _sum(program)

    return proposes


def _early(program: Program) -> Value:
    """An array of numbers, half of the time one of the first."""
    some = program.values[: 1 + len(program.values) // 4] if program.chance(0.5) else program.values
    value: Value = program.one([v for v in some if v.dtype.kind in "if" and v.shape])
    return value


def _join(program: Program) -> None:
    """Two arrays of a type, mostly such that nothing else has read them."""
    x = program.pick(lambda v: v.dtype.kind in "if" and bool(v.shape)) if program.chance(0.7) else _early(program)
    program.emit(program.one(SIMPLE), x, program.pick(lambda v: v.type == x.type))


def _sum(program: Program) -> None:
    """Along the first axis, which ends a kernel, less another array."""
    x = _early(program)
    program.require(len(x.shape) == 2)
    total = program.emit("reduce_sum", x, axes=(0,))
    spread = program.emit("broadcast", total, shape=x.shape, axes=(1,))
    program.emit("sub", program.find(x.dtype, x.shape), spread)
