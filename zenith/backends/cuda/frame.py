"""Frames: the words that kernels' parameters are read from.

CUDA is given a table of addresses, one for each parameter of a kernel, and reads the parameters there when it is
launched. So all launches of a program share one row of 8-byte words: one for each place, size, number of tasks and
status word. A call writes the addresses of its arguments and results once, and every launch finds them; so does a loop
that lets places move. A 32-bit parameter reads the low half of its word.

The words of arguments come first, then those of results: they are all that changes from call to call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from zenith.backends.plan import Plan
from zenith.backends.steps import FIXED, Allocation, Launch, Loop, walk


class Layout:
    """Which word of a frame holds what.

    ``launches`` are the plan's in the order of :func:`~zenith.backends.steps.walk`; ``failing`` numbers those that have
    a status word.
    """

    OWN: ClassVar = {"tasks": 0, "team": 1, "status": 2}  # the words that each launch has for itself

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.launches = [step for step in walk(plan.steps) if isinstance(step, Launch)]
        self.failing = [number for number, launch in enumerate(self.launches) if launch.kernel.checks]
        places = [Allocation("input", name) for name in plan.inputs] + [
            Allocation("output", name) for name, _ in plan.outputs
        ]
        self.arguments = len(places)
        found = dict.fromkeys([*places, *(p for step in walk(plan.steps) for p in _places(step))])
        self.words = {place: number for number, place in enumerate(found)}
        first = len(self.words)
        self.sizes = {name: first + number for number, name in enumerate(plan.symbols)}
        first += len(self.sizes)
        self._own = first
        self.length = first + len(self.OWN) * len(self.launches)

    @property
    def fixed(self) -> dict[str, int]:
        """The words of fixed places, by name."""
        return {place.name: word for place, word in self.words.items() if place.kind in FIXED}

    @property
    def slots(self) -> dict[str, int]:
        """The words of slots, by name."""
        return {place.name: word for place, word in self.words.items() if place.kind == "slot"}

    def parameters(self, number: int) -> dict[str, int]:
        """The words of a launch's parameters, by their names (:func:`zenith.backends.cuda.emit.parameters`)."""
        launch, own = self.launches[number], self._own + len(self.OWN) * number
        words = {name: own + place for name, place in self.OWN.items()}
        words.update((b.name, self.words[p]) for b, p in zip(launch.kernel.buffers, launch.allocations, strict=True))
        words.update((name, self.sizes[name]) for name in launch.kernel.sizes)
        return words


def _places(step: Any) -> Iterator[Allocation]:
    """All places that a step itself names, moving ones too."""
    yield from step.allocations
    if isinstance(step, Loop):
        for carry in step.carries:
            yield from (carry.current, carry.following)
        for part in step.slices:
            yield part.part
