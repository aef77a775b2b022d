"""Traced bodies of converted loops and branches: what they leave in names and write into arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from zenith import tree
from zenith.convert.effects import Watched, entries
from zenith.convert.values import Opened, Unset, open_value
from zenith.ir.graph import Value
from zenith.ir.types import ArrayType
from zenith.numpy.boolean_indexing import Selected
from zenith.trace.bind import graph_value
from zenith.trace.bodies import Body
from zenith.trace.memory import NUMBER, OWN
from zenith.trace.recorder import Recorder, current_recorder, resumed
from zenith.trace.sizes import TracedSize
from zenith.trace.stands import StandIn, WritingBody
from zenith.trace.tracer import Tracer
from zenith.trace.tracing import call_user

Values = TypeVar("Values", bound=Sequence[object])
OF_BODY = "_zenith_of_body"  # an attribute of exceptions that a body of the program has raised while it was traced
_TRACED = (Tracer, TracedSize, Selected)  # what has no meaning once its trace has ended


@dataclass(frozen=True)
class Names:
    """The names that a loop or branch changes, with the functions that give and set their values."""

    names: tuple[str, ...]
    get: Callable[[], tuple[object, ...]]
    set: Callable[[tuple[object, ...]], None]

    def values(self) -> tuple[object, ...]:
        """Their values."""
        return snapshot(self.get())

    def start(self) -> tuple[object, ...]:
        """Their values; what a trace that has ended left in names that nothing reads before they are set is unset."""
        recorder = parent()
        values = self.values()
        found = tuple(
            value
            if all(recorder.encloses(leaf.recorder) for leaf in leaves if isinstance(leaf, _TRACED))
            else Unset(name)
            for name, value, (leaves, _) in zip(self.names, values, map(tree.flatten, values), strict=True)
        )
        return snapshot(found)


class TracedBody:
    """A body that is traced in the current trace: its arguments, the values that it leaves, the arrays it writes."""

    def __init__(self, name: str, names: Names) -> None:
        parent = current_recorder()
        assert parent is not None
        self.recorder = WritingBody(name, parent)
        self.names = names
        self.arguments: list[Value] = []
        self.values: tuple[object, ...] = ()

    def argument(self, type: ArrayType, weak: bool) -> Tracer:
        """A further argument of the body, an array of its own or a number."""
        value = self.recorder.graph.add_input(type, f"argument{len(self.arguments)}")
        self.arguments.append(value)
        return Tracer(self.recorder, value, weak, access=OWN if type.rank else NUMBER)

    def carry(self, stand: StandIn) -> StandIn:
        """An array of the trace around as a further argument."""
        own = self.recorder.stand_in(stand.outer)
        self.recorder.carried.add(stand.outer.memory)
        self.arguments.append(own.input)
        return own

    def run(self, function: Callable[..., object], start: tuple[object, ...], *args: Callable[[], object]) -> object:
        """Run a function with values of the names, on what ``args`` give; then the names have their old values."""
        before = self.names.values()
        snapshot(start)
        watched = Watched(entries(function), self.names.names)
        with resumed(self.recorder):
            self.names.set(start)
            try:
                result = call_user(lambda: function(*(arg() for arg in args)), ())
                watched.check()
                self.values = self.names.values()
            except BaseException as error:
                watched.restore()
                setattr(error, OF_BODY, True)
                raise
            finally:
                self.names.set(before)
        return result

    def opened(self) -> list[Opened]:
        """The values that the names have at the end."""
        with resumed(self.recorder):
            return [open_value(name, value) for name, value in zip(self.names.names, self.values, strict=True)]

    def output(self, make: Callable[[], object]) -> Value:
        """A result of the body: what ``make`` computes in its trace."""
        with resumed(self.recorder):
            return graph_value(self.recorder, make())

    def written(self) -> list[StandIn]:
        """The arrays of the trace around that it has written."""
        return self.recorder.written()

    def finish(self, outputs: Sequence[Value]) -> Body:
        """The body with its results; nothing more is traced."""
        self.recorder.finished = True
        return Body(self.recorder, tuple(self.arguments), tuple(outputs))


def snapshot(values: Values) -> Values:
    """Values of names, to which the trace in progress refers until it ends: all other references can be counted."""
    parent().snapshots[id(values)] = values
    return values


def parent() -> Recorder:
    """The trace in progress."""
    recorder = current_recorder()
    assert recorder is not None
    return recorder
