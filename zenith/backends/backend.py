"""What a backend is: one record. Each folder beside this file has one, and :mod:`zenith.backends.table` lists them.

What is above asks the record and compares no names, so a backend that runs programs is a folder and a line there. Files
that hold compiled programs, and folders of them, are those of the processors that Zenith compiles for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zenith.backends.engines import Engine
from zenith.backends.target import Target
from zenith.ir.graph import Graph
from zenith.ir.numerics import HOST_TRAFFIC, Numerics

if TYPE_CHECKING:
    from zenith.arrays.adapter import Adapter
    from zenith.backends.plan import Plan


@dataclass(slots=True)
class CompilationReport:
    """What compiling did: passes (:class:`zenith.passes.pipeline.PassReport`), groups, kernels, milliseconds to link.

    ``cached`` says that the program was on disk, in the cache or saved, so that no pass ran.
    """

    passes: Sequence[object] = field(default_factory=list)
    groups: dict[str, int] = field(default_factory=dict)
    kernels: list[tuple[str, float]] = field(default_factory=list)
    link_ms: float = 0.0
    cached: bool = False


class Executable(Protocol):
    """A linked program."""

    stages: dict[str, str]  # texts by stage: "optimized", "plan", "kernels"
    groups: dict[str, int]  # how many fused groups there are by anchor
    report: CompilationReport | None  # set once it is linked

    @property
    def linked(self) -> Sequence[tuple[str, float]]:
        """The kernels' names, with the milliseconds that each took to compile or load."""
        ...

    def run(
        self, arrays: Sequence[object], adapters: Sequence[Adapter], sizes: Mapping[str, int], results: Adapter
    ) -> list[Any]:
        """Results of a call, made by the adapter ``results``; ``adapters`` read ``arrays``, and ``sizes`` are bound."""
        ...


class Entry(Protocol):
    """A program's entry in the cache on disk; ``stored`` is what was found there, None if nothing was."""

    stored: Any

    def store(self, stored: Any) -> None:
        """Write a program there, if the cache takes it."""
        ...


class DeferredLowering(Protocol):
    """What a backend links: a traced graph, and what passes and planner make of it when somebody asks."""

    traced: Graph
    device: int | None
    entry: Entry | None

    @property
    def graph(self) -> Graph:
        """The graph after all passes."""
        ...

    @property
    def plan(self) -> Plan:
        """The plan."""
        ...


MISS = object()  # the answer of a cached call to a call that is unlike it


class AxisSize(NamedTuple):
    """An axis of a result, and the result that has its size."""

    axis: int
    result: int


@dataclass(frozen=True, slots=True)
class CacheableCall:
    """A call that an inline cache may repeat: its arguments, arrays and numbers, and the sizes that it binds.

    ``results`` makes results. Arguments in ``size_numbers`` are integers that are sizes. Results in ``numbers`` are
    returned as scalars, those in ``of_python`` as Python's numbers. Those in ``written``, the last ones, are not
    returned but written to arguments; for those in ``returned`` arguments are returned. What is returned is a tuple if
    ``returns_tuple``, else one result or None; or what ``finish`` makes of the tuple.
    Results in ``varying`` have axes with sizes in other results: ``counts``, which follow the returned ones.
    """

    arguments: Sequence[object]
    results: Adapter
    sizes: Mapping[str, int]
    size_numbers: Sequence[int]
    numbers: Sequence[int]
    of_python: Sequence[int]
    written: Mapping[int, int]
    returned: Mapping[int, int]
    returns_tuple: bool
    finish: Callable[[tuple[object, ...]], object] | None
    varying: Mapping[int, Sequence[AxisSize]]
    counts: range


@dataclass(frozen=True, slots=True)
class CachedCall:
    """A function of positional arguments that returns MISS for those unlike its call's, and all once weights changed.

    ``hits`` says how many it has answered; ``when_stale`` calls a function when it answers none any more.
    """

    function: Callable[..., Any]
    hits: Callable[[], int]
    when_stale: Callable[[Callable[[], None]], None]


MakeCachedCall = Callable[[Any, CacheableCall], CachedCall | None]
Lower = Callable[[Graph, int | None, Numerics], DeferredLowering]  # lowers a graph for a device


def group_counts(optimized: Graph) -> dict[str, int]:
    """How many fused groups a graph has, by anchor."""
    kinds = [n.params["anchor"] for n in optimized.walk() if n.primitive.name == "fused"]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


@dataclass(frozen=True)
class Files:
    """How programs of a backend are saved in files and loaded.

    save: ``(executable, graph, numerics)`` gives a record (:mod:`zenith.backends.codec`) with all that it takes to run.
    reader: ``(path, lower)`` of a file gives what links its programs, ``(graph's text, record) -> executable``.
    """

    save: Callable[[Any, Graph, Numerics], Any]
    reader: Callable[[Path, Lower], Callable[[str, Any], Executable]]


@dataclass(frozen=True)
class Backend:
    """A kind of processor, or a way to run programs on one.

    name, doc: what users write, and what it is.
    link: ``(lowered, donated, written)`` gives the executable. Results may be stored in the memory of ``donated``
        inputs; ``written`` has the results that are new contents of an input, by number.
    target: what passes and planner may know, for a device's number (None: the current one) and what kernels may do.
        None for a backend that runs graphs as they were traced.
    entry: a program's entry in the cache on disk, by its graph, target and reusable inputs; None where it is not to
        be cached.
    files: how programs are saved and loaded; None where they are not.
    current_device: the number of the GPU that calls use, or DeviceError where there is none; None for a backend that
        computes on the host's arrays.
    require: raises DeviceError where its processor cannot be used, without using it.
    traffic: operations that take as long as moving a byte to memory and back, about.
    inline_cache: ``(executable, call)`` gives a function that answers calls like this one at once, or None; None where
        calls are not cached.
    sized_loops: whether sizes may differ from turn to turn of a loop.
    engines: the engines that it brings in addition to Zenith's own (:mod:`zenith.backends.lower.engine_table`).
    """

    name: str
    doc: str
    link: Callable[[DeferredLowering, Sequence[bool], Mapping[int, int]], Any]
    target: Callable[[int | None, Numerics], Target] | None = None
    entry: Callable[[Graph, Target, Sequence[str]], Entry | None] | None = None
    files: Files | None = None
    current_device: Callable[[], int] | None = None
    require: Callable[[], object] = lambda: None
    traffic: int = HOST_TRAFFIC
    inline_cache: MakeCachedCall | None = None
    sized_loops: bool = True
    engines: Callable[[], tuple[Engine, ...]] = tuple

    @property
    def is_gpu(self) -> bool:
        """Whether it computes on arrays of a GPU."""
        return self.current_device is not None
