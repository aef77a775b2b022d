"""Bodies that write into arrays of the trace around them.

A body's graph has no writes, and reads the arrays around it as operands. In a :class:`WritingBody` each array that it
touches has a *stand-in*: an input of the body's graph, with a memory of its own, which shows what the array holds when
the body begins. Views of the array are read through the stand-in. What the body writes goes there, so that when it has
been traced, the stand-ins whose memory has changed are what a loop must carry and a branch must return.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.errors import TraceError, user_line
from zenith.ir.graph import Value
from zenith.trace.bodies import BodyRecorder
from zenith.trace.memory import BRANCH, LISTED, LOOP, NUMBER, READ_ONLY, Link, Memory, raise_clobbered
from zenith.trace.recorder import Recorder
from zenith.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class StandIn:
    """An array of the trace around (``outer``, no view), the input that it enters by, and the tracer in its place."""

    outer: Tracer
    input: Value
    tracer: Tracer

    @property
    def is_written(self) -> bool:
        """Whether the body has written into it."""
        return self.tracer.memory.version > 0

    @property
    def result(self) -> Value:
        """What the array holds when the body ends."""
        return self.tracer.memory.value


class WritingBody(BodyRecorder):
    """The trace of a body that may write into arrays of the trace around it; ``stands`` maps their memories."""

    def __init__(self, name: str, parent: Recorder | None) -> None:
        super().__init__(name, parent, runs_alone=True)
        self.diverged = False  # whether it leaves its function wherever it runs
        if parent is not None:
            self.raises = parent.raises
        self.stands: dict[Memory, StandIn] = {}
        self.carried: set[Memory] = set()  # those whose stand-ins are no captured values but arguments

    def resolve(self, tracer: Tracer) -> Tracer:
        """The tracer that stands here for an array of a trace around this one; what cannot be written is itself."""
        if tracer.recorder is self or self.parent is None or tracer.memory.access in (NUMBER, READ_ONLY, LISTED):
            return tracer
        outer = self.parent.resolve(tracer)
        return self._view(outer) if outer.recorder is self.parent else outer

    def stand_in(self, root: Tracer) -> StandIn:
        """The stand-in of an array that is no view."""
        found = self.stands.get(root.memory)
        if found is None:
            value = self.graph.add_input(root.type, f"array{len(self.stands)}")
            tracer = Tracer(self, value, root.weak, root.layout, root.memory.access, root.memory.name)
            found = self.stands[root.memory] = StandIn(root, value, tracer)
        return found

    def written(self) -> list[StandIn]:
        """The stand-ins that the body has written, in the order in which it touched them."""
        found = [s for s in self.stands.values() if s.is_written]
        for stand in self.stands.values():
            stand.outer.memory.in_rows |= stand.tracer.memory.in_rows
            if stand.tracer.memory.clobbered is not None:
                raise_clobbered(stand.tracer.memory, stand.outer.type)
        for stand in found:
            related = stand.outer.memory.related()
            function = next((f for memory, f in related.items() if f and memory in self.stands), "")
            if function:
                made = function if function in (LOOP, BRANCH) else f"NumPy's {function}"
                raise TraceError(
                    f"a loop or branch writes into one of two arrays that {made} may have made one memory, and reads "
                    "the other", where=user_line(), types=(stand.outer.type,), fix="copy one of them, x.copy()",
                )  # fmt: skip
        return found

    def captures(self) -> list[tuple[Value, Value]]:
        """The captured values and arrays of the trace around, each with its input."""
        stands = [(s.outer.value, s.input) for m, s in self.stands.items() if m not in self.carried]
        return [*super().captures(), *stands]

    def _view(self, outer: Tracer) -> Tracer:
        if outer.source is None or outer.link is None:
            return self.stand_in(outer).tracer
        base = self._view(outer.source)
        link = Link(outer.link.primitive, tuple(map(self._capture, outer.link.rest)), outer.link.params)
        view = Tracer(self, link.read(self, base.value), outer.weak, outer.layout)
        view.show(base, link)
        return view
