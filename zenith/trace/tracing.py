"""``trace``: run a function once on tracers and give its graph, with equal sizes unified and guards substituted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from zenith.errors import SourceLine, TraceError, user_line
from zenith.ir import params as params_
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.guards import Guard
from zenith.ir.numerics import HOST_TRAFFIC
from zenith.ir.types import ArrayType
from zenith.trace.bind import graph_value, known_dtype
from zenith.trace.data_dependent import with_bodies
from zenith.trace.dispatch import Unsized
from zenith.trace.foreign import RAISED, explained
from zenith.trace.memory import NUMBER
from zenith.trace.operators import is_weak
from zenith.trace.plain_lists import Lists
from zenith.trace.raises import Raised
from zenith.trace.recorder import InputSpec, LoopReport, Recorder, ResidualReport, WideningReport, input_type, recording
from zenith.trace.size_relations import prove
from zenith.trace.sizes import TracedSize, UserSize
from zenith.trace.tracer import Tracer, argument
from zenith.tree import how_to_register

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TraceResult:
    """The result of tracing.

    Attributes
    ----------
    graph: the program. Sizes known to be equal are one size; its guards are those that remain. When ``has_effects``,
        its last output is the token that orders the effects.
    inputs: the specs as they were given.
    guards: every assumption and requirement, in the symbols of the specs.
    outputs_weak: for each output of the function whether it is a Python number.
    numbers: the outputs that are numbers in NumPy, and no arrays without axes.
    specialized: the sizes that were fixed to their value in this call, with the lines that asked for a number.
    has_effects: whether the program prints or does anything else that must stay in order.
    residuals: those that derivatives in reverse mode save, and the operations that they recompute.
    loops: what loops of converted functions have become.
    widenings: where scalars of float64 made narrower arrays float64.
    definitions: of the sizes that Python computes, in order (:mod:`zenith.ir.computed_sizes`).
    computed: sizes of results that the program computes; their numbers are outputs of the graph after the results.
    raised: the exceptions that values decide; which of them, and their values, are outputs after these.
    """

    graph: Graph
    inputs: tuple[InputSpec, ...]
    guards: tuple[Guard, ...]
    outputs_weak: tuple[bool, ...]
    numbers: tuple[int, ...]
    specialized: tuple[tuple[Dim, SourceLine | None], ...]
    has_effects: bool
    residuals: tuple[ResidualReport, ...]
    definitions: tuple[tuple[str, str], ...] = ()
    loops: tuple[LoopReport, ...] = ()
    computed: tuple[str, ...] = ()
    widenings: tuple[WideningReport, ...] = ()
    raised: tuple[Raised, ...] = ()


def trace(
    function: Callable[..., Sequence[object]],
    specs: Sequence[InputSpec],
    name: str = "main",
    traffic: int = HOST_TRAFFIC,
    converted: bool = False,
    sized_loops: bool = False,
    notes_widenings: bool = False,
    grows_lists: bool = False,
) -> TraceResult:
    """Run ``function`` on one tracer for each spec and record its operations.

    ``traffic`` is that of the machine that the program is for (:mod:`zenith.ir.numerics`), and so is ``sized_loops``:
    whether sizes may differ from turn to turn of a loop. A ``converted`` function may
    write into its arguments, and SizeNeeded is raised for integers among them that it uses as sizes.
    ``notes_widenings`` is for functions in which NumPy's rules of promotion are the user's. With ``grows_lists`` loops
    may append to lists that a converted function makes, or PlainListsNeeded is raised.
    ``function`` returns a flat sequence of traced values, NumPy arrays, numbers and sizes. Raises TraceError when it
    returns anything else or does what a recorded program cannot.

    >>> from zenith.ir.types import float32
    >>> from zenith.ir.dims import symbol
    >>> print(trace(lambda x: [x + 1], [InputSpec("x", float32, (symbol("n"),), (3,))], "next").graph)
    def next(x: f32[n]) -> (f32[n]):
        v1 = literal(value=1.0, dtype=f32)
        v2 = broadcast(v1, shape=(n,), axes=())
        v3 = add(x, v2)
        return (v3,)
    """
    import zenith.numpy  # noqa: F401  fills the tables that tracers ask

    recorder = Recorder(name, specs, traffic, sized_loops)
    recorder.widenings = [] if notes_widenings else None
    recorder.lists = Lists() if converted and grows_lists and sized_loops else None
    if converted:
        recorder.converts = recorder.writes_arguments = True
        recorder.integers = frozenset(s.name for s in specs if s.size is None and not s.sizes and s.dtype.kind in "iu")
    with recording(recorder):
        values = [recorder.graph.add_input(input_type(spec), spec.name) for spec in specs]
        tracers = [
            argument(recorder, v, s.weak, s.name) if s.size is None else _size(recorder, s)
            for v, s in zip(values, specs, strict=True)
        ]
        outputs = list(call_user(function, tracers))
        check_lists(recorder)
        recorder.raises.check()
        recorder.check_end()
        results = [output_value(recorder, output) for output in outputs]
    has_effects = recorder.token is not None
    needed = {s for v in results for n in v.shape for s in recorder.canonical(n).symbols()}
    computed = {size.index: size.count for size in recorder.data_dependent_sizes if size.index in needed}
    raised = [graph_value(recorder, array) for array in recorder.raises.arrays()]
    token = [] if recorder.token is None else [recorder.token]
    recorder.graph.set_outputs([*results, *computed.values(), *raised, *token])
    graph = recorded_graph(recorder)
    graph.guards = _remaining(recorder.guards, recorder.equal)
    weak = tuple(is_weak(o) for o in outputs)
    numbers = tuple(i for i, o in enumerate(outputs) if is_number(o))
    specialized, residuals = tuple(recorder.specialized), tuple(recorder.residuals)
    guards, definitions = tuple(recorder.guards), tuple(recorder.definitions.items())
    loops = tuple(recorder.loops)
    return TraceResult(
        graph, tuple(specs), guards, weak, numbers, specialized, has_effects, residuals, definitions, loops,
        tuple(computed), tuple(recorder.widenings or ()), tuple(recorder.raises.found),
    )  # fmt: skip


def _size(recorder: Recorder, spec: InputSpec) -> UserSize | np.generic:
    """An integer that is a size; a negative one is the number itself, for which the program is then made."""
    assert spec.size is not None
    kind = None if spec.weak else spec.dtype.numpy
    if spec.number < 0:
        return spec.number if kind is None else kind.type(spec.number)
    return TracedSize(recorder, recorder.canonical(spec.size), kind)


def call_user(function: Callable[..., T], tracers: Sequence[object]) -> T:
    """Call the user's function; NumPy's errors about traced values become Zenith's (:func:`explained`).

    NumPy hides a TraceError in a ValueError when an element of its array is set.
    """
    try:
        return function(*tracers)
    except RAISED as error:
        if isinstance(error.__cause__, TraceError):
            raise error.__cause__ from None
        known = explained(error)
        if known is None:
            raise
        raise known from error


def check_lists(recorder: Recorder) -> None:
    """PlainListsNeeded where the function has needed lists of Python's, also if it has swallowed that."""
    if recorder.lists is not None and recorder.lists.refused is not None:
        raise recorder.lists.refused


def is_number(output: object) -> bool:
    """Whether a result of a traced function is a number in NumPy, which no write in place changes."""
    if isinstance(output, Tracer):
        return not output.ndim and output.memory.access == NUMBER
    return not isinstance(output, np.ndarray)


def output_value(recorder: Recorder, output: Any) -> Value:
    """A result of a traced function as a value of its graph; TraceError for one that is no array."""
    if isinstance(output, Unsized):
        output = output.array()
    if isinstance(output, TracedSize):
        output = output.as_array()
    elif isinstance(output, (bool, int, float, complex, np.generic, np.ndarray)):
        output = np.asarray(output)
        known_dtype(output.dtype)
    if not isinstance(output, (Tracer, np.ndarray)):
        raise TraceError(
            f"{recorder.graph.name} returned a {type(output).__name__}, which is no array",
            where=user_line(),
            fix=how_to_register(output) or "return arrays and numbers, in tuples, lists and dictionaries if you like",
        )
    return graph_value(recorder, output)


def recorded_graph(recorder: Recorder) -> Graph:
    """The graph of a trace, with the sizes that it has unified: rules ask whether an axis has size 1."""
    graph = substitute_sizes(recorder.graph, recorder.equal) if recorder.equal else recorder.graph
    return with_bodies(graph, recorder.demands)


def substitute_sizes(graph: Graph, sizes: Mapping[str, Dim]) -> Graph:
    """The graph with size symbols replaced everywhere; types follow from the primitives' rules."""
    new = Graph(graph.name)
    new.constants, new.weights = dict(graph.constants), graph.weights
    moved: dict[tuple[int, int], Value] = {}
    for number, node in graph.nodes():
        if node.primitive.name == "input":
            type = node.types[0]
            assert isinstance(type, ArrayType)
            type = type.with_shape(d.substitute(sizes) for d in type.shape)
            results: tuple[Value, ...] = (new.add_input(type, node.params["name"], node.line),)
        else:
            args = [moved[a.node, a.output] for a in graph.args(number)]
            node = node.with_bodies(lambda body: substitute_sizes(body, sizes))
            params = params_.substitute(node.primitive.params, node.params, sizes)
            results = new.add(node.primitive, args, params, node.line)
        moved.update({(number, i): r for i, r in enumerate(results)})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    return new


def _remaining(guards: Sequence[Guard], sizes: Mapping[str, Dim]) -> tuple[Guard, ...]:
    """Guards in the graph's own sizes, without those that now always hold."""
    found: dict[Guard, None] = {}
    for guard in guards:
        left, right = guard.left.substitute(sizes), guard.right.substitute(sizes)
        if prove(left, guard.relation, right) is not True:
            found.setdefault(Guard(guard.kind, left, guard.relation, right, guard.reason, guard.line, guard.error))
    return tuple(found)
