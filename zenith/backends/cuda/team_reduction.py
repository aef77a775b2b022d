"""Reductions by a team of threads: the partial results of its threads are joined to one that all of them have.

The lanes of a warp exchange values with the lane whose number differs in one bit (butterfly shuffles); the results of
several warps are joined through shared memory, by every thread in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from zenith.backends.cuda.forms import WARP
from zenith.backends.cuda.thread_emit import from_memory, memory_type, to_memory
from zenith.backends.kernel import Accumulator

Join = Callable[[Accumulator, str], str]


def shared(accumulators: Iterable[Accumulator]) -> list[str]:
    """Shared memory through which warps exchange their results."""
    return [f"{a.dtype}_warps = {memory_type(a.dtype)}_shared({WARP})" for a in accumulators]


def lines(accumulators: Sequence[Accumulator], join: Join, team: str) -> Iterator[str]:
    """Turn every thread's accumulators into the team's; ``join`` is a line that joins one with a value."""
    yield f"distance = {WARP // 2}"
    yield "while distance > 0:"
    for a in accumulators:
        yield f"    {join(a, f'shuffle({a.name}, distance)')}"
    yield "    distance >>= 1"
    if team == str(WARP):
        return
    yield f"if {team} > {WARP}:"
    for a in accumulators:
        for line in _warps(a, join, team):
            yield f"    {line}"


def _warps(a: Accumulator, join: Join, team: str) -> Iterator[str]:
    """Every thread joins the results of all warps, in order."""
    warps = f"{a.dtype}_warps"
    yield "cuda.syncthreads()"
    yield f"{warps}[lane // {WARP}] = {to_memory(a.name, a.dtype)}"
    yield "cuda.syncthreads()"
    yield f"{a.name} = {from_memory(f'{warps}[0]', a.dtype)}"
    yield "warp = 1"
    yield f"while warp < {team} // {WARP}:"
    yield f"    {join(a, from_memory(f'{warps}[warp]', a.dtype))}"
    yield "    warp += 1"
