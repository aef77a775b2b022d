"""Traces inside traces: a function as a closed graph, and a graph's nodes recorded in the current trace.

A transform of a function (a derivative, a batched version) traces it into a graph of its own, derives another graph of
it, and *replays* the result: in the trace around it when there is one, else at once, with NumPy. So transforms nest in
each other and in ``jit`` to any depth, and values that a function uses of the trace around it become arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zenith.errors import UnsupportedError, user_line
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.ir.interpret import interpret
from zenith.ir.lowering import HostCall
from zenith.ir.primitive import Params, Primitive, get
from zenith.ir.types import ArrayType, NDArray
from zenith.trace.bind import graph_value
from zenith.trace.data_dependent import require_known
from zenith.trace.plain_lists import Lists, PlainListsNeeded
from zenith.trace.raises import guarded
from zenith.trace.recorder import Recorder, current_recorder, recording
from zenith.trace.results import own_memory
from zenith.trace.tracer import Tracer, argument
from zenith.trace.tracing import call_user, check_lists, output_value, recorded_graph

if TYPE_CHECKING:
    from zenith.numpy.typing import Array


Nested = TypeVar("Nested", bound="NestedRecorder")


class NestedRecorder(Recorder):
    """A trace inside the trace ``parent``, or inside none when a function is transformed at once on arrays.

    Questions about sizes go to the trace around: a size is the same inside and outside. ``captured`` maps each value of
    the parent's graph that the function uses to its input; the program's constant arrays are stored with the outermost
    graph and captured too, and literals are recorded a second time.
    """

    def __init__(self, name: str, parent: Recorder | None) -> None:
        super().__init__(name, ())
        if parent is not None:
            self.traffic, self.sized_loops = parent.traffic, parent.sized_loops
        self.parent = parent
        self.captured: dict[Value, Value] = {}
        if parent is not None:
            self.share_sizes(parent)
            self.converts, self.writes_arguments = parent.converts, parent.writes_arguments
            self.integers, self.lists = parent.integers, parent.lists
            self.at_end, self.snapshots = parent.at_end, parent.snapshots
        else:
            self.converts = self.writes_arguments = self.sized_loops = True

    def may_call_python(self) -> bool:
        """Whether the trace around this one may."""
        return self.parent is None or self.parent.may_call_python()

    def add(self, primitive: Primitive, args: Sequence[Value], params: Params) -> tuple[Value, ...]:
        """Append a node; UnsupportedError where it would call Python and cannot."""
        lowering = primitive.lowering
        needs_python = isinstance(lowering, HostCall) and lowering.inner_loops is None and not primitive.effect
        if needs_python and not self.may_call_python():
            label = params["function"].label if "function" in params else primitive.name
            raise UnsupportedError(
                f"{label} calls Python inside the body of a loop or branch, which runs without Python",
                where=user_line(),
                fix="where no iteration needs the one before, call it before the loop or after it (a scan collects "
                "values of all steps); else write the loop in Python, for i in range(n), which is unrolled",
            )
        return super().add(primitive, args, params)

    def encloses(self, other: Recorder) -> bool:
        """Whether values of the trace ``other`` can be used in this one."""
        return other is self or (self.parent is not None and self.parent.encloses(other))

    def lift(self, tracer: Tracer) -> Value | None:
        """The value of a tracer of this trace, or of one around it, captured; None for one of another trace."""
        tracer = self.resolve(tracer)
        if tracer.recorder is self:
            return tracer.value
        value = None if self.parent is None else self.parent.lift(tracer)
        return None if value is None else self._capture(value)

    def resolve(self, tracer: Tracer) -> Tracer:
        """The tracer that stands for an array in the trace around."""
        return tracer if tracer.recorder is self or self.parent is None else self.parent.resolve(tracer)

    def captures(self) -> list[tuple[Value, Value]]:
        """The captured values of the trace around, each with its input."""
        inputs = {v.node for v in self.graph.inputs}
        return [(outer, inner) for outer, inner in self.captured.items() if inner.node in inputs]

    def _store(self, array: NDArray) -> Value:
        return super()._store(array) if self.parent is None else self._capture(self.parent.constant(array))

    def _capture(self, value: Value) -> Value:
        """The input for a value of the parent's graph; literals are recorded a second time."""
        assert self.parent is not None
        if value not in self.captured:
            node = self.parent.graph.node(value.node)
            if node.primitive is get("literal"):
                self.captured[value] = self.graph.add_record(node, ())[0]
            else:
                self.captured[value] = self.graph.add_input(value.type, f"captured{len(self.captured)}")
        return self.captured[value]

    def operands(self) -> list[Value]:
        """The captured values that are inputs of the graph, in the order of these inputs."""
        return list(dict.fromkeys(outer for outer, _ in self.captures()))


def record_function(
    recorder: NestedRecorder,
    function: Callable[..., Sequence[object]],
    types: Sequence[ArrayType],
    weak: Sequence[bool],
) -> tuple[list[Value], list[Value]]:
    """Run ``function`` on a tracer for each type; return the inputs for these and the values of its results.

    It returns a flat sequence of traced values, arrays and numbers; ``weak`` says which arguments are Python numbers.
    """
    import zenith.numpy  # noqa: F401  fills the tables that tracers ask

    with recording(recorder):
        inputs = [recorder.graph.add_input(type, f"argument{i}") for i, type in enumerate(types)]
        given = [argument(recorder, v, w) for v, w in zip(inputs, weak, strict=True)]
        outputs = call_user(function, given)
        check_lists(recorder)
        recorder.raises.check()
        if recorder.parent is None:
            recorder.check_end()
        return inputs, guarded(recorder, [output_value(recorder, output) for output in outputs])


def record_with_lists(
    start: Callable[[], Nested],
    function: Callable[..., Sequence[object]],
    types: Sequence[ArrayType],
    weak: Sequence[bool],
) -> tuple[Nested, list[Value], list[Value]]:
    """The same by a recorder that ``start`` makes: in no other trace once more, if lists must stay Python's."""
    recorder = start()
    if recorder.parent is not None:
        return recorder, *record_function(recorder, function, types, weak)
    recorder.lists = Lists()
    try:
        return recorder, *record_function(recorder, function, types, weak)
    except PlainListsNeeded:
        recorder = start()
        return recorder, *record_function(recorder, function, types, weak)


@dataclass(frozen=True, slots=True)
class Inner:
    """A function as a graph; its inputs are the function's own arguments, followed by those that it ``captured``."""

    graph: Graph
    captured: tuple[Tracer, ...]


def trace_inner(
    function: Callable[..., Sequence[object]], types: Sequence[ArrayType], weak: Sequence[bool], name: str
) -> Inner:
    """The graph of ``function``; see :func:`record_function`. Raises TraceError as :func:`zenith.trace.trace` does."""
    parent = current_recorder()
    recorder, _, results = record_with_lists(lambda: NestedRecorder(name, parent), function, types, weak)
    recorder.graph.set_outputs(results)
    if parent is not None:
        require_known(recorder, results, "what a transformed function returns")
    graph = recorded_graph(recorder)
    return Inner(graph, () if parent is None else tuple(Tracer(parent, v) for v in recorder.operands()))


def replay(graph: Graph, args: Sequence[Any]) -> list[Array]:
    """The results of ``graph`` on arrays: recorded when one of them is traced, computed at once otherwise.

    Where a size of the graph is another one outside, the trace requires that they are equal. Results computed at once
    share no memory with the arguments.
    """
    recorder = current_recorder()
    if recorder is None or not (any(isinstance(a, Tracer) for a in args) or graph.symbols()):
        arrays = [np.asarray(a) for a in args]
        return own_memory(interpret(graph, *arrays), arrays)
    values = [graph_value(recorder, a) for a in args]
    for value, inner in zip(values, graph.inputs, strict=True):
        if value.type != inner.type and isinstance(inner.type, ArrayType):
            for outside, inside in zip(value.shape, inner.shape, strict=True):
                recorder.require(outside, "==", inside, f"{graph.name} was traced for {inner.type}")
    return [Tracer(recorder, v) for v in _record(recorder, graph, values)]


def _record(recorder: Recorder, graph: Graph, args: Sequence[Value]) -> list[Value]:
    """Append the nodes with their own lines; effects join the chain of the trace."""
    builder = Builder(recorder.graph)
    moved: dict[tuple[int, int], Value] = {(v.node, 0): a for v, a in zip(graph.inputs, args, strict=True)}
    for number, node in graph.nodes():
        if node.primitive.name in ("input", "token"):
            continue
        if node.primitive.effect:
            operands = [moved[a.node, a.output] for a in graph.args(number)[1:]]
            results = (None, *recorder.add(node.primitive, operands, node.params))
        else:
            operands = [moved[a.node, a.output] for a in graph.args(number)]
            results = builder.transplant(graph, node, operands)
        moved.update({(number, i): value for i, value in enumerate(results) if value is not None})
    return [moved[v.node, v.output] for v in graph.outputs]
