"""The kernel of a loop that stands in a program: numbers come from its arguments and go to its results.

Arrays are changed in the memory of the results, to which the planner copies what they begin with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from zenith.backends.emit import named
from zenith.backends.expressions import Expr, Load
from zenith.backends.kernel import Assign, Branch, Buffer, Kernel, Loop, Store, TaskLoop
from zenith.backends.lower.nest import body_symbols, with_used_buffers
from zenith.backends.lower.sequential.arrays import Array, Unsuitable, Writer, is_number, parts, real_shape
from zenith.backends.lower.sequential.dead_code import without_dead_code
from zenith.backends.lower.sequential.kernel import GraphWriter, position
from zenith.backends.lower.sequential.library_calls import with_library_calls
from zenith.backends.lower.sequential.metering import metered
from zenith.backends.lower.sequential.parallel import Turns, cost_of, dependence
from zenith.backends.lower.sequential.scalar_replacement import scalar_replaced
from zenith.backends.lower.words import WORDS, refuse_words
from zenith.ir.dims import Dim, dim, product, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import ArrayType

COST = 1 << 10  # unknown; there is one task
END = "end"  # as kernels call the end of the interval of tasks that they run


@dataclass(frozen=True, slots=True)
class SequentialLoop:
    """A loop as kernels on ``p0`` ..., its arguments, and ``out0`` ..., its results.

    ``copied`` are pairs of an argument and the result that begins with its elements. Without a ``dependence`` between
    turns each is a task, and a kernel before stores the numbers that the loop begins with.
    """

    kernels: tuple[Kernel, ...]
    copied: tuple[tuple[int, int], ...]
    dependence: str


def lower_sequential(
    node: Node, types: Sequence[ArrayType], integers: Mapping[int, Dim] | None = None, depth: int = 0,
    facts: Sequence[Dim] = (), shared: Collection[tuple[int, int]] = (),
) -> SequentialLoop:  # fmt: skip
    """A ``scan`` or ``while_loop`` as a kernel; Unsuitable with the reason where it is none.

    ``integers`` are the arguments, by number, whose values are known. ``depth`` loops are around it; ``facts`` are at
    least 0. Pairs of an argument and a result in ``shared`` have the same memory. A loop with parallel turns may reduce
    windows of several axes in them: other loops leave these to the vectors and threads of kernels of their own.
    """
    given = types, integers or {}, depth, facts, shared
    try:
        return _lowered(node, *given, windows=False)
    except Unsuitable as why:
        reason = why
    try:
        loop = _lowered(node, *given, windows=True)
    except Unsuitable:
        raise reason from None
    if loop.dependence:
        raise reason
    return loop


def _lowered(
    node: Node, types: Sequence[ArrayType], known: Mapping[int, Dim], depth: int, facts: Sequence[Dim],
    shared: Collection[tuple[int, int]], *, windows: bool,
) -> SequentialLoop:  # fmt: skip
    """The loop as a kernel; ``windows`` says whether its reductions may be of several axes."""
    outer = Graph("loop")
    args = [outer.add_input(type, f"p{i}") for i, type in enumerate(types)]
    results = outer.add_record(node, tuple(args))
    found = set(body_symbols(outer)).union(*(value.symbols() for value in known.values()))
    turns = {n.params.get("index", "") for n in outer.walk()}  # also those that no size needs: names of variables
    symbols = tuple(sorted(found - turns))
    refuse_words(tuple(found))
    buffers = [_buffer(f"p{i}", v, "in") for i, v in enumerate(args)]
    buffers += [_buffer(f"out{k}", v, "out") for k, v in enumerate(results)]
    writer = Writer(WORDS | {b.name for b in buffers} | found | turns, found & turns, depth + 1)
    writer.intervals.facts, writer.windows = tuple(facts), windows
    starts = _starts(node, len(results))
    if any(starts.get(i) != k for i, k in shared):
        raise Unsuitable("an argument has the memory of another one's result")
    graph = GraphWriter(outer, writer)
    _take(graph, args, starts, known, {i for i, _ in shared})
    graph.write()
    copied = tuple((i, k) for i, k in starts.items() if not is_number(args[i]))
    made = Kernel("kernel", "sequential_loop", tuple(buffers), symbols, dim(1), dim(COST), (), dim(0), wide=False)
    why = dependence(writer.turns, writer.accesses, symbols)
    if writer.turns is not None and not why:
        return SequentialLoop(_parallel(made, graph, writer.turns, results), copied, why)
    _give(graph, results)
    statements = metered(scalar_replaced(writer.levels[0].statements, graph.elements.fresh), graph.elements.fresh)
    return SequentialLoop((_finished(replace(made, body=with_library_calls(statements))),), copied, why)


def _parallel(made: Kernel, graph: GraphWriter, turns: Turns, results: Sequence[Value]) -> tuple[Kernel, ...]:
    """A kernel with a task for each turn: whoever runs the last one stores numbers. One before stores their start."""
    *before, loop = scalar_replaced(graph.writer.levels[0].statements, graph.elements.fresh)
    assert isinstance(loop, Loop)
    begins = [Assign(name, position(value)) for name, value in turns.known.items()]
    graph.elements.open()
    _give(graph, results)
    numbers = graph.elements.close()
    last = (Branch(turns.length - symbol(END), 0, (numbers,)),) if numbers else ()
    tasks = TaskLoop(turns.turn, turns.length, None, (), (*begins, *loop.body), False)
    statements = (*metered((*before, tasks), graph.elements.fresh), *last)
    cost = cost_of(loop.body, turns, made.sizes)
    kernel = _finished(replace(made, doc="parallel_loop", body=statements, tasks=turns.length, cost=cost))
    start = replace(made, doc="start_of_loop", body=(*before, *numbers))
    return (_finished(start), kernel) if numbers else (kernel,)


def _finished(kernel: Kernel) -> Kernel:
    return named(with_used_buffers(replace(kernel, body=without_dead_code(kernel.body))))


def _buffer(name: str, value: Value, role: str) -> Buffer:
    return Buffer(name, value.dtype.real, product(real_shape(value)), role)


def _starts(node: Node, results: int) -> dict[int, int]:
    """The arguments with which carried values begin, and these values' results, by number."""
    params = node.params
    if node.primitive.name == "scan":
        return {params["captured"] + k: k for k in range(params["carried"])}
    return {params["condition_captured"] + params["body_captured"] + k: k for k in range(results)}


def _take(
    graph: GraphWriter, args: Sequence[Value], starts: Mapping[int, int], integers: Mapping[int, Dim],
    in_place: Collection[int],
) -> None:  # fmt: skip
    """Give the loop its arguments: numbers are loaded, from their results' memory where that is the same."""
    elements = graph.elements
    for number, value in enumerate(args):
        own = f"out{starts[number]}" if number in starts else f"p{number}"
        if not is_number(value):
            elements.put(value, Array(own, 0, real_shape(value), value.dtype.real))
        elif number in integers:
            elements.put_number(value, [position(integers[number])])
        else:
            name = own if number in in_place else f"p{number}"
            loads = [Load(name, dim(k), value.dtype.real) for k, _ in enumerate(parts(value))]
            elements.put_number(value, [elements.let(load) for load in loads])


def _give(graph: GraphWriter, results: Sequence[Value]) -> None:
    """Store the numbers that the loop has ended with."""
    numbers: list[tuple[int, list[Expr]]] = [(k, graph.number(v)) for k, v in enumerate(results) if is_number(v)]
    for k, found in numbers:
        for i, expr in enumerate(found):
            graph.elements.append(Store(f"out{k}", dim(i), expr))


__all__ = ["SequentialLoop", "Unsuitable", "lower_sequential"]
