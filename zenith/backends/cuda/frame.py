"""Frames: the words that kernels' parameters are read from.

CUDA is given a table of addresses, one for each parameter of a kernel, and reads the parameters there at the launch.
So all launches of a program share one array of 8-byte words: one for each allocation, size, number of tasks and status
word. A call writes the addresses of its arguments and results once, and every launch reads them; so does a loop that
moves allocations. A 32-bit parameter reads the low half of its word.

The words of arguments come first, then those of results: nothing else changes from call to call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from zenith.backends.plan import Plan
from zenith.backends.steps import FIXED, Allocation, LaunchStep, LoopStep, walk


class FrameLayout:
    """The word of a frame for each allocation, size and launch.

    ``launches`` are the plan's in the order of :func:`~zenith.backends.steps.walk`; ``failing`` numbers those that have
    a status word.
    """

    OWN: ClassVar = {"tasks": 0, "team": 1, "status": 2}  # the words of each launch alone

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.launches = [step for step in walk(plan.steps) if isinstance(step, LaunchStep)]
        self.failing = [number for number, launch in enumerate(self.launches) if launch.kernel.checks]
        arguments = [Allocation("input", name) for name in plan.inputs] + [
            Allocation("output", name) for name, _ in plan.outputs
        ]
        self.arguments = len(arguments)
        found = dict.fromkeys([*arguments, *(a for step in walk(plan.steps) for a in _allocations(step))])
        self.words = {allocation: number for number, allocation in enumerate(found)}
        first = len(self.words)
        self.sizes = {name: first + number for number, name in enumerate(plan.symbols)}
        first += len(self.sizes)
        self._own = first
        self.length = first + len(self.OWN) * len(self.launches)

    @property
    def fixed(self) -> dict[str, int]:
        """The words of fixed allocations, by name."""
        return {a.name: word for a, word in self.words.items() if a.kind in FIXED}

    @property
    def slots(self) -> dict[str, int]:
        """The words of slots, by name."""
        return {a.name: word for a, word in self.words.items() if a.kind == "slot"}

    def parameters(self, number: int) -> dict[str, int]:
        """The words of a launch's parameters, by their names (:func:`zenith.backends.cuda.launch.parameters`)."""
        launch, own = self.launches[number], self._own + len(self.OWN) * number
        words = {name: own + offset for name, offset in self.OWN.items()}
        words.update((b.name, self.words[a]) for b, a in zip(launch.kernel.buffers, launch.allocations, strict=True))
        words.update((name, self.sizes[name]) for name in launch.kernel.sizes)
        return words


def _allocations(step: Any) -> Iterator[Allocation]:
    """All allocations that a step itself names, also those that a loop moves."""
    yield from step.allocations
    if isinstance(step, LoopStep):
        for carry in step.carries:
            yield from (carry.current, carry.following)
        for sliced in step.slices:
            yield sliced.element
