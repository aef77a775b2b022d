"""Operations of random programs that read and write at indices: gathers, scatters, slices, also at computed starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Value

if TYPE_CHECKING:
    from tests.program_growth import Program


def indices(program: Program, size: Dim, shape: Sequence[Dim]) -> Value:
    """Indices below a size: whole numbers modulo it."""
    program.require(size.evaluate(program.sizes) > 0)
    dtype = program.one(program.integers())
    numbers = program.find(dtype, shape)
    count = program.convert(program.emit("size", value=size), dtype)
    return program.emit("remainder", numbers, program.emit("broadcast", count, shape=tuple(shape), axes=()))


def take(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    axis = int(program.rng.integers(len(x.shape)))
    shape = program.pick(lambda v: len(v.shape) <= 2).shape
    program.emit(name, x, indices(program, x.shape[axis], shape), axis=axis)


def order_statistics(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    program.emit(name, x, indices(program, x.shape[-1], (program.size(),)))


def index_arrays(program: Program, x: Value) -> list[Value]:
    shape = program.pick(lambda v: len(v.shape) <= 2).shape
    return [indices(program, size, shape) for size in x.shape[: program.rng.integers(1, len(x.shape) + 1)]]


def gather(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    program.emit(name, x, *index_arrays(program, x))


def update_slice(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    start = [minimum(1, size) if program.chance(0.5) else dim(0) for size in x.shape]
    stop = [low + (size - low) // 2 if program.chance(0.4) else size for low, size in zip(start, x.shape, strict=True)]
    step = tuple(int(s) for s in program.rng.integers(1, 3, len(start)))
    shape = [(high - low + s - 1) // s for low, high, s in zip(start, stop, step, strict=True)]
    program.emit(name, x, program.find(x.dtype, shape), start=tuple(start), stop=tuple(stop), step=step)


def sizes_and_starts(program: Program, x: Value) -> tuple[list[Dim], list[Value]]:
    """Sizes of a slice of an array, each the whole axis or one element, and its starts, which may be anywhere."""
    sizes = [dim(1) if program.chance(0.5) and n.evaluate(program.sizes) else n for n in x.shape]
    dtype = program.one(program.integers())
    return sizes, [program.find(dtype, ()) for _ in sizes]


def dynamic_slice(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    sizes, starts = sizes_and_starts(program, x)
    program.emit(name, x, *starts, sizes=tuple(sizes), batch=0)


def dynamic_update(program: Program, name: str) -> None:
    x = program.pick(lambda v: len(v.shape) >= 1)
    sizes, starts = sizes_and_starts(program, x)
    program.emit(name, x, program.find(x.dtype, sizes), *starts, batch=0)
