"""The program: a plan for the CPU as plain data, all that linking and running need.

Kernels are texts, sizes are expressions as text, and memory is allocations by name. So a program can be written to disk
and read back by another process, which then runs it without the graph, the passes or the planner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zenith.backends import steps as planned
from zenith.backends.cpu.emit import CpuPrinter
from zenith.backends.cpu.resizing import launch_of, sizes_of_iteration
from zenith.backends.cpu.texts import kernel_text
from zenith.backends.failures import Failures, failures
from zenith.backends.kernel import Kernel
from zenith.backends.steps import (
    FIXED,
    Allocation,
    BranchStep,
    CallStep,
    Either,
    LoopStep,
    PlanOf,
    PreparedStep,
    descended,
    rewritten,
    walk,
)
from zenith.errors import SourceLine
from zenith.ir.dims import Dim
from zenith.ir.types import NDArray

if TYPE_CHECKING:
    from zenith.backends.plan import Plan  # whose import is of no use to a program that was compiled before

CHUNK_COST = 100_000  # simple operations in a chunk of a launch: about 2.5 microseconds of vectorised work
CHUNK_STEP = 512  # chunks of elements are whole strips (see ``emit``)


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A kernel: what users call it, and the text that its machine code follows from (:mod:`texts`)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel: ``tasks`` tasks in chunks of ``grain``, on ``allocations``, with ``sizes`` as arguments.

    Tasks, grain and sizes are expressions of the program's sizes. ``failures`` are what the status word may say,
    ``copies`` says that elements are written to the positions that they are read from: in place nothing changes.
    """

    kernel: KernelCode
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


@dataclass(frozen=True, slots=True)
class Resize:
    """Compute the ``sizes`` of this iteration of a loop that contain its ``index``, and of no loop inside of it."""

    index: str
    sizes: tuple[str, ...]
    launch: Launch

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """What the launch reads and writes."""
        return self.launch.allocations

    def __str__(self) -> str:
        return f"sizes {', '.join(self.sizes)}"


Step = Launch | CallStep | LoopStep["Step", str] | BranchStep["Step"] | Resize


class Program(PlanOf[Launch, Step, str]):
    """A plan whose launches are as above and whose sizes are Python expressions."""

    __slots__ = ()

    @property
    def launches(self) -> list[Launch]:
        """The launches in the order of the driver's table, those of loops and branches among them."""
        found = (s.launch if isinstance(s, Resize) else s for s in walk(self.steps))
        return [s for s in found if isinstance(s, Launch)]

    def __str__(self) -> str:
        lines = [f"table of {self.name}:"]
        number = 0
        for step in self.steps:
            lines.append(f"  {'' if isinstance(step, CallStep) else number:>3} {step}".replace("\n", "\n      "))
            number += not isinstance(step, CallStep)
        return "\n".join(lines)


_Codes = dict[str, tuple[KernelCode, tuple[str, ...]]]  # kernels by name, with the sizes that they take


def program_of(plan: Plan) -> Program:
    """A plan as a program; the libraries of a CPU offer no calls that depend on sizes."""
    assert not any(isinstance(step, Either) for step in walk(plan.steps))
    codes: _Codes = {}
    rules: dict[type, Callable[[Any], Any]] = {
        Dim: str,
        planned.LaunchStep: lambda launch: _launch(launch, codes),
        LoopStep: lambda loop: _resized(descended(loop, rules), codes),
    }
    slots, arena, prepared, steps = rewritten(
        (plan.slots, plan.arena, tuple(map(_without_sizes, plan.prepared)), plan.steps), rules
    )
    names = plan.name, plan.symbols, plan.inputs, plan.outputs
    return Program(*names, plan.constants, plan.weights, slots, arena, prepared, steps)


def _resized(loop: LoopStep[Step, str], codes: _Codes) -> LoopStep[Step, str]:
    """A loop whose iterations begin with the sizes that differ from one to the next."""
    sizes = sizes_of_iteration(loop) if loop.index else ()
    if not sizes:
        return loop
    launch = launch_of(loop, sizes)
    return replace(loop, steps=(Resize(loop.index, sizes, _launch(launch, codes)), *loop.steps))


def closed(program: Program, arrays: Mapping[str, NDArray]) -> Program:
    """The program with ``arrays`` as the fixed memory that its steps read; it prepares nothing, follows no weight."""
    steps = rewritten(program.steps, {Allocation: _closed, Launch: _with_closed, CallStep: _with_closed})
    return replace(program, constants=arrays, weights={}, prepared=(), steps=steps)


def _with_closed(step: Launch | CallStep) -> Launch | CallStep:
    return replace(step, allocations=tuple(map(_closed, step.allocations)))


def _closed(allocation: Allocation) -> Allocation:
    return Allocation("constant", allocation.name) if allocation.kind in FIXED else allocation


def kernel_sources(plan: Plan) -> str:
    """The sources of all kernels that calls launch, with the user's lines, for reading."""
    launched = {s.kernel.name for s in walk(plan.steps) if isinstance(s, planned.LaunchStep)}
    return "\n".join(CpuPrinter().kernel(kernel) for name, kernel in plan.kernels.items() if name in launched)


def _launch(step: planned.LaunchStep, codes: _Codes) -> Launch:
    kernel = step.kernel
    if kernel.name not in codes:
        text, sizes = kernel_text(kernel)
        codes[kernel.name] = KernelCode(kernel.name, text), sizes
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


def _without_sizes(prepared: PreparedStep[planned.LaunchStep]) -> PreparedStep[planned.LaunchStep]:
    """A launch whose work no size enters, with 0 for those that its kernel mentions all the same."""
    kernel = prepared.launch.kernel
    nothing = dict.fromkeys(kernel.sizes, 0)
    known = replace(kernel, tasks=kernel.tasks.substitute(nothing), cost=kernel.cost.substitute(nothing))
    return replace(prepared, launch=replace(prepared.launch, kernel=known))


def _grain(kernel: Kernel) -> str:
    """How many tasks make a chunk: a number, or an expression of the sizes that a task's cost depends on."""
    cost = kernel.cost.static
    if cost is None:
        return f"max({kernel.together}, {CHUNK_COST} // max(1, {kernel.cost}))"
    grain = max(kernel.together, CHUNK_COST // max(1, cost))
    return str(grain if grain < CHUNK_STEP else -(-grain // CHUNK_STEP) * CHUNK_STEP)
