"""Steps of a plan and the allocations that they work on.

Steps form a tree: launches and calls of routines are its leaves; a loop, a branch and a choice by sizes contain steps
of their own. Records are generic in the steps and the sizes: those of a plan have sizes as formulas, those of a
program for the CPU (:mod:`zenith.backends.cpu.program`) have launches of their own and sizes as texts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

from zenith.backends.kernel import Kernel
from zenith.backends.memory_effects import is_copy
from zenith.backends.routines import PYTHON, Routine, python_routine
from zenith.backends.work import NO_WORK, Work, bytes_of
from zenith.errors import SourceLine
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Node
from zenith.ir.types import ArrayType, DType, NDArray

FIXED = frozenset({"constant", "weight", "prepared"})  # kinds of allocations that are the same in every call
COUNTERS = "counters"  # the kind and the name of the allocation of all counters: each launch leaves zeros to the next
ALIGN = 64  # bytes: a vector of the widest instruction set, a cache line

S = TypeVar("S")  # a step
L = TypeVar("L")  # a launch
N = TypeVar("N")  # a size
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Allocation:
    """The memory of a value, by kind and name.

    ``kind`` is input, output, constant, weight, prepared, slot, counters, or moving: one whose address a loop changes
    in each iteration.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """Run a kernel on ``allocations``, its buffers' in order; ``lines`` are the user's source lines."""

    kernel: Kernel
    allocations: tuple[Allocation, ...]
    lines: tuple[SourceLine, ...]
    work: Work = NO_WORK

    @property
    def copies(self) -> bool:
        """Whether it only copies each element to the same position, so that in place it changes nothing."""
        return is_copy(self.kernel)

    def __str__(self) -> str:
        moves = ", ".join(f"{b.name}={p}" for b, p in zip(self.kernel.buffers, self.allocations, strict=True))
        lines = ", ".join(dict.fromkeys(str(line) for line in self.lines))
        return f"launch {self.kernel.name}({moves}) over {self.kernel.tasks}" + (f"  # {lines}" if lines else "")


@dataclass(frozen=True, slots=True)
class CallStep:
    """Call a routine on the arrays in ``allocations``, the last ``results`` of which it fills.

    ``types`` are those of the allocations, but for a workspace that may be the last one.
    """

    routine: Routine
    allocations: tuple[Allocation, ...]
    types: tuple[ArrayType, ...]
    results: int
    lines: tuple[SourceLine, ...] = ()
    work: Work = NO_WORK

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes of all arrays, one after the other."""
        return tuple(str(size) for type in self.types for size in type.shape)

    @classmethod
    def of(
        cls, node: Node, allocations: Sequence[Allocation], types: Sequence[ArrayType], libraries: Collection[str] = ()
    ) -> CallStep:
        """The call of what no kernel computes; ``types`` are those of the arguments and the results."""
        results, work = sum(isinstance(t, ArrayType) for t in node.types), Work(dim(0), bytes_of(types), dim(0))
        return cls(python_routine(node, libraries), tuple(allocations), tuple(types), results, node.lines, work)

    def __call__(self, arrays: Sequence[Any]) -> None:
        """Run a routine of the host."""
        assert self.routine.run is not None
        self.routine.run(arrays)

    def __str__(self) -> str:
        lines = ", ".join(dict.fromkeys(map(str, self.lines)))
        return f"call {self.routine}({', '.join(map(str, self.allocations))})" + (f"  # {lines}" if lines else "")


@dataclass(frozen=True, slots=True)
class Carry(Generic[N]):
    """A value that one iteration of a loop hands to the next: read at ``current``, written at ``following``.

    The first iteration reads ``start``. Iterations write ``result`` and ``other`` alternately; in the end
    ``result`` has the last value. ``length`` is in bytes.
    """

    current: Allocation
    following: Allocation
    start: Allocation
    result: Allocation
    other: Allocation
    dtype: DType
    length: N

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The allocations whose addresses the loop does not change."""
        return self.start, self.result, self.other


@dataclass(frozen=True, slots=True)
class Slice(Generic[N]):
    """The slice ``part`` of ``whole`` that one iteration of a loop reads or writes; ``length`` is in bytes."""

    element: Allocation
    whole: Allocation
    dtype: DType
    length: N


@dataclass(frozen=True, slots=True)
class LoopStep(Generic[S, N]):
    """Run ``steps`` ``count`` times, or as long as ``condition`` leaves true at ``flag`` (then ``count`` is None).

    In ``steps`` the size ``index``, if it has a name, is the number of the iteration, or the number at ``source``.
    """

    count: N | None
    reverse: bool
    carries: tuple[Carry[N], ...]
    slices: tuple[Slice[N], ...]
    condition: tuple[S, ...]
    flag: Allocation | None
    steps: tuple[S, ...]
    lines: tuple[SourceLine, ...]
    index: str = ""
    source: Allocation | None = None

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """What the loop itself reads and writes, without the allocations whose addresses it changes."""
        invariant = [p for c in self.carries for p in c.allocations] + [s.whole for s in self.slices]
        return (*invariant, *(p for p in (self.flag, self.source) if p is not None))

    def __str__(self) -> str:
        carries = [f"{c.current} -> {c.following} from {c.start} to {c.result} by {c.other}" for c in self.carries]
        slices = [f"{s.element} of {s.whole}" for s in self.slices]
        times = f"while {self.flag}" if self.count is None else f"{self.count} times"
        numbered = f", as {self.index}" if self.index else ""
        numbered += "" if self.source is None else f" = {self.source}"
        head = f"loop {times}{', backwards' if self.reverse else ''}{numbered}: {', '.join([*carries, *slices])}"
        return "\n".join([head, *_indented("test", self.condition), *_indented("step", self.steps)])


@dataclass(frozen=True, slots=True)
class BranchStep(Generic[S]):
    """Run the steps of one of the branches: that whose number is the element at ``index``, clamped."""

    index: Allocation
    branches: tuple[tuple[S, ...], ...]
    lines: tuple[SourceLine, ...]

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """What the branch itself reads."""
        return (self.index,)

    def __str__(self) -> str:
        cases = [line for i, steps in enumerate(self.branches) for line in _indented(f"case {i}", steps)]
        return "\n".join([f"branch at {self.index}", *cases])


@dataclass(frozen=True, slots=True)
class Either(Generic[S, N]):
    """Run ``steps`` in calls whose ``size`` is at least ``least`` and whose sizes their routines take.

    In other calls ``otherwise`` runs. The sizes of a call decide, before anything is run.
    """

    size: N
    least: int
    steps: tuple[S, ...]
    otherwise: tuple[S, ...]
    lines: tuple[SourceLine, ...]

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """It reads and writes nothing itself."""
        return ()

    def __str__(self) -> str:
        head = f"where {self.size} >= {self.least}" if self.least else "where it can be called"
        sides = [*_indented("call", self.steps), *_indented("else", self.otherwise)]
        return "\n".join([head, *sides])


Step = LaunchStep | CallStep | LoopStep["Step", Dim] | BranchStep["Step"] | Either["Step", Dim]


def _indented(word: str, steps: Iterable[Any]) -> Iterator[str]:
    for step in steps:
        first, *rest = str(step).splitlines()
        yield f"     {word}: {first}"
        yield from (f"     {line}" for line in rest)


def inner_steps(step: Any) -> tuple[tuple[Any, ...], ...]:
    """The sequences of steps that a step contains."""
    match step:
        case LoopStep(condition=condition, steps=steps):
            return condition, steps
        case BranchStep(branches=branches):
            return branches
        case Either(steps=steps, otherwise=otherwise):
            return steps, otherwise
    return ()


def walk(steps: Iterable[Any]) -> Iterator[Any]:
    """All steps of a tree, in preorder."""
    for step in steps:
        yield step
        for row in inner_steps(step):
            yield from walk(row)


def rewritten(value: Any, rules: Mapping[type, Callable[[Any], Any]]) -> Any:
    """Records, steps or slots for example, whose values of some types are replaced, at any depth.

    >>> rewritten((Slot("a", 0, 64), None), {int: str})
    (Slot(name='a', offset='0', length='64'), None)
    """
    rule = rules.get(type(value))
    if rule is not None:
        return rule(value)
    if isinstance(value, tuple):
        return tuple(rewritten(item, rules) for item in value)
    if isinstance(value, (LoopStep, Carry, Slice, BranchStep, Either, Slot, PreparedStep)):
        return descended(value, rules)
    return value


def descended(record: T, rules: Mapping[type, Callable[[Any], Any]]) -> T:
    """A record with what is in it :func:`rewritten`, whatever the rule for its own type is."""
    return type(record)(*(rewritten(getattr(record, field.name), rules) for field in fields(record)))  # type: ignore[arg-type]


def symbols_of_step(step: Step) -> set[str]:
    """The sizes that a step itself needs, without those of the steps that it contains."""
    match step:
        case LaunchStep(kernel=kernel):
            return set(kernel.sizes)
        case CallStep(types=types):
            return {s for t in types for size in t.shape for s in size.symbols()}
        case Either(size=size):
            return size.symbols()
        case LoopStep(count=count, carries=carries, slices=slices):
            sizes = [c.length for c in carries] + [s.length for s in slices] + ([] if count is None else [count])
            return {s for size in sizes for s in size.symbols()}
        case BranchStep():
            return set()


def waits(steps: Iterable[Any]) -> tuple[str, SourceLine | None] | None:
    """Why a GPU cannot run steps without the host, and the line of the program; None when it can.

    A CUDA graph cannot contain what runs on the host, or reads a number back to decide by it.
    """
    for step in walk(steps):
        match step:
            case CallStep(routine=routine, lines=lines) if routine.from_python:
                kind = "Python function" if routine.library == PYTHON else "routine"
                return f"it calls the {kind} {routine}", next(iter(lines), None)
            case BranchStep():
                return "a branch reads from the device which way to go", next(iter(step.lines), None)
            case LoopStep(count=None):
                return "a loop reads from the device whether to go on", next(iter(step.lines), None)
    return None


@dataclass(frozen=True, slots=True)
class Slot(Generic[N]):
    """A range of the arena, by name, offset and length in bytes."""

    name: str
    offset: N
    length: N


@dataclass(frozen=True, slots=True)
class Weight:
    """An array that the program knows by name."""

    name: str
    type: ArrayType


@dataclass(frozen=True, slots=True)
class PreparedStep(Generic[L]):
    """A launch on constants and weights, run when the program is linked and when one of those weights changes.

    ``results`` (name, type, elements) are what it writes; a result is written by one launch only.
    """

    results: tuple[tuple[str, DType, int], ...]
    launch: L


@dataclass(frozen=True, slots=True)
class PlanOf(Generic[L, S, N]):
    """Steps and the memory they need. ``inputs`` and ``outputs`` name allocations, in the graph's order.

    ``constants`` and ``weights`` are keyed by their allocations' names; the weights' contents are not in the plan.
    ``arena`` is in bytes; ``symbols`` are the sizes that all others are computed from.
    """

    name: str
    symbols: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, ArrayType], ...]
    constants: Mapping[str, NDArray]
    weights: Mapping[str, Weight]
    slots: tuple[Slot[N], ...]
    arena: N
    prepared: tuple[PreparedStep[L], ...]
    steps: tuple[S, ...]
