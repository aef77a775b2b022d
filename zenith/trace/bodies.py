"""Bodies: functions traced into closed subgraphs for loops and branches.

Values that a body uses of the traces around it become inputs of its graph, and operands of the node that has the body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zenith.errors import UnsupportedError, user_line
from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import Params, Primitive, get
from zenith.ir.types import ArrayType
from zenith.trace.data_dependent import require_known, translated, with_bodies
from zenith.trace.nested import NestedRecorder, record_with_lists
from zenith.trace.recorder import Recorder, current_recorder


class BodyRecorder(NestedRecorder):
    """The trace of a body; ``runs_alone`` says that it is that of a loop or branch, which runs without Python."""

    def __init__(self, name: str, parent: Recorder | None, runs_alone: bool) -> None:
        super().__init__(name, parent)
        self.runs_alone = runs_alone

    def may_call_python(self) -> bool:
        """Whether neither this body nor one around it runs alone."""
        return not self.runs_alone and super().may_call_python()

    def add(self, primitive: Primitive, args: Sequence[Value], params: Params) -> tuple[Value, ...]:
        """Append a node; UnsupportedError for an effect, whose order only a whole program knows."""
        if primitive.effect:
            raise UnsupportedError(
                f"{primitive.name} inside the body of a loop or branch is not supported", where=user_line(),
                fix="return the values (a scan collects one of each step) and print them after the loop",
            )  # fmt: skip
        return super().add(primitive, args, params)


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
        return self.recorder.operands()


def trace_body(
    name: str,
    function: Callable[..., Sequence[object]],
    types: Sequence[ArrayType],
    weak: Sequence[bool],
    runs_alone: bool = True,
) -> Body:
    """The body that ``function`` is; see :func:`~zenith.trace.nested.record_function`."""
    around = current_recorder()
    recorder, arguments, outputs = record_with_lists(
        lambda: BodyRecorder(name, around, runs_alone), function, types, weak
    )
    return Body(recorder, tuple(arguments), tuple(outputs))


def close(body: Body, captured: Sequence[Value]) -> Graph:
    """The closed graph of a body: its inputs are ``captured``, a superset of its own captures, then its arguments."""
    source = body.recorder.graph
    graph = Graph(source.name)
    graph.constants = dict(source.constants)
    moved: dict[tuple[int, int], Value] = {}
    given = {outer: graph.add_input(outer.type, f"captured{number}") for number, outer in enumerate(captured)}
    for outer, inner in body.recorder.captures():
        moved[inner.node, 0] = given[outer]
    for number, argument in enumerate(body.arguments):
        moved[argument.node, 0] = graph.add_input(argument.type, f"argument{number}")
    for number, node in source.nodes():
        if node.primitive is not get("input"):
            args = tuple(moved[a.node, a.output] for a in source.args(number))
            moved.update({(number, i): v for i, v in enumerate(graph.add_record(node, args))})
    graph.set_outputs(moved[v.node, v.output] for v in body.outputs)
    require_known(body.recorder, body.outputs, "what leaves a loop or branch")
    return with_bodies(graph, translated(body.recorder.demands, moved))
