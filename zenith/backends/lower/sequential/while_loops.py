"""Loops that a condition ends, in a sequential kernel; where it only compares a counter, the turns are counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zenith.backends.expressions import Apply, Expr, Name, Number
from zenith.backends.kernel import Assign, Let, Loop, Statement, While
from zenith.backends.lower.sequential.arrays import is_number
from zenith.backends.lower.sequential.carried import Carried
from zenith.backends.lower.sequential.counters import Definition, Progress, affine, progress
from zenith.backends.lower.sequential.intervals import Counter
from zenith.ir.dims import Dim, dim, maximum, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import int64

if TYPE_CHECKING:
    from zenith.backends.lower.sequential.kernel import GraphWriter


def write_while(writer: GraphWriter, number: int, node: Node) -> None:
    """A ``while_loop``."""
    params, args = node.params, writer.graph.args(number)
    last = params["condition_captured"] + params["body_captured"]
    carried = writer.start(params["body"].inputs[params["body_captured"] :], args[last:])
    loop = _WhileLoop(writer, node, args, carried, _counter(node, carried))
    count = loop.count()
    if count is None and loop.index:
        writer.elements.assign(loop.index, Number(0, int64))
    with writer.inside():
        writer.elements.append(loop.until_false() if count is None else loop.counted(count))
    carried.finish(writer.graph.results(number))


def _counter(node: Node, carried: Carried) -> Progress | None:
    """The carried integer that a loop moves towards a bound, if there is one."""
    found = progress(node)
    if found is None or not is_number(carried.values[found.number]) or carried.values[found.number].dtype != int64:
        return None
    return found


@dataclass(frozen=True, slots=True)
class _WhileLoop:
    """A loop whose carried values have been started; ``counter`` is the one that moves towards a bound."""

    writer: GraphWriter
    node: Node
    args: Sequence[Value]
    carried: Carried
    counter: Progress | None

    @property
    def index(self) -> str:
        """The variable with the number of the turn, where sizes need it."""
        return str(self.node.params["index"])

    def until_false(self) -> While:
        """Turns as long as the condition holds."""
        before, holds = self._condition()
        step = Apply("x + y", (Name(self.index, int64), Number(1, int64)), int64)
        following = (Assign(self.index, step),) if self.index else ()
        return While(before, holds, (*self._turn(), *following), self._most())

    def _most(self) -> Dim | None:
        """No fewer turns than there may be, where a counter moves towards a bound that is known before."""
        counter = self.counter
        start = None if counter is None else self.carried.starts[counter.number]
        stop = None if counter is None else self._bound(counter.bound)
        if counter is None or start is None or stop is None or counter.step == 0:
            return None
        return (stop - start if counter.step > 0 else start - stop) + 1

    def counted(self, count: Dim) -> Loop:
        """A number of turns that is known before the first."""
        return Loop(self.index or self.writer.elements.fresh("turn"), dim(0), count, False, self._turn())

    def count(self) -> Dim | None:
        """The number of turns, where the condition is no more than that a counter is below a bound."""
        counter = self.counter
        if counter is None or not counter.is_condition or (counter.step, counter.comparison) != (1, "lt"):
            return None
        start, stop = self.carried.starts[counter.number], self._bound(counter.bound)
        if start is not None and stop is not None:
            return maximum(stop - start, 0)
        found = self._number(counter.bound)
        if found is None:
            return None
        (name,) = self.carried.names[counter.number]
        turns = self.writer.elements.fresh("turns")  # no equal expression later: the counter is a variable
        self.writer.elements.append(Let(turns, Apply("x - y", (found, Name(name, int64)), int64)))
        return symbol(turns)

    def _condition(self) -> tuple[tuple[Statement, ...], Expr]:
        """The condition before a turn: statements, and whether it holds after them."""
        graph, first = self.node.params["condition"], self.node.params["condition_captured"]
        self.writer.elements.open()
        with self._started():
            inner = self._entered(graph, self.args[:first])
            holds = inner.number(graph.outputs[0])[0]
        return self.writer.elements.close(), holds

    def _turn(self) -> tuple[Statement, ...]:
        """The statements of a turn."""
        graph, first = self.node.params["body"], self.node.params["condition_captured"]
        self.writer.elements.open()
        with self._bounded():
            inner = self._entered(graph, self.args[first : first + self.node.params["body_captured"]])
            self.carried.end(inner, graph.outputs)
        return self.writer.elements.close()

    def _entered(self, graph: Graph, captured: Sequence[Value]) -> GraphWriter:
        """The writer of the condition or the body, once it has written the nodes."""
        inner = self.writer.inner(graph)
        self.writer.enter(inner, graph.inputs[: len(captured)], captured)
        self.carried.begin(inner, captured)
        inner.write()
        return inner

    @contextmanager
    def _started(self) -> Iterator[None]:
        """Before a turn: a counter is where it started, or nearer to the bound, or beyond."""
        counter, intervals = self.counter, self.writer.writer.intervals
        if counter is None:
            yield
            return
        start, (name,) = self.carried.starts[counter.number], self.carried.names[counter.number]
        if counter.step == 0 and not self._stays_positive(counter):
            start = None
        with intervals.within(Counter(name, *((start, None) if counter.step > 0 else (None, start)))):
            intervals.known[name] = symbol(name)
            yield

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """The turns: a carried integer that they move towards a bound is a counter."""
        counter, intervals = self.counter, self.writer.writer.intervals
        if counter is None:
            yield
            return
        start, last = self.carried.starts[counter.number], self._bound(counter.bound)
        if last is not None:
            last = last - counter.slack if counter.step > 0 else last + counter.slack
        (name,) = self.carried.names[counter.number]
        if counter.step == 0:
            start = start if self._stays_positive(counter) else None
        elif self.index and start is not None:
            with intervals.within(Counter(self.index, dim(0), dim(self.node.params["most"]))):
                intervals.known[name] = start + symbol(self.index) * counter.step
                yield
            return
        limits = (start, last) if counter.step > 0 else (last, start)
        with intervals.within(Counter(name, *limits)):
            intervals.known[name] = symbol(name)
            yield

    def _stays_positive(self, counter: Progress) -> bool:
        """Whether turns run for integers above 0 only: then a quotient is below the dividend."""
        bound = self._bound(counter.bound)
        return bound is not None and self.writer.writer.intervals.is_at_least_zero(bound + counter.slack - 1)

    def _number(self, bound: Definition) -> Expr | None:
        """A number that the loop captures, as an expression."""
        found = bound.resolved()
        return self._captured(found.value) if found.node.primitive.name == "input" else None

    def _captured(self, value: Value) -> Expr | None:
        """An input of the condition, as an expression."""
        if value.dtype != int64:
            return None
        return self.writer.number(self.args[list(self.node.params["condition"].inputs).index(value)])[0]

    def _bound(self, bound: Definition) -> Dim | None:
        """The number that the loop's bound is, as an expression of sizes and counters."""

        def captured(value: Value) -> Dim | None:
            number = self._captured(value)
            return None if number is None else self.writer.writer.intervals.value(number)

        return affine(bound, captured)
