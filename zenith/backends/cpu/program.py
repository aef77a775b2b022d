"""The program: a plan for the CPU as plain data, all that linking and running need.

Kernels are texts, sizes are expressions as text, and memory is allocations by name. So a program can be written to disk
and read back by another process, which then runs it without the graph, the passes or the planner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zenith.backends import steps as planned
from zenith.backends.cpu.emit import CpuPrinter
from zenith.backends.cpu.texts import kernel_text
from zenith.backends.failures import Failures, failures
from zenith.backends.kernel import Kernel
from zenith.backends.steps import FIXED, Allocation, Branch, Call, Either, Loop, Weight, walk
from zenith.errors import SourceLine
from zenith.ir.types import ArrayType, DType

if TYPE_CHECKING:
    from zenith.backends.plan import Plan  # whose import is of no use to a program that was compiled before

CHUNK_COST = 400_000  # simple operations in a chunk of a launch: about ten microseconds of vectorised work
CHUNK_STEP = 512  # chunks of elements are whole strips (see ``emit``)


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel: what users call it, and the text that its machine code follows from (:mod:`texts`)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel: ``tasks`` tasks in chunks of ``grain``, on ``allocations``, with ``sizes`` as arguments.

    Tasks, grain and sizes are expressions of the program's sizes. ``failures`` are what the status word may say,
    ``copies`` says that elements are written to the positions that they are read from: in place nothing changes.
    """

    kernel: Code
    allocations: tuple[Allocation, ...]
    tasks: str
    grain: str
    sizes: tuple[str, ...]
    failures: Failures
    copies: bool
    lines: tuple[SourceLine, ...]

    def __str__(self) -> str:
        words = [*map(str, self.allocations), *self.sizes]
        return f"{self.kernel.name}({', '.join(words)}) in chunks of {self.grain}"


Step = Launch | Call | Loop["Step", str] | Branch["Step"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch on constants and weights; ``results`` (name, type, elements) are computed once until weights change."""

    results: tuple[tuple[str, DType, int], ...]
    launch: Launch


@dataclass(frozen=True, slots=True)
class Program:
    """Steps and the memory they need; see :class:`~zenith.backends.plan.Plan`. ``slots`` are offsets in the arena."""

    name: str
    symbols: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, ArrayType], ...]
    constants: Mapping[str, Any]
    weights: Mapping[str, Weight]
    slots: Mapping[str, str]
    arena: str
    prepared: tuple[Prepared, ...]
    steps: tuple[Step, ...]

    @property
    def launches(self) -> list[Launch]:
        """The launches in the order of the driver's table, those of loops and branches among them."""
        return [s for s in walk(self.steps) if isinstance(s, Launch)]

    def __str__(self) -> str:
        lines = [f"table of {self.name}:"]
        number = 0
        for step in self.steps:
            lines.append(f"  {'' if isinstance(step, Call) else number:>3} {step}".replace("\n", "\n      "))
            number += not isinstance(step, Call)
        return "\n".join(lines)


_Codes = dict[str, tuple[Code, tuple[str, ...]]]  # kernels by name, with the sizes that they take


def program_of(plan: Plan) -> Program:
    """A plan as a program."""
    codes: _Codes = {}
    return Program(
        plan.name,
        plan.symbols,
        plan.inputs,
        plan.outputs,
        plan.constants,
        plan.weights,
        {slot.name: str(slot.offset) for slot in plan.slots},
        str(plan.arena),
        tuple(Prepared(p.results, _launch(_without_sizes(p.launch), codes)) for p in plan.prepared),
        tuple(_step(step, codes) for step in plan.steps),
    )


def closed(program: Program, arrays: Mapping[str, Any]) -> Program:
    """The program with ``arrays`` as the fixed memory that its steps read; it prepares nothing, follows no weight."""
    steps = tuple(map(_closed, program.steps))
    return replace(program, constants=dict(arrays), weights={}, prepared=(), steps=steps)


def _closed(step: Step) -> Step:
    match step:
        case Launch() | Call():
            return replace(step, allocations=tuple(map(_stored, step.allocations)))
        case Loop():
            mapped = step.mapped(_closed, str)
            carries = tuple(replace(carry, start=_stored(carry.start)) for carry in mapped.carries)
            slices = tuple(replace(slice, whole=_stored(slice.whole)) for slice in mapped.slices)
            return replace(mapped, carries=carries, slices=slices, flag=step.flag and _stored(step.flag))
        case Branch():
            return replace(step.mapped(_closed), index=_stored(step.index))


def _stored(allocation: Allocation) -> Allocation:
    return Allocation("constant", allocation.name) if allocation.kind in FIXED else allocation


def kernel_sources(plan: Plan) -> str:
    """The sources of all kernels that calls launch, with the user's lines, for reading."""
    printer = CpuPrinter()
    kernels = {s.kernel.name: s.kernel for s in walk(plan.steps) if isinstance(s, planned.Launch)}
    return "\n".join(printer.kernel(kernel) for kernel in kernels.values())


def _step(step: planned.Step, codes: _Codes) -> Step:
    match step:
        case planned.Launch():
            return _launch(step, codes)
        case Call():
            return step
        case Loop():
            return step.mapped(lambda inner: _step(inner, codes), str)
        case Branch():
            return step.mapped(lambda inner: _step(inner, codes))
        case Either():
            raise AssertionError("no library offers a CPU calls that depend on sizes")


def _launch(step: planned.Launch, codes: _Codes) -> Launch:
    kernel = step.kernel
    if kernel.name not in codes:
        text, sizes = kernel_text(kernel)
        codes[kernel.name] = Code(kernel.name, text), sizes
    code, sizes = codes[kernel.name]
    return Launch(
        code,
        step.allocations,
        str(kernel.tasks),
        _grain(kernel),
        sizes,
        failures(kernel, step.lines),
        step.copies,
        step.lines,
    )


def _without_sizes(step: planned.Launch) -> planned.Launch:
    """A launch whose work no size enters, with 0 for those that its kernel mentions all the same."""
    kernel, nothing = step.kernel, dict.fromkeys(step.kernel.sizes, 0)
    known = replace(kernel, tasks=kernel.tasks.substitute(nothing), cost=kernel.cost.substitute(nothing))
    return replace(step, kernel=known)


def _grain(kernel: Kernel) -> str:
    """How many tasks make a chunk: a number, or an expression of the sizes that a task's cost depends on."""
    cost = kernel.cost.static
    if cost is None:
        return f"max({kernel.together}, {CHUNK_COST} // max(1, {kernel.cost}))"
    grain = max(kernel.together, CHUNK_COST // max(1, cost))
    return str(grain if grain < CHUNK_STEP else -(-grain // CHUNK_STEP) * CHUNK_STEP)
