"""Engines: implementations of fused groups, each of which answers with a cost or with a reason for refusing.

The planner asks every engine (see ``lower.engine_table``) and takes the cheapest; of equal ones that with the higher
priority, then the one registered last. A user's settings go before all costs (``ZENITH_ENGINES``). An engine gives
kernels, or calls of a library for the sizes where these are worth it; for others the next engine gives kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from zenith.backends.kernel import Kernel
from zenith.backends.routines import RoutineUse
from zenith.backends.target import Target
from zenith.config import config
from zenith.errors import SourceLine, UnsupportedError
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an engine does not take a group."""

    why: str

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True, slots=True)
class RoutineCalls:
    """Routines and kernels, in order, that compute a group in calls whose ``gain`` is at least ``least``.

    The gain is in operations, a formula of the sizes. Reports say ``why`` kernels are among the ``callees``.
    """

    callees: tuple[RoutineUse | Kernel, ...]
    gain: Dim
    least: int
    why: str = ""


T = TypeVar("T")
RowSums = Callable[[Graph, Target, str, ArrayType], RoutineCalls | Refusal]
Refuses = Callable[[Graph, Collection[str]], Refusal | None]
Accepts = Callable[[Graph, Target], float | Refusal]
Lower = Callable[[Graph, Target, Collection[str]], list[Kernel] | RoutineCalls]


def in_two_steps(
    cost: float,
    find: Callable[[Graph, Target], T | Refusal],
    write: Callable[[Graph, Target, Collection[str], T], list[Kernel] | RoutineCalls],
) -> tuple[Accepts, Lower]:
    """``accepts`` at this cost and ``lower`` of an engine, where both begin with ``find``: how a group is computed."""

    def accepts(body: Graph, target: Target) -> float | Refusal:
        found = find(body, target)
        return found if isinstance(found, Refusal) else cost

    def lower(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel] | RoutineCalls:
        found = find(body, target)
        assert not isinstance(found, Refusal), "an engine lowers what it accepted"
        return write(body, target, fixed, found)

    return accepts, lower


def always(body: Graph, target: Target) -> float | Refusal:
    """Accept every group at the cost of Zenith's own kernels."""
    return 1.0


def needs_threads(body: Graph, target: Target) -> float | Refusal:
    """Accept groups where thousands of threads share them."""
    return Refusal(f"{target.name} has no thousands of threads") if target.threads is None else 0.5


@dataclass(frozen=True, slots=True)
class Engine:
    """One way to compute groups.

    Attributes
    ----------
    name: unique; reports show it.
    kinds: the kinds of groups that it is asked about.
    doc: what it accepts, in one sentence.
    priority: the highest is chosen at equal cost.
    accepts: ``(body, target) -> cost or Refusal``; 1.0 is the time of Zenith's own kernels.
    lower: ``(body, target, fixed) -> kernels or Calls``; ``fixed`` names inputs that are the same in every call.
    library: the library that it calls; such an engine answers with :class:`RoutineCalls`.
    row_sums: ``(body, target, input, sums) -> Calls or Refusal``: the same group together with the sums of an
        input's rows, of this type (:mod:`zenith.backends.bias_gradient`).
    refuses: ``(body, fixed) -> Refusal or None``, asked first where it matters which inputs are the same in every call.
    """

    name: str
    kinds: tuple[str, ...]
    doc: str
    priority: int
    accepts: Accepts
    lower: Lower
    library: str = ""
    row_sums: RowSums | None = None
    refuses: Refuses | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which engine computes a group: its kind, the engine's name, and why the others were not chosen.

    ``otherwise`` is the engine for calls whose sizes are not worth a library's, or are refused by it.
    """

    kind: str
    engine: str
    others: tuple[tuple[str, str], ...]
    otherwise: str = ""

    @property
    def engines(self) -> str:
        """Both engines, by their names in reports."""
        return f"{self.engine}, else {self.otherwise}" if self.otherwise else self.engine


_registered: tuple[Engine, ...] = ()


def registered() -> tuple[Engine, ...]:
    """The engines that were added to Zenith's own."""
    return _registered


def set_registered(engines: tuple[Engine, ...]) -> None:
    """Replace the added engines."""
    global _registered
    _registered = engines


def choose(
    engines: Sequence[Engine], body: Graph, kind: str, target: Target, fixed: Collection[str] = ()
) -> tuple[Engine, Choice]:
    """The engine for a group, some inputs of which are ``fixed``; UnsupportedError with every refusal when none is."""
    offers: list[tuple[int, float, int, int, Engine]] = []
    others: list[tuple[str, str]] = []
    for number, engine in enumerate(engines):
        if kind not in engine.kinds:
            continue
        answer: float | Refusal | None = engine.refuses(body, fixed) if engine.refuses else None
        if f"-{engine.name}" in config.engines:
            answer = Refusal("ZENITH_ENGINES leaves it out")
        answer = engine.accepts(body, target) if answer is None else answer
        if isinstance(answer, Refusal):
            others.append((engine.name, answer.why))
        else:
            wish = config.engines.index(engine.name) if engine.name in config.engines else len(config.engines)
            offers.append((wish, answer, -engine.priority, -number, engine))
    if not offers:
        why = "; ".join(f"{name}: {reason}" for name, reason in others) or f"no engine computes groups of kind {kind}"
        raise UnsupportedError(f"no engine takes a group of kind {kind} ({why})", where=_line(body))
    offers.sort(key=lambda offer: offer[:4])
    (wish, best, priority, _, chosen), *beaten = offers
    for wished, cost, other, _, engine in beaten:
        reason = (
            f"ZENITH_ENGINES prefers {chosen.name}" if wished != wish
            else f"costs {cost:g}, not {best:g}" if cost != best
            else f"priority {-other}, not {-priority}" if other != priority
            else "registered before"
        )  # fmt: skip
        others.append((engine.name, reason))
    return chosen, Choice(kind, chosen.name, tuple(others))


def _line(body: Graph) -> SourceLine | None:
    return next((node.line for _, node in body.nodes() if node.line is not None), None)
