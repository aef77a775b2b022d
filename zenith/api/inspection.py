"""What a jitted function tells about itself: ``cache_info``, ``show`` and ``explain``."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zenith.api.specialize import Miss, Specialization, Specializer
from zenith.errors import ZenithError
from zenith.ir.graph import Graph
from zenith.ir.text import print_graph

if TYPE_CHECKING:
    from rich.console import RenderableType

STAGES = ("graph", "optimized", "plan", "kernels")


@dataclass(frozen=True)
class CacheInfo:
    """Counters of one function.

    Attributes
    ----------
    hits: calls that ran a program compiled before.
    misses: calls that compiled.
    size: programs that are kept.
    evicted: programs that were dropped because there were too many.
    reasons: the latest misses with their reasons, oldest first.
    """

    hits: int
    misses: int
    size: int
    evicted: int
    reasons: tuple[Miss, ...]

    def __str__(self) -> str:
        lines = [f"hits={self.hits} misses={self.misses} size={self.size} evicted={self.evicted}"]
        return "\n".join(lines + [f"  {miss}" for miss in self.reasons])


class Inspectable:
    """What everything compiled can tell: its specializer does the work, its name stands in messages."""

    __name__: str
    _specializer: Specializer

    @property
    def graph(self) -> Graph:
        """The graph of the latest compilation; ZenithError before the first call."""
        return self._latest().traced.graph

    def cache_info(self) -> CacheInfo:
        """Hits, misses, size, and why each miss."""
        return cache_info(self._specializer)

    def cache_clear(self) -> None:
        """Forget all compiled programs, and with them the snapshots of captured arrays."""
        self._specializer.clear("cache_clear() was called")

    def show(self, stage: str = "graph") -> str:
        """Print and return a stage of the latest compilation: ``graph``, ``optimized``, ``plan`` or ``kernels``."""
        specialization = self._latest()
        if stage not in STAGES:
            raise ZenithError(f"there is no stage {stage!r}", fix="choose one of " + ", ".join(map(repr, STAGES)))
        if stage == "graph":
            text = print_graph(specialization.traced.graph, with_lines=True)
        else:
            text = specialization.executable.stages[stage]
        print(text)
        return text

    def explain(self) -> Explanation:
        """What was compiled and why, as an object that rich prints as tables and ``str`` as text."""
        return Explanation(self.__name__, self._specializer)

    def _latest(self) -> Specialization:
        if self._specializer.latest is None:
            raise ZenithError(f"{self.__name__} has not been compiled yet", fix="call it once first")
        return self._specializer.latest


def cache_info(specializer: Specializer) -> CacheInfo:
    """The counters of a specializer at this moment."""
    size = len(specializer.specializations())
    return CacheInfo(specializer.hits, specializer.compilations, size, specializer.evicted, tuple(specializer.misses))


class Explanation:
    """The compilations of one function. ``str`` gives text; in a notebook or through rich it shows as tables."""

    def __init__(self, name: str, specializer: Specializer) -> None:
        self.name = name
        self.info = cache_info(specializer)
        self.specializations = specializer.specializations()

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=120, color_system=None).print(self)
        return text.getvalue()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), record=True, width=120)
        console.print(self)
        return console.export_html(inline_styles=True)

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        info = self.info
        counts = f"{self.name}: {info.misses} compilations, {info.hits} calls without one, {info.size} programs kept"
        parts: list[RenderableType] = [Text(counts, style="bold")]
        parts.append(_table("compilations", ("call", "why"), [(", ".join(m.call), m.reason) for m in info.reasons]))
        for number, specialization in enumerate(self.specializations):
            parts += _describe(number, specialization)
        return Group(*parts)


def _describe(number: int, program: Specialization) -> Iterable[RenderableType]:
    from rich.text import Text

    trace_time, compile_time = (1e3 * s for s in program.seconds)
    nodes = len(program.traced.graph)
    yield Text(f"\nprogram {number}: {program.traced.graph.name}, {nodes} nodes, traced in {trace_time:.1f} ms, "
               f"compiled in {compile_time:.1f} ms", style="bold")  # fmt: skip
    yield Text("binding, run before every call:")
    yield Text(program.binding.source)
    if program.traced.specialized:
        rows = [(str(size), _place(line), _alternative(line)) for size, line in program.traced.specialized]
        yield _table("sizes fixed to this program's", ("size", "where", "instead"), rows)
    yield from _report_tables(program.executable.report)


def _report_tables(report: Any) -> Iterable[RenderableType]:
    """The tables of a compilation's report; the reference backend's is empty."""
    if report.passes:
        rows = [(p.name, f"{p.milliseconds:.2f}", f"{p.before} -> {p.after}") for p in report.passes]
        yield _table("passes", ("pass", "ms", "nodes"), rows)
    if report.groups:
        yield _table("groups", ("anchor", "count"), list(report.groups.items()))
    if report.kernels:
        linked = [(name, f"{milliseconds:.1f}") for name, milliseconds in report.kernels]
        yield _table("kernels", ("kernel", "ms to compile"), linked)


def _place(line: Any) -> str:
    return f"{line}: {line.code}" if line is not None else ""


_ALTERNATIVES = (
    ("range(", "a vectorised form, or pass the count as a static argument"),
    ("zeros(", "zenith.numpy.zeros, or numpy.zeros(..., like=x)"),
    ("ones(", "zenith.numpy.ones, or numpy.ones(..., like=x)"),
    ("full(", "zenith.numpy.full, or numpy.full(..., like=x)"),
    ("empty(", "zenith.numpy.empty, or numpy.empty(..., like=x)"),
    ("arange(", "zenith.numpy.arange, or numpy.arange(..., like=x)"),
    ("math.", "the function of the same name in numpy: it keeps the size a symbol"),
    ("int(", "the size itself: it computes like an int"),
    ("float(", "the size itself: beside arrays it counts as a number"),
)


def _alternative(line: Any) -> str:
    """What to write so that a size stays a symbol, judged by the line that fixed it."""
    code = "" if line is None else line.code
    fitting = (advice for word, advice in _ALTERNATIVES if word in code)
    return next(fitting, "functions of zenith.numpy, which take symbolic sizes")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    return table
