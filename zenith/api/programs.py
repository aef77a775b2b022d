"""A function's programs as the front ends hand them over, lowered, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zenith.api.binding import Binding, SourceGuard
from zenith.api.data_dependent import DataDependentSizes
from zenith.api.devices import Where
from zenith.api.forms import Result
from zenith.api.leaves import LeafKind
from zenith.api.writes import Writes
from zenith.arrays import NUMPY, Adapter, maker_of_results
from zenith.compile import LoweredGraph
from zenith.errors import SourceLine
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph
from zenith.ir.text import print_graph
from zenith.trace import TraceResult
from zenith.trace.raises import Raised, number_of_results, raised_in
from zenith.trace.recorder import LoopReport, ResidualReport, WideningReport


@dataclass(frozen=True)
class TracedProgram:
    """A traced function before it is compiled: what a front end hands over.

    ``result`` builds the caller's structure from the flat results; ``conditions`` are guards beyond the trace's own;
    ``writes`` says which arguments it writes.
    """

    traced: TraceResult
    result: Result
    conditions: tuple[SourceGuard, ...] = ()
    writes: Writes | None = None


class ProgramOrigin(Protocol):
    """Where a program came from: tracing here, or a file. What it is valid for, what it returns, and its reports."""

    @property
    def binding(self) -> Binding:
        """The check of what the program is valid for."""
        ...

    @property
    def result(self) -> Result:
        """What it returns."""
        ...

    @property
    def graph(self) -> Graph:
        """The graph as traced."""
        ...

    @property
    def text(self) -> str:
        """The graph as text, with the user's lines."""
        ...

    @property
    def specialized(self) -> Sequence[tuple[Dim, SourceLine | None]]:
        """Sizes that are fixed, and where."""
        ...

    @property
    def residuals(self) -> Sequence[ResidualReport]:
        """What derivatives save of forward passes, and what they recompute."""
        ...

    @property
    def loops(self) -> Sequence[LoopReport]:
        """What the loops of converted functions became, and why."""
        ...

    @property
    def widenings(self) -> Sequence[WideningReport]:
        """Where scalars of float64 made narrower arrays float64."""
        ...

    @property
    def plan(self) -> Any:
        """The plan; None where there is none."""
        ...


@dataclass(frozen=True)
class LazyLowering:
    """A program that is traced, optimised and planned, with the check of what it is valid for; no machine code yet."""

    program: TracedProgram
    lowered: LoweredGraph
    binding: Binding
    seconds: tuple[float, float]  # tracing, passes and plan

    @property
    def result(self) -> Result:
        """What the program returns."""
        return self.program.result

    @property
    def graph(self) -> Graph:
        """The graph as traced."""
        return self.program.traced.graph

    @property
    def text(self) -> str:
        """The graph as text, with the user's lines."""
        return print_graph(self.graph, with_lines=True)

    @property
    def specialized(self) -> Sequence[tuple[Dim, SourceLine | None]]:
        """Sizes that tracing fixed, and where."""
        return self.program.traced.specialized

    @property
    def residuals(self) -> Sequence[ResidualReport]:
        """What derivatives save of forward passes, and what they recompute."""
        return self.program.traced.residuals

    @property
    def loops(self) -> Sequence[LoopReport]:
        """What the loops of converted functions became, and why."""
        return self.program.traced.loops

    @property
    def widenings(self) -> Sequence[WideningReport]:
        """Where scalars of float64 made narrower arrays float64."""
        return self.program.traced.widenings

    @property
    def plan(self) -> Any:
        """The plan; None for the ``reference`` backend."""
        return self.lowered.plan


@dataclass(eq=False)
class Specialization:
    """One compiled program, with the kinds of leaves that it takes, what it is valid for and how it came to be."""

    origin: ProgramOrigin
    executable: Any
    kinds: tuple[LeafKind, ...]
    seconds: tuple[float, float]  # tracing, compiling
    where: Where
    used: int = 0
    writes: Writes | None = None
    computed: DataDependentSizes | None = None  # of results
    raised: tuple[Raised, ...] = ()  # the exceptions that values decide

    def __post_init__(self) -> None:
        self.binding, result = self.origin.binding, self.origin.result
        self.bind = self.binding.function
        adapters = [kind.adapter for kind in self.kinds]
        self.results = results = maker_of_results(adapters, self.device)
        borrowed = {number: adapter.arrive for number, adapter in enumerate(adapters) if _is_borrowed(adapter)}
        self.adapters = tuple(NUMPY if number in borrowed else a for number, a in enumerate(adapters))
        self.read: dict[int, Callable[..., object]] = {
            n: k.read for n, k in enumerate(self.kinds) if k.read is not None
        } | borrowed
        self.finish = result.build_with_numbers() if results is NUMPY else result.build
        if _is_borrowed(results):
            self.finish = lambda made: result.build([results.depart(array) for array in made])

    @property
    def device(self) -> int | None:
        """The number of the GPU that it runs on."""
        return self.where.device

    def run(self, leaves: Sequence[object], sizes: dict[str, int], *watch: object) -> Any:
        """Call the executable on the leaves of a call that binds; ``watch`` sees its steps one by one."""
        if self.writes is not None or self.computed is not None or self.raised:
            return self._run_checked(leaves, sizes, *watch)
        if self.read:
            leaves = self._readable(leaves)
        return self.finish(self.executable.run(leaves, self.adapters, sizes, self.results, *watch))

    def flat(self, leaves: Sequence[object], sizes: dict[str, int]) -> list[object]:
        """The results of a call one by one, not in the caller's structure."""
        made: list[object] = self.executable.run(self._readable(leaves), self.adapters, sizes, self.results)
        return made

    def _run_checked(self, leaves: Sequence[object], sizes: dict[str, int], *watch: object) -> object:
        """As :meth:`run`, of a program that writes into its arguments, computes sizes of its results, or may raise."""
        if self.writes is not None:
            self.writes.check(leaves)
        made = self.executable.run(self._readable(leaves), self.adapters, sizes, self.results, *watch)
        error = None
        if self.raised:
            count = number_of_results(self.raised)
            error, made = raised_in(self.raised, made[-count:], self.results.numpy), made[:-count]
        if self.computed is not None:
            made = self.computed.trimmed(made, sizes, self.results, leaves)
        if self.writes is not None:
            made = self.writes.stored(made, leaves, self.adapters)
        if error is not None:
            raise error
        return self.finish(made)

    def _readable(self, leaves: Sequence[object]) -> list[object]:
        """The leaves as the executable reads them."""
        found = list(leaves)
        for position, read in self.read.items():
            found[position] = read(found[position])
        return found


def _is_borrowed(adapter: Adapter) -> bool:
    """Whether arrays are borrowed from the host's memory: programs see them as NumPy's."""
    return adapter.on_host and adapter.imports
