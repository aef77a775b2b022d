"""The reports of a jitted function: ``cache_info``, ``show`` and ``explain``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zenith.api.precisions import weight_bytes
from zenith.api.programs import LazyLowering, Specialization
from zenith.api.recompilation import Miss, alternative, narrower
from zenith.api.specialize import Specializer
from zenith.api.tables import Shown, table
from zenith.errors import SourceLine, ZenithError
from zenith.ir.graph import Graph
from zenith.ir.numerics import PRECISIONS
from zenith.ir.text import parse
from zenith.passes.separation import why_not_fused
from zenith.passes.unrolled import unrolled
from zenith.trace.recorder import LoopReport, ResidualReport, WideningReport

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zenith.backends.plan import Plan

SCAN = "zenith.scan or fori_loop; what differs by iteration, such as weights, stacked along a first axis"
MAP = "zenith.vmap or zenith.map over what differs by iteration, stacked along a first axis"
_BECAME = {"scan": "a loop of known length", "while_loop": "a loop with a condition", "unrolled": "unrolled"}
STAGES = ("graph", "optimized", "plan", "kernels")
PICTURES = ("graph", "optimized")  # stages that are graphs


@dataclass(frozen=True)
class CacheInfo:
    """Counters of one function.

    Attributes
    ----------
    hits: calls that ran a program compiled before.
    inline: of these, calls like the one before, which native code has answered without looking for their program.
    misses: calls that compiled.
    size: programs that are cached.
    evicted: programs that were dropped because there were too many.
    repacked: changed weights that programs adopted without recompilation.
    reasons: the latest misses with their reasons, oldest first.
    """

    hits: int
    misses: int
    size: int
    evicted: int
    repacked: int
    inline: int
    reasons: tuple[Miss, ...]

    def __str__(self) -> str:
        counts = f"hits={self.hits} misses={self.misses} size={self.size} evicted={self.evicted}"
        rare = {"repacked": self.repacked, "inline": self.inline}
        lines = [counts + "".join(f" {name}={count}" for name, count in rare.items() if count)]
        return "\n".join(lines + [f"  {miss}" for miss in self.reasons])


class Inspectable:
    """The reports of every function with programs: its specializer holds them, its name appears in messages."""

    __name__: str
    _specializer: Specializer

    @property
    def graph(self) -> Graph:
        """The graph of the latest compilation; ZenithError before the first call."""
        return self._latest().origin.graph

    def cache_info(self) -> CacheInfo:
        """Hits, misses, size, and why each miss."""
        return cache_info(self._specializers())

    def show(self, stage: str = "graph", open: bool = False) -> str:
        """Print and return a stage of the latest compilation: ``graph``, ``optimized``, ``plan`` or ``kernels``.

        With ``open`` the browser shows ``graph`` or ``optimized`` as a picture, in which modules and equal layers open
        at a click. It is one HTML file, which loads nothing else; its path is printed and returned.
        """
        specialization = self._latest()
        if stage not in STAGES:
            raise ZenithError(f"there is no stage {stage!r}", fix="choose one of " + ", ".join(map(repr, STAGES)))
        if open:
            text = _opened(specialization, stage, self.__name__)
        else:
            text = specialization.origin.text if stage == "graph" else specialization.executable.stages[stage]
        print(text)
        return text

    def explain(self) -> Explanation:
        """What was compiled and why, as an object that rich prints as tables and ``str`` as text."""
        return Explanation(self.__name__, self._specializers())

    def _specializers(self) -> Sequence[Specializer]:
        """All that have programs of this function; ``_specializer`` has those that calls find now."""
        return (self._specializer,)

    def _latest(self) -> Specialization:
        if self._specializer.latest is None:
            raise ZenithError(f"{self.__name__} has not been compiled yet", fix="call it once first")
        return self._specializer.latest


def _opened(program: Specialization, stage: str, name: str) -> str:
    """The path of a page with a stage's picture, which the browser opens where there is one."""
    import tempfile  # for those who open pictures alone
    import webbrowser

    from zenith.ir.pictures.page import to_page

    if stage not in PICTURES:
        raise ZenithError(f"{stage!r} has no picture", fix="open one of " + ", ".join(map(repr, PICTURES)))
    graph = program.origin.graph
    if stage == "optimized":
        graph = _optimized(program)
    with tempfile.NamedTemporaryFile("w", prefix="zenith-", suffix=".html", encoding="utf-8", delete=False) as file:
        file.write(to_page(graph, f"{name}: {stage}"))
    webbrowser.open(Path(file.name).as_uri())
    return file.name


def _optimized(program: Specialization) -> Graph:
    """The graph after all passes; that of a loaded program has no source lines."""
    if isinstance(program.origin, LazyLowering):
        return program.origin.lowered.graph
    return parse(program.executable.stages["optimized"])


def cache_info(specializers: Sequence[Specializer]) -> CacheInfo:
    """The counters of a function's specializers at this moment, summed."""
    counts = [
        (s.hits, s.compilations, len(s.specializations()), s.evicted, s.repacked, s.inline_hits) for s in specializers
    ]
    hits, misses, size, evicted, repacked, inline = map(sum, zip(*counts, strict=True))
    reasons = tuple(miss for s in specializers for miss in s.misses)
    return CacheInfo(hits, misses, size, evicted, repacked, inline, reasons)


class Explanation(Shown):
    """The compilations of one function. ``str`` gives text; in a notebook or through rich it shows as tables."""

    def __init__(self, name: str, specializers: Sequence[Specializer]) -> None:
        self.name = name
        self.info = cache_info(specializers)
        self.specializations = [program for s in specializers for program in s.specializations()]
        self.numerics = specializers[-1].numerics

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        info = self.info
        counts = f"{self.name}: {info.misses} compilations, {info.hits} calls without one, {info.size} programs cached"
        sections: list[RenderableType] = [Text(counts, style="bold")]
        if self.numerics.tf32:
            sections.append(Text("on a GPU operands of float32 products may be rounded to TF32"))
        if not self.numerics.repeatable:
            sections.append(Text("on a GPU what is scattered may be added in any order"))
        if self.numerics.error_budget:
            budget = self.numerics.error_budget
            sections.append(Text(f"on a CPU convolutions may have a relative error of {budget:g}"))
        if (to := PRECISIONS[self.numerics.precision]) is not None:
            what = (
                f"operands of float32 products and convolutions are rounded to {to.numpy_name}, and summed in float32"
            )
            sections.append(Text(f"{what}; what is beyond {to.largest:.6g} becomes infinite"))
        misses = [(", ".join(m.call), m.reason, m.fix) for m in info.reasons]
        sections.append(table("compilations", ("call", "why", "to avoid it"), misses))
        for number, specialization in enumerate(self.specializations):
            sections += _describe(number, specialization)
        return Group(*sections)


def _describe(number: int, program: Specialization) -> Iterable[RenderableType]:
    from rich.text import Text

    trace_time, compile_time = (1e3 * s for s in program.seconds)
    origin = program.origin
    yield Text(f"\nprogram {number}: {origin.graph.name}, {len(origin.graph)} nodes, traced in {trace_time:.1f} ms, "
               f"compiled in {compile_time:.1f} ms", style="bold")  # fmt: skip
    yield Text("binding, run before every call:")
    yield Text(program.binding.source)
    if origin.specialized:
        rows = [(str(size), _location(line), alternative(line)) for size, line in origin.specialized]
        yield table("sizes fixed to this program's", ("size", "where", "instead"), rows)
    yield from _donations(program.executable)
    yield from _graphs(program.executable)
    yield from _derivatives(origin.residuals)
    yield from _loops(origin.loops)
    yield from _widenings(origin.widenings)
    yield from _report_tables(program.executable.report)
    if origin.plan is not None:
        yield from _weights(program.executable.stages["optimized"])
        yield from _unrolled_loops(origin.graph)
        yield from _engines(origin.plan)
        yield from _refusals(program.executable)
        yield from _separations(origin.graph)


def _weights(optimized: str) -> Iterable[RenderableType]:
    """The bytes of weights by precision."""
    found = weight_bytes(optimized)
    if found:
        yield table("weights", ("precision", "bytes"), [(name, f"{count:,}") for name, count in found.items()])


def _donations(executable: object) -> Iterable[RenderableType]:
    from rich.text import Text

    donation = getattr(executable, "donation", None)
    if donation is not None:
        yield Text(f"{len(donation.given)} arguments are donated: results of their sizes may take their memory")


def _graphs(executable: object) -> Iterable[RenderableType]:
    """Which sets of sizes a GPU's program replays as CUDA graphs, and why not others; counts are of all calls."""
    rows = executable.graphs() if hasattr(executable, "graphs") else ()
    if rows:
        columns = ("sizes", "calls replayed", "launches in one", "patched a call", "copies", "why not")
        yield table("CUDA graphs", columns, rows)


def _derivatives(derivatives: Iterable[ResidualReport]) -> Iterable[RenderableType]:
    """The values of forward passes that derivatives save, and those that they recompute instead."""
    saved = Counter((d.function, "saved", what, _location(line)) for d in derivatives for what, line in d.values)
    recomputed = Counter(
        (d.function, "recomputed", what, _location(line)) for d in derivatives for what, line in d.recomputed
    )
    if saved or recomputed:
        rows = [(*words, n) for words, n in (*saved.items(), *recomputed.items())]
        yield table("for the backward pass", ("function", "how", "what", "line", "times"), rows)


def _loops(loops: Sequence[LoopReport]) -> Iterable[RenderableType]:
    """What each loop of a converted function has become, and why, in the order of the lines."""
    found = Counter((_location(loop.line), _BECAME[loop.kind], loop.why) for loop in loops)
    if found:
        lines = {_location(loop.line): loop.line.line if loop.line is not None else 0 for loop in loops}
        rows = sorted(((*words, n) for words, n in found.items()), key=lambda row: lines[row[0]])
        yield table("loops", ("line", "became", "why", "times"), rows)


def _widenings(widenings: Iterable[WideningReport]) -> Iterable[RenderableType]:
    """Where scalars of float64 made narrower arrays float64, and what to write instead."""
    found = Counter((w.function, w.narrow, _location(w.line), narrower(w)) for w in widenings)
    if found:
        columns = ("function", "of", "line", "to keep that", "times")
        yield table("in float64 through a scalar", columns, [(*words, n) for words, n in found.items()])


def _unrolled_loops(graph: Graph) -> Iterable[RenderableType]:
    """Bodies that Python loops wrote into the program many times, and what to write instead."""
    rows = [
        ("; ".join(map(_location, loop.lines)), loop.iterations, loop.operations, SCAN if loop.carries else MAP)
        for loop in unrolled(graph)
    ]
    if rows:
        yield table("unrolled loops", ("lines", "iterations", "operations an iteration", "to compile them once"), rows)


def _engines(plan: Plan) -> Iterable[RenderableType]:
    """Which engine computes each group, and why not another; equal groups once."""
    found: dict[tuple[str, ...], list[str]] = {}
    for group in plan.groups:
        others = "; ".join(f"{name}: {why}" for name, why in group.choice.others)
        lines = ", ".join(map(str, group.lines))
        found.setdefault((", ".join(group.kernels), group.choice.kind, group.choice.engines, others), []).append(lines)
    rows = [(*words, "; ".join(dict.fromkeys(lines))) for words, lines in found.items()]
    if rows:
        yield table("engines", ("kernels", "kind", "engine", "why no other", "lines"), rows)


def _refusals(executable: object) -> Iterable[RenderableType]:
    """Which routines of libraries did not take the sizes of some calls, so that kernels, or NumPy on the host, ran."""
    refused = getattr(executable, "refused", ())
    if refused:
        yield table("refused by libraries", ("routine", "why"), list(refused))


def _separations(graph: Graph) -> Iterable[RenderableType]:
    """Which operations fusion kept apart, and why, each pair of lines once; found when asked for."""
    pairs = Counter(
        (f"{s.first} {_short(s.first_line)}", f"{s.then} {_short(s.then_line)}", s.reason) for s in why_not_fused(graph)
    )
    if pairs:
        yield table("not fused", ("first", "then", "why", "times"), [(*words, n) for words, n in pairs.items()])


def _short(line: SourceLine | None) -> str:
    return "" if line is None else f"({line})"


def _report_tables(report: Any) -> Iterable[RenderableType]:
    """The tables of a compilation's report; the reference backend's is empty."""
    from rich.text import Text

    if report.cached:
        yield Text("from disk: passes, plan and texts are those of an earlier process")
    if report.passes:
        rows = [(p.name, f"{p.milliseconds:.2f}", f"{p.before} -> {p.after}") for p in report.passes]
        yield table("passes", ("pass", "ms", "nodes"), rows)
    if report.groups:
        yield table("groups", ("anchor", "count"), list(report.groups.items()))
    if report.kernels:
        linked = [(name, f"{milliseconds:.1f}") for name, milliseconds in report.kernels]
        yield table("kernels", ("kernel", "ms to compile or load"), linked)


def _location(line: SourceLine | None) -> str:
    return f"{line}: {line.code}" if line is not None else ""
