"""Bodies: functions traced into closed subgraphs for loops and branches.

A body has a trace of its own inside the trace in progress. What it uses of the traces around it becomes an input of
its graph: it is *captured*, and the node that holds the body takes it as an operand. Arrays of the program's own are
stored with the outermost graph and captured too; what repeats a number is written into the body. Questions about sizes
go to the trace around: a size is the same inside and outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.errors import UnsupportedError, user_line
from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import Primitive, get
from zenith.ir.types import ArrayType
from zenith.trace.recorder import Recorder, current_recorder, recording
from zenith.trace.tracer import Tracer
from zenith.trace.tracing import call_user, output_value


class BodyRecorder(Recorder):
    """A trace inside the trace ``parent``, or inside none when a loop runs at once on arrays.

    ``captured`` holds, for each value of the parent's graph that the body uses, the input that stands for it.
    """

    def __init__(self, name: str, parent: Recorder | None) -> None:
        super().__init__(name, ())
        self.parent = parent
        self.captured: dict[Value, Value] = {}
        if parent is not None:
            self.share_sizes(parent)

    def add(self, primitive: Primitive, args: Sequence[Value], params: Mapping[str, Any]) -> tuple[Value, ...]:
        """Append a node; UnsupportedError for an effect, whose order only a whole program knows."""
        if primitive.effect:
            raise UnsupportedError(
                f"{primitive.name} inside the body of a loop or branch is not supported", where=user_line(),
                fix="return the values (a scan collects one of each step) and print them behind the loop",
            )  # fmt: skip
        return super().add(primitive, args, params)

    def encloses(self, other: Recorder) -> bool:
        """Whether values of the trace ``other`` can be used in this one."""
        return other is self or (self.parent is not None and self.parent.encloses(other))

    def lift(self, tracer: Tracer) -> Value | None:
        """The value of a tracer of this trace, or of one around it, captured; None for a stranger."""
        if tracer.recorder is self:
            return tracer.value
        value = None if self.parent is None else self.parent.lift(tracer)
        return None if value is None else self._capture(value)

    def _store(self, array: np.ndarray[Any, Any]) -> Value:
        """An array of the program's own: captured, so that the outermost graph has it once."""
        return super()._store(array) if self.parent is None else self._capture(self.parent.constant(array))

    def _capture(self, value: Value) -> Value:
        """The input that stands for a value of the parent's graph; literals are written again."""
        assert self.parent is not None
        if value not in self.captured:
            node = self.parent.graph.node(value.node)
            if node.primitive is get("literal"):
                self.captured[value] = self.graph.add_record(node, ())[0]
            else:
                self.captured[value] = self.graph.add_input(value.type, f"captured{len(self.captured)}")
        return self.captured[value]


@dataclass(frozen=True, slots=True)
class Body:
    """A traced body: its trace, the inputs for its own arguments, its results and which of them are Python numbers."""

    recorder: BodyRecorder
    arguments: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def types(self) -> list[ArrayType]:
        """The types of the results."""
        return [v.type for v in self.outputs if isinstance(v.type, ArrayType)]

    @property
    def captured(self) -> list[Value]:
        """The values of the trace around that the body uses as operands."""
        inputs = {v.node for v in self.recorder.graph.inputs}
        return [outer for outer, inner in self.recorder.captured.items() if inner.node in inputs]


def trace_body(
    name: str, function: Callable[..., Sequence[Any]], types: Sequence[ArrayType], weak: Sequence[bool]
) -> Body:
    """Run ``function`` on a tracer for each type; it returns a flat sequence of traced values, arrays and numbers."""
    recorder = BodyRecorder(name, current_recorder())
    with recording(recorder):
        values = tuple(recorder.graph.add_input(t, f"argument{i}") for i, t in enumerate(types))
        tracers = [Tracer(recorder, v, weak=w) for v, w in zip(values, weak, strict=True)]
        outputs = tuple(output_value(recorder, r) for r in call_user(function, tracers))
    return Body(recorder, values, outputs)


def close(body: Body, captured: Sequence[Value]) -> Graph:
    """The closed graph of a body: its inputs are ``captured``, which holds all that it captured, then its own."""
    source = body.recorder.graph
    graph = Graph(source.name)
    graph.constants = dict(source.constants)
    moved: dict[tuple[int, int], Value] = {}
    for number, outer in enumerate(captured):
        value = graph.add_input(outer.type, f"captured{number}")
        if outer in body.recorder.captured:
            moved[body.recorder.captured[outer].node, 0] = value
    for number, own in enumerate(body.arguments):
        moved[own.node, 0] = graph.add_input(own.type, f"argument{number}")
    for number, node in source.nodes():
        if node.primitive is not get("input"):
            args = tuple(moved[a.node, a.output] for a in source.args(number))
            moved.update({(number, i): v for i, v in enumerate(graph.add_record(node, args))})
    graph.set_outputs(moved[v.node, v.output] for v in body.outputs)
    return graph
