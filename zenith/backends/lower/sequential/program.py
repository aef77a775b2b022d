"""The kernel of a loop that stands in a program: it runs some turns a launch, so that a call can be interrupted.

The loop's state is in the memory of its results, where the planner copies the start. A launch takes it from there, runs
until the loop ends or its *fuel* is used up, a number of turns of this loop and of those in it, and puts it back; it
is launched again as long as the loop has not ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zenith.backends.emit import named
from zenith.backends.expressions import Apply, Expr, Load, Name, Number
from zenith.backends.kernel import Buffer, Kernel, Statement, Store, While
from zenith.backends.lower.nest import body_symbols, with_used_buffers
from zenith.backends.lower.sequential.arrays import Array, Unsuitable, Writer, is_number, parts, real_shape
from zenith.backends.lower.sequential.carried import Carried
from zenith.backends.lower.sequential.kernel import GraphWriter, position
from zenith.backends.lower.sequential.updates import indices_of
from zenith.backends.lower.words import WORDS, refuse_words
from zenith.ir.dims import Dim, dim, maximum, product, row_major
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import ArrayType, bool_, int64

FUEL = 1 << 18  # turns of a launch: a millisecond or some
COST = 1 << 10  # unknown; there is one task
TURN, GOING = "turn_state", "going"  # buffers: the number of the next turn, whether there is one


@dataclass(frozen=True, slots=True)
class SequentialLoop:
    """A loop as a kernel on ``p0`` ..., its arguments, and ``out0`` ..., its results.

    ``carried`` are pairs of an argument and the result that begins with its value. ``counted`` says that ``turn_state``
    counts turns, and must be 0 at the start.
    """

    kernel: Kernel
    carried: tuple[tuple[int, int], ...]
    counted: bool


def lower_sequential(
    node: Node, types: Sequence[ArrayType], integers: Mapping[int, Dim] | None = None, depth: int = 0,
    facts: Sequence[Dim] = (),
) -> SequentialLoop:  # fmt: skip
    """A ``scan`` or ``while_loop`` as one kernel; Unsuitable with the reason where it is none.

    ``integers`` are the arguments, by number, whose values are known. ``depth`` loops are around it; ``facts`` are at
    least 0.
    """
    outer = Graph("loop")
    args = [outer.add_input(type, f"p{i}") for i, type in enumerate(types)]
    results = outer.add_record(node, tuple(args))
    found = set(body_symbols(outer))
    symbols = tuple(sorted(found - {n.params.get("index", "") for n in outer.walk()}))
    refuse_words(tuple(found))
    named_values = [(f"p{i}", v, "in") for i, v in enumerate(args)] + [
        (f"out{k}", v, "out") for k, v in enumerate(results)
    ]
    buffers = [Buffer(name, v.dtype.real, product(real_shape(v)), role) for name, v, role in named_values]
    buffers += [Buffer(TURN, int64, dim(1), "out"), Buffer(GOING, bool_, dim(1), "out")]
    writer = Writer(WORDS | {b.name for b in buffers} | found, found - set(symbols), depth + 1)
    writer.intervals.facts = tuple(facts)
    counted = node.primitive.name == "scan" or bool(node.params["index"])
    loop = _Outermost(outer, writer, node, args, results, integers or {})
    carried = loop.write()
    statements = tuple(writer.levels[0].statements)
    made = Kernel(
        "kernel", "sequential_loop", tuple(buffers), symbols, dim(1), dim(COST), statements, dim(0), wide=False
    )
    return SequentialLoop(named(with_used_buffers(made)), carried, counted)


class _Outermost:
    """The loop of the program, with its state in buffers."""

    def __init__(
        self, outer: Graph, writer: Writer, node: Node, args: Sequence[Value], results: Sequence[Value],
        integers: Mapping[int, Dim],
    ) -> None:  # fmt: skip
        self.integers = integers
        self.node, self.args, self.results, self.writer = node, args, results, writer
        self.graph = GraphWriter(outer, writer)
        self.e = self.graph.elements
        self.fuel = self.e.fresh("fuel")
        self.graph.fuel = self.fuel

    def write(self) -> tuple[tuple[int, int], ...]:
        """Write the loop; the pairs of an argument and the result that begins with it."""
        scan = self.node.primitive.name == "scan"
        params = self.node.params
        self.first = params["captured"] if scan else params["condition_captured"] + params["body_captured"]
        self.count = params["carried"] if scan else len(self.results)
        pairs = tuple((self.first + k, k) for k in range(self.count))
        for number, value in enumerate(self.args):
            is_start = self.first <= number < self.first + self.count
            name = f"out{number - self.first}" if is_start else f"p{number}"
            if is_number(value):
                loads = [Load(name, dim(k), value.dtype.real) for k, _ in enumerate(parts(value))]
                names = [self.e.let(load) for load in loads]
                self.e.put_number(value, names)
                if not is_start:
                    self.writer.intervals.note(names[0], self.integers.get(number))
            else:
                self.e.put(value, Array(name, 0, real_shape(value), value.dtype.real))
        self.e.assign(self.fuel, Number(FUEL, int64))
        if scan:
            self._scan()
        else:
            self._while()
        return pairs

    def _carried(self, values: Sequence[Value]) -> Carried:
        carried = self.graph.start(values, self.args[self.first : self.first + self.count])
        carried.starts = [self.integers.get(self.first + k) for k in range(self.count)]
        return carried

    def _scan(self) -> None:
        params, body = self.node.params, self.node.params["body"]
        length = maximum(params["length"], 0)
        carried = self._carried(body.inputs[self.first : self.first + self.count])
        turn, at = self.graph.turn_of(self.node, length)
        self.e.assign(turn, Load(TURN, dim(0), int64))
        self.e.open(turn)
        within = self.e.let(Apply("x < y", (Name(turn, int64), position(length)), bool_))
        holds = self.e.let(Apply("x & y", (within, self._fueled()), bool_))
        before = self.e.close()
        self.e.open(turn)
        inner = self.graph.inner(body)
        with self.graph.counting(turn, at, self.node, self.first, carried):
            self.graph.enter(inner, body.inputs[: self.first], self.args[: self.first])
            carried.begin(inner, self.args[: self.first])
            wholes = self.args[self.first + self.count :]
            for value, whole in zip(body.inputs[self.first + self.count :], wholes, strict=True):
                self.graph.slice_of_turn(inner, value, whole, at)
            inner.write()
            self._stack(inner, at)
            carried.end(inner, body.outputs)
        self.e.assign(turn, Apply("x + y", (Name(turn, int64), Number(1, int64)), int64))
        self.graph.burn(dim(1))
        self.e.append(While(before, holds, self.e.close()))
        self.e.append(Store(TURN, dim(0), Name(turn, int64)))
        self._finish(carried, within)

    def _stack(self, inner: GraphWriter, at: Dim) -> None:
        """Store a turn's results."""
        for value, k in zip(inner.graph.outputs[self.count :], range(self.count, len(self.results)), strict=True):
            for index in indices_of(real_shape(value)):
                place = row_major(real_shape(self.results[k]), (at, *index))
                self.e.append(Store(f"out{k}", place, inner.elements.element(value, index)))

    def _while(self) -> None:
        params, body = self.node.params, self.node.params["body"]
        carried = self._carried(body.inputs[params["body_captured"] :])
        truth: list[Expr] = []

        def going(holds: Expr) -> Expr:
            truth.append(holds if isinstance(holds, Name) else self.e.let(Apply("x", (holds,), bool_)))
            return self.e.let(Apply("x & y", (truth[0], self._fueled()), bool_))

        index = params["index"]
        if index:
            self.e.assign(index, Load(TURN, dim(0), int64))
        self.e.append(self.graph.turns(self.node, self.args, carried, going))
        if index:
            self.e.append(Store(TURN, dim(0), Name(index, int64)))
        self._finish(carried, truth[0])

    def _fueled(self) -> Expr:
        return self.e.let(Apply("x > y", (Name(self.fuel, int64), Number(0, int64)), bool_))

    def _finish(self, carried: Carried, going: Expr) -> None:
        """Put the state back."""
        stores: list[Statement] = []
        for k, (value, own) in enumerate(zip(carried.values, carried.names, strict=True)):
            if is_number(value):
                stores += [Store(f"out{k}", dim(i), Name(name, value.dtype.real)) for i, name in enumerate(own)]
        for statement in (*stores, Store(GOING, dim(0), going)):
            self.e.append(statement)


def start_kernel() -> Kernel:
    """The kernel that begins to count turns."""
    buffers = (Buffer("out0", int64, dim(1), "out"),)
    body = (Store("out0", dim(0), Number(0, int64)),)
    return named(Kernel("kernel", "start_of_loop", buffers, (), dim(1), dim(1), body, dim(0), wide=False))


__all__ = ["SequentialLoop", "Unsuitable", "lower_sequential", "start_kernel"]
