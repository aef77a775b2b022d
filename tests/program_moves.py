"""Operations of random programs that move elements: to other axes and shapes, in other orders, in slices, joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zenith.ir.dims import dim, minimum
from zenith.ir.graph import Value

if TYPE_CHECKING:
    from tests.program_growth import Program

MOST_AXES = 4


def broadcast(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) < MOST_AXES)
    shape, axes = [program.size() if s == 1 else s for s in x.shape], list(range(len(x.shape)))
    for _ in range(program.rng.integers(0 if shape else 1, MOST_AXES - len(axes) + 1)):
        position = int(program.rng.integers(len(shape) + 1))
        shape.insert(position, program.size())
        axes = [a + (a >= position) for a in axes]
    program.emit(name, x, shape=tuple(shape), axes=tuple(axes))


def transpose(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    program.emit(name, x, axes=tuple(int(a) for a in program.rng.permutation(len(x.shape))))


def reshape(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) < MOST_AXES)
    shape = list(x.shape)
    position = int(program.rng.integers(len(shape) + 1))
    even = [a for a, s in enumerate(shape) if s.static is not None and s.static > 2 and s.static % 2 == 0]
    if even and program.chance(0.5):
        axis = program.one(even)
        shape[axis : axis + 1] = [dim(2), shape[axis] // 2]
    elif len(shape) > 1 and program.chance(0.7):
        axis = int(program.rng.integers(len(shape) - 1))
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    else:
        shape.insert(position, dim(1))
    program.emit(name, x, shape=tuple(shape))


def slice_of(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    start, stop = [], []
    for size in x.shape:
        low, high = minimum(1, size) if program.chance(0.5) else dim(0), size
        if program.chance(0.3):
            high = low + (size - low) // 2
        start.append(low)
        stop.append(high)
    step = tuple(int(s) for s in program.rng.integers(1, 4, len(start)))
    program.emit(name, x, start=tuple(start), stop=tuple(stop), step=step)


def reverse(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    program.emit(name, x, axes=program.subset(len(x.shape), least=1))


def pad(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    edges = {side: tuple(dim(int(program.rng.integers(0, 3))) for _ in x.shape) for side in ("low", "high")}
    interior = tuple(int(program.rng.integers(0, 2) * program.rng.integers(0, 3)) for _ in x.shape)
    program.emit(name, x, program.find(x.dtype, ()), **edges, interior=interior)


def concat(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    axis = int(program.rng.integers(len(x.shape)))

    def fits(v: Value) -> bool:
        same = len(v.shape) == len(x.shape) and v.dtype == x.dtype
        return same and all(a == axis or s == t for a, (s, t) in enumerate(zip(v.shape, x.shape, strict=True)))

    program.emit(name, x, *(program.pick(fits) for _ in range(program.rng.integers(0, 3))), axis=axis)


def argmax(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    program.emit(name, x, axis=int(program.rng.integers(len(x.shape))))
