"""Engines: what can compute a fused group, each answering with a cost or with why not.

The planner asks every engine (see ``lower.groups``) and takes the cheapest; of equal ones that with the higher
priority, then the one registered last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from zenith.backends.kernel import Kernel
from zenith.errors import SourceLine, UnsupportedError
from zenith.ir.graph import Graph
from zenith.ir.target import Target


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an engine does not take a group."""

    why: str

    def __str__(self) -> str:
        return self.why


Accepts = Callable[[Graph, Target], float | Refusal]
Lower = Callable[[Graph, Target, Collection[str]], list[Kernel]]


@dataclass(frozen=True, slots=True)
class Engine:
    """One way to compute groups.

    Attributes
    ----------
    name: unique; it stands in reports.
    kinds: the kinds of groups that it is asked about.
    doc: what it accepts, in one sentence.
    priority: who goes first at equal cost.
    accepts: ``(body, target) -> cost or Refusal``; 1.0 is the time of Zenith's own kernels.
    lower: ``(body, target, fixed) -> kernels``; ``fixed`` names inputs that are the same in every call.
    """

    name: str
    kinds: tuple[str, ...]
    doc: str
    priority: int
    accepts: Accepts
    lower: Lower


@dataclass(frozen=True, slots=True)
class Choice:
    """Who computes a group: its kind, the engine's name, and why the others did not get it."""

    kind: str
    engine: str
    others: tuple[tuple[str, str], ...]


_registered: tuple[Engine, ...] = ()


def registered() -> tuple[Engine, ...]:
    """The engines that were added to Zenith's own."""
    return _registered


def set_registered(engines: tuple[Engine, ...]) -> None:
    """Replace the added engines."""
    global _registered
    _registered = engines


def choose(engines: Sequence[Engine], body: Graph, kind: str, target: Target) -> tuple[Engine, Choice]:
    """The engine for a group; UnsupportedError with every refusal when none takes it."""
    offers: list[tuple[float, int, int, Engine]] = []
    others: list[tuple[str, str]] = []
    for number, engine in enumerate(engines):
        if kind not in engine.kinds:
            continue
        answer = engine.accepts(body, target)
        if isinstance(answer, Refusal):
            others.append((engine.name, answer.why))
        else:
            offers.append((answer, -engine.priority, -number, engine))
    if not offers:
        why = "; ".join(f"{name}: {reason}" for name, reason in others) or f"no engine computes groups of kind {kind}"
        raise UnsupportedError(f"no engine takes a group of kind {kind} ({why})", where=_line(body))
    offers.sort(key=lambda offer: offer[:3])
    (best, priority, _, chosen), *beaten = offers
    for cost, other, _, engine in beaten:
        reason = f"costs {cost:g}, not {best:g}" if cost != best else "registered before" if other == priority else (
            f"priority {-other}, not {-priority}")  # fmt: skip
        others.append((engine.name, reason))
    return chosen, Choice(kind, chosen.name, tuple(others))


def _line(body: Graph) -> SourceLine | None:
    return next((node.line for _, node in body.nodes() if node.line is not None), None)
