"""Profiles: the time of each launch of a call, next to the limit that the machine sets.

The program of a call is run step by step from Python, over the same memory and with the same machine code, and
each step is timed, on a GPU by CUDA's events; nothing is computed in another way. The *limit* of a launch is the larger
of its operations at this machine's arithmetic peak and its bytes at the bandwidth that arrays of that many bytes reach
here; both are measured, once in a process (roofline model: Williams, Waterman and Patterson, CACM 52, 2009).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zenith.api.costs import cost_analysis
from zenith.api.programs import Specialization
from zenith.api.specialize import Request
from zenith.api.tables import Shown, table
from zenith.arrays import maker_of_results
from zenith.backends.clock import Clock, Mark
from zenith.backends.lifetimes import lifetimes
from zenith.errors import SourceLine, UnsupportedError
from zenith.files import replacing, starts_with
from zenith.ir.types import float32

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

SECONDS = 0.3  # how long a profile runs, about
RUNS = (5, 200)  # at least and at most
WORKING_SETS = (1 << 18, 1 << 21, 1 << 24, 1 << 27)  # bytes at which bandwidth is measured
DEVICE_PRODUCTS = ((4096, 4096, 4096),)  # the same for a GPU
PRODUCTS = ((768, 768, 768), (512, 1024, 256), (384, 256, 1024))  # (m, k, n) that measure the arithmetic peak


@dataclass(frozen=True)
class LaunchProfile:
    """One launch: kernel, the user's lines, median seconds, operations, bytes, and the share of the machine's limit."""

    kernel: str
    lines: tuple[SourceLine, ...]
    seconds: float
    operations: int
    bytes: int
    share: float

    @property
    def gflops(self) -> float:
        """Billions of operations a second; 0 where a launch is shorter than the clock's step."""
        return self.operations / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gbs(self) -> float:
        """Billions of bytes a second; 0 where a launch is shorter than the clock's step."""
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class Block:
    """A value in the arena: ``bytes`` at ``offset``, alive from the launch ``first`` to the launch ``last``."""

    slot: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Roof:
    """The machine's limits: operations a second, and bytes a second for working sets of up to so many bytes."""

    peak: float
    bandwidths: tuple[tuple[int, float], ...]


@dataclass(frozen=True, repr=False)
class Profile(Shown):
    """The launches of one call of a program; ``str`` and rich show a table, slowest lines are easy to find.

    Attributes
    ----------
    name: the function.
    launches: in order of execution; ``seconds`` of each is the median over ``runs`` calls.
    seconds: the median of whole calls, timed apart from the launches.
    memory: what lies in the arena, the memory that launches pass values by, and during which launches.
    roof: the machine's limits.
    """

    name: str
    launches: tuple[LaunchProfile, ...]
    seconds: float
    runs: int
    memory: tuple[Block, ...]
    roof: Roof

    def __rich__(self) -> RenderableType:
        whole = sum(launch.seconds for launch in self.launches) or 1.0
        rows = [
            (p.kernel, f"{1e6 * p.seconds:.1f}", f"{p.seconds / whole:.0%}", p.bytes, f"{p.gflops:.1f}", f"{p.gbs:.1f}",
             f"{p.share:.0%}", ", ".join(dict.fromkeys(map(str, p.lines))))
            for p in self.launches
        ]  # fmt: skip
        title = f"{self.name}: a call takes {1e6 * self.seconds:.1f} us; its launches, medians of {self.runs} calls"
        return table(title, ("kernel", "us", "of all", "bytes", "GFLOP/s", "GB/s", "of the limit", "lines"), rows)

    def plot(self) -> Figure:
        """A matplotlib Figure: a bar for each launch, as long as its time, filled as far as the machine's limit."""
        from zenith.api.profile_plots import bars

        return bars(self)

    def plot_roofline(self) -> Figure:
        """A matplotlib Figure: the speed of each launch over its operations a byte, below the machine's roof.

        On the slanted part of the roof memory limits a launch, on the level part arithmetic. A point is as large as the
        launch's share of the call, and the kernels that take the most time have a colour each.
        """
        from zenith.api.profile_plots import roofline

        return roofline(self)

    def plot_memory(self) -> Figure:
        """A matplotlib Figure: where in the arena values lie, from launch to launch, and how many bytes are alive."""
        from zenith.api.profile_plots import timeline

        return timeline(self)

    @property
    def live(self) -> tuple[int, ...]:
        """The bytes in the arena that are alive during each launch."""
        count = range(len(self.launches))
        return tuple(sum(block.bytes for block in self.memory if block.first <= i <= block.last) for i in count)

    def to_chrome(self, path: str | Path) -> None:
        """Write the launches of a call as a trace that chrome://tracing and ui.perfetto.dev open.

        It replaces an earlier one; ZenithError when another file is there.
        """
        events, start = [], 0.0
        for p in self.launches:
            details = {"operations": p.operations, "bytes": p.bytes, "GFLOP/s": p.gflops, "GB/s": p.gbs,
                       "share of the limit": p.share, "lines": [line.describe() for line in p.lines]}  # fmt: skip
            events.append({"name": p.kernel, "ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": 1e6 * p.seconds,
                           "cat": "launch", "args": details})  # fmt: skip
            start += 1e6 * p.seconds
        names = [{"name": "process_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": f"zenith {self.name}"}}]
        with replacing(Path(path), starts_with(b'{"traceEvents": ')) as file:
            file.write(json.dumps({"traceEvents": names + events, "displayTimeUnit": "ns"}).encode())


def profile(name: str, program: Specialization, request: Request) -> Profile:
    """Run a compiled program for a call several times; UnsupportedError when it is run without machine code."""
    if not hasattr(program.executable, "clock"):
        raise UnsupportedError(f"{name} is not compiled to machine code", fix='profile it with backend="cpu"')
    sizes = program.binding.function(request.leaves)
    assert sizes is not None, "a program that was found binds"
    clock = program.executable.clock(program.results)
    leaves = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in request.leaves]  # which it may write
    whole, times = _alternately(lambda *watch: program.run(leaves, sizes, *watch), clock)
    seconds = [statistics.median(step) for step in zip(*times, strict=True)][1:]  # the first step copies addresses
    costs = cost_analysis(program.origin.plan).at(sizes).kernels
    launches = []
    for cost, measured in zip(costs, seconds, strict=True):
        operations, moved = cost.operations.evaluate({}), (cost.bytes_read + cost.bytes_written).evaluate({})
        limit = max(operations / peak(program.device), moved / bandwidth(moved, program.device))
        launches.append(LaunchProfile(cost.kernel, cost.lines, measured, operations, moved, limit / measured))
    roof = Roof(peak(program.device), tuple((size, bandwidth(size, program.device)) for size in WORKING_SETS))
    return Profile(name, tuple(launches), statistics.median(whole), len(whole), _blocks(program, sizes), roof)


def _blocks(program: Specialization, sizes: Mapping[str, int]) -> tuple[Block, ...]:
    """What lies in the arena; not what needs no memory with these sizes."""
    blocks = (
        Block(life.slot, life.offset.evaluate(sizes), life.length.evaluate(sizes), life.first, life.last)
        for life in lifetimes(program.origin.plan)
    )
    return tuple(block for block in blocks if block.bytes)


def _alternately(call: Callable[..., object], clock: Clock[Mark]) -> tuple[list[float], list[list[float]]]:
    """Seconds of whole calls, and of the steps of other calls in between, after a call that does not count."""
    call()
    whole: list[float] = []
    steps: list[list[float]] = []
    marks: list[tuple[Mark, Mark]] = []

    def watch(each: Iterable[object]) -> Iterator[object]:
        for step in each:
            begun = clock.now()
            yield step
            marks.append((begun, clock.now()))

    while len(whole) < RUNS[0] or (sum(whole) < SECONDS / 2 and len(whole) < RUNS[1]):
        begun = clock.now()
        call()
        whole.append(clock.seconds(begun, clock.now()))
        call(watch)
        steps.append([clock.seconds(*pair) for pair in marks])
        marks.clear()
    return whole, steps


@cache
def peak(device: int | None = None) -> float:
    """Operations a second that the fastest of some products of float32 matrices reaches here, or on a GPU."""
    return max(_product_speed(shape, device) for shape in (PRODUCTS if device is None else DEVICE_PRODUCTS))


def _product_speed(shape: tuple[int, int, int], device: int | None) -> float:
    m, k, n = shape
    return 2.0 * m * k * n / _fastest(lambda x, w: x @ w, (_array((m, k), device), _array((k, n), device)))


@cache
def _bandwidths(device: int | None) -> tuple[float, ...]:
    """Bytes a second that a sum of two arrays of each working set moves."""
    found = []
    for size in WORKING_SETS:
        arrays = [_array((size // 12,), device) for _ in range(2)]
        found.append(12 * (size // 12) / _fastest(lambda x, y: x + y, arrays))
    return tuple(found)


def bandwidth(size: int, device: int | None = None) -> float:
    """Bytes a second for a working set of ``size`` bytes: that of the next larger one that was measured."""
    speeds = _bandwidths(device)
    return next((speed for bound, speed in zip(WORKING_SETS, speeds, strict=True) if size <= bound), speeds[-1])


def _array(shape: tuple[int, ...], device: int | None) -> object:
    """A float32 array of ones, or on a GPU an uninitialised one."""
    return np.ones(shape, np.float32) if device is None else maker_of_results((), device).empty(shape, float32)


def _fastest(function: Callable[..., object], arrays: Sequence[object]) -> float:
    """Seconds of the fastest call of a jitted function without its Python."""
    from zenith.api.jit import jit

    jitted = jit(function)
    key, request = jitted._flatten(tuple(arrays), {})
    program = jitted._specializer.obtain(key, request)
    sizes = program.binding.function(request.leaves) or {}
    clock = program.executable.clock(program.results)
    _, steps = _alternately(lambda *watch: program.run(request.leaves, sizes, *watch), clock)
    return min(map(sum, steps))
