"""Arrays joined, padded and cut along an axis, and read elsewhere than they are written: at positions that are checked.

Kernels are cut where operands of a join begin (index set splitting), and what holds in a segment must not be assumed
outside of it: of arrays without elements, of single elements that every iteration reads, and of positions, which depend
on others that are computed.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.program_chains import length_of
from tests.program_growth import Program
from tests.program_proposals import propose
from zenith.ir.dims import dim
from zenith.ir.graph import Value
from zenith.ir.primitive import get
from zenith.ir.types import float32, float64, int64

SIZES = (0, 0, 1, 2, 3, 40)
MOVING = {"pad": 2, "slice": 2, "dynamic_slice": 2, "gather": 1, "update_slice": 1, "concat": 1}
SIMPLE = ("add", "sub", "mul", "maximum")


def begin_joins(program: Program) -> Callable[[], None]:
    """Rows of two or three sizes, and matrices of them; the function returned proposes another operation on them."""
    sizes = [length_of(program, SIZES, 0.8) for _ in range(program.rng.integers(2, 4))]
    shapes = [(sizes[0],), (sizes[1],), (sizes[-1],), (sizes[0], sizes[1]), (sizes[1], sizes[0])]
    dtype = program.one((float32, float64))
    for shape in shapes[: program.rng.integers(3, 6)]:
        program.input(dtype, shape)
    program.input(int64, ())
    moving = [get(name) for name, share in MOVING.items() for _ in range(share)]

    steps = [*[_join] * 4, _combine, _combine, _single, lambda program: propose(program, program.one(moving))]
    return lambda: program.one(steps)(program)


def _join(program: Program) -> None:
    """Several arrays along the first axis, some of them as they are, others backwards or padded."""
    x = _array(program)
    pieces = [program.pick(lambda v: v.dtype == x.dtype and v.shape[1:] == x.shape[1:] and bool(v.shape))
              for _ in range(program.rng.integers(1, 6))]  # fmt: skip
    program.emit("concat", *(_piece(program, piece) for piece in (x, *pieces)), axis=0)


def _piece(program: Program, x: Value) -> Value:
    if program.chance(0.3):
        return _mirrored(program, _mirrored(program, x) if program.chance(0.5) else x)
    if program.chance(0.3):
        rest = [dim(0)] * (len(x.shape) - 1)
        low, high = ((dim(int(program.rng.integers(0, 3))), *rest) for _ in range(2))
        return program.emit("pad", x, program.find(x.dtype, ()), low=low, high=high, interior=(0,) * len(x.shape))
    return program.emit("reverse", x, axes=(0,)) if program.chance(0.3) else x


def _combine(program: Program) -> None:
    """Two arrays of a type."""
    x = _array(program)
    program.emit(program.one(SIMPLE), x, program.pick(lambda v: v.type == x.type))


def _mirrored(program: Program, x: Value) -> Value:
    """An array backwards along its first axis, by positions that are checked; there may be none."""
    backwards = program.emit("reverse", program.emit("iota", size=x.shape[0], dtype=int64), axes=(0,))
    return program.emit("take", x, backwards, axis=0)


def _single(program: Program) -> None:
    """One element of an array, which has a border lest it have none, in every place of another one."""
    x, number = _array(program), program.full(1.5, float64, ())
    program.require(len(x.shape) == 1)
    number = program.convert(number, x.dtype)
    bordered = program.emit("pad", x, number, low=(dim(1),), high=(dim(0),), interior=(0,))
    at = x.shape[0] if program.chance(0.5) else dim(0)
    single = program.emit("slice", bordered, start=(at,), stop=(at + 1,), step=(1,))
    other = program.pick(lambda v: v.dtype == x.dtype and len(v.shape) == 1)
    program.emit("add", other, program.emit("broadcast", single, shape=other.shape, axes=(0,)))


def _array(program: Program) -> Value:
    """An array of floats."""
    return program.pick(lambda v: v.dtype.kind == "f" and bool(v.shape))
