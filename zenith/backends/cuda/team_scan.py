"""Prefix scans by a team of threads that share a loop: a chunk of as many iterations as threads at a time.

Each lane of a warp exchanges values with the lane whose number differs in one bit (Hillis and Steele's prefix on a
butterfly): after each step a lane has the total of its own group of 2, 4, 8 ... lanes, and the prefix within it up to
its own value. Warps then pass on their totals through shared memory, and chunks in registers of all threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from zenith.backends.cuda.forms import WARP
from zenith.backends.kernel import Running
from zenith.ir.types import DType

Apply = Callable[[str, list[str], DType], str]


def shared(running: Iterable[Running]) -> list[str]:
    """Shared memory through which warps pass on their totals."""
    found = [f"{r.dtype}_warps = {r.dtype}_shared({WARP})" for r in running]
    found += [f"{r.dtype}_factors = {r.dtype}_shared({WARP})" for r in running if r.factor is not None]
    return list(dict.fromkeys(found))


def lines(run: Running, apply: Apply, values: list[str], team: str) -> Iterator[str]:
    """Turn every thread's value into the prefix of all values up to it."""
    name, kinds = run.name, [run.name, f"{run.name}_factor"][: len(values)]
    for kind, value in zip(kinds, values, strict=True):
        yield f"{kind} = {run.dtype}({value})"
        yield f"{kind}_all = {kind}"

    def join(first: str, second: str, third: str) -> str:
        """``first`` joined with ``second``, whose factor is ``third``."""
        return f"{run.dtype}({apply(run.combine, [first, second, third][: 1 + len(values)], run.dtype)})"

    yield "distance = 1"
    yield f"while distance < {WARP}:"
    for line in _exchanged(run, kinds, join):
        yield f"    {line}"
    factor, factor_all = f"{name}_factor", f"{name}_factor_all"
    total = f"{name}_before = {join(f'{name}_before', f'{name}_all', factor_all)}"
    if team == str(WARP):
        yield f"{name} = {join(f'{name}_before', name, factor)}"
        yield total
        return
    yield f"{name}_here = {name}_before"
    yield f"if {team} > {WARP}:"
    for line in _warps(run, kinds, join, team):
        yield f"    {line}"
    yield "else:"
    yield f"    {total}"
    yield f"{name} = {join(f'{name}_here', name, factor)}"


def _exchanged(run: Running, kinds: list[str], join: Callable[[str, str, str], str]) -> Iterator[str]:
    """A step of the butterfly: join with the neighbouring group of lanes, which comes before or after a lane's own."""
    name, factor = run.name, f"{run.name}_factor"
    for kind in kinds:
        yield f"{kind}_other = shuffle({kind}_all, distance)"
    yield "is_upper = (lane & distance) != 0"
    other = f"{name}_other"
    yield f"{name} = where(is_upper, {join(other, name, factor)}, {name})"
    earlier, later = join(other, f"{name}_all", f"{factor}_all"), join(f"{name}_all", other, f"{factor}_other")
    yield f"{name}_all = where(is_upper, {earlier}, {later})"
    if len(kinds) > 1:
        yield f"{factor} = where(is_upper, {run.dtype}({factor}_other * {factor}), {factor})"
        yield f"{factor}_all = {run.dtype}({factor}_other * {factor}_all)"
    yield "distance <<= 1"


def _warps(run: Running, kinds: list[str], join: Callable[[str, str, str], str], team: str) -> Iterator[str]:
    """Every thread joins the totals of all warps, in order, and notes the prefix in front of its own warp."""
    name = run.name
    stored = [f"{run.dtype}_{'warps' if kind == name else 'factors'}" for kind in kinds]
    yield "cuda.syncthreads()"
    for kind, warps in zip(kinds, stored, strict=True):
        yield f"{warps}[lane // {WARP}] = {kind}_all"
    yield "cuda.syncthreads()"
    yield "warp = 0"
    yield f"while warp < {team} // {WARP}:"
    yield f"    {name}_here = where(warp == lane // {WARP}, {name}_before, {name}_here)"
    joined = join(f"{name}_before", f"{stored[0]}[warp]", f"{stored[-1]}[warp]")
    yield f"    {name}_before = {joined}"
    yield "    warp += 1"
