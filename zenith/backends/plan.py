"""The plan: a program as a list of steps on memory, which :mod:`zenith.backends.planner` makes of a fused graph.

Every value has an *allocation* (:mod:`zenith.backends.buffer_assignment`): an input, an output, a constant, a weight,
or a slot of the arena, memory that one call of the program leases. A step launches a kernel on allocations, calls a
routine, or is a loop, branch or choice by sizes, with steps in the same arena. What depends on constants and weights
only is *prepared*: launched once, and again when such a weight changes. Sizes stay symbolic throughout.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.engines import Choice
from zenith.backends.kernel import Kernel
from zenith.backends.steps import LaunchStep, PlanOf, Step, walk
from zenith.errors import SourceLine
from zenith.ir.dims import Dim


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A fused group: which engine computes it, the names of its routines and kernels, and the user's lines."""

    choice: Choice
    kernels: tuple[str, ...]
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class Plan(PlanOf[LaunchStep, Step, Dim]):
    """The plan of a graph: formulas of sizes. ``counters`` is the number of counters that its launches share."""

    counters: Dim
    groups: tuple[PlannedGroup, ...] = ()

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels that calls launch by name, then those that run once to prepare."""
        found: dict[str, Kernel] = {}
        for launch in (*walk(self.steps), *(p.launch for p in self.prepared)):
            if isinstance(launch, LaunchStep):
                found.setdefault(launch.kernel.name, launch.kernel)
        return found

    def __str__(self) -> str:
        lines = [f"plan {self.name}: sizes {', '.join(self.symbols) or 'none'}"]
        lines += [f"  constant {name}: {a.dtype}{list(a.shape)}" for name, a in self.constants.items()]
        lines += [f"  {name}: {weight.type}" for name, weight in self.weights.items()]
        lines += [f"  once {p.launch}" for p in self.prepared]
        lines += [f"  slot {s.name}: {s.length} bytes at {s.offset}" for s in self.slots]
        lines += [f"  arena {self.arena} bytes"]
        lines += [f"  counters {self.counters}"] if self.counters != 0 else []
        lines += [f"  {i:>2} {step}".replace("\n", "\n  ") for i, step in enumerate(self.steps)]
        lines += [f"  return {name}: {type}" for name, type in self.outputs]
        return "\n".join(lines)
