"""A loop over scalars as one kernel: its turns one after the other, numbers in variables, arrays changed in place.

It is for loops whose turns compute numbers, read elements, and write elements or a few at a time; and for loops and
branches in them. Such a turn takes nanoseconds, a launch of a kernel for each of its operations many times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from zenith.backends.expressions import Apply, Expr, Name, Number, Position
from zenith.backends.kernel import Bind, Branch, Loop, Store
from zenith.backends.lower.elements import Index
from zenith.backends.lower.sequential.arrays import (
    Array,
    NotYet,
    SequentialElements,
    Unsuitable,
    Writer,
    is_number,
    parts,
    real_shape,
)
from zenith.backends.lower.sequential.carried import Carried, final_array
from zenith.backends.lower.sequential.counters import fact_of, step_of
from zenith.backends.lower.sequential.intervals import Counter
from zenith.backends.lower.sequential.parallel import Access, Turns
from zenith.backends.lower.sequential.updates import AT_ONCE, Update, check_lazy, indices_of, is_few, writes
from zenith.backends.lower.sequential.while_loops import write_while
from zenith.ir.dims import Dim, dim, maximum, row_major, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Elements, Scalar
from zenith.ir.types import NDArray, int64


@dataclass
class GraphWriter:
    """Writes the nodes of a graph; that of the program has the kernel's outermost loop alone."""

    graph: Graph
    writer: Writer
    is_program: bool = True
    elements: SequentialElements = field(init=False)
    groups: dict[int, SequentialElements] = field(default_factory=dict)  # those of groups that have begun

    def __post_init__(self) -> None:
        self.elements = SequentialElements(self.graph, self.writer)

    def inner(self, graph: Graph) -> GraphWriter:
        """The writer of a subgraph."""
        return GraphWriter(graph, self.writer, False)

    def write(self) -> None:
        """Write all nodes in their order."""
        for number, node in self.graph.nodes():
            write = _NODES.get(node.primitive.name)
            if node.primitive.name == "input":
                continue
            if write is not None:
                write(self, number, node)
            elif isinstance(node.primitive.lowering, (Scalar, Elements)) or node.primitive.name == "literal":
                self._compute(self.elements, self.graph.results(number), self.graph.results(number))
            else:
                raise Unsuitable(f"{node.primitive.name} in its body is no elementwise operation")

    def constant(self, number: int, node: Node) -> None:
        """A number that is known, such as a complex literal, which is a pair in memory elsewhere."""
        array, (result,) = self.graph.constants.get(node.params["id"]), self.graph.results(number)
        if array is None or not is_number(result):
            raise Unsuitable("an array of constants is made in its body")
        self.elements.put_number(result, [Number(x, result.dtype.real) for x in _real(array).ravel().tolist()])

    def number(self, value: Value) -> list[Expr]:
        """The expression of a number, or of its parts."""
        return [self.elements.element(value, index) for index in parts(value)]

    def _compute(self, source: SequentialElements, values: Sequence[Value], results: Sequence[Value]) -> None:
        """Take results from a group's values: a few elements at once, those of arrays where they are asked for."""
        for value, result in zip(values, results, strict=True):
            if is_few(result.shape, AT_ONCE):
                found = {index: source.element(value, index) for index in indices_of(result.shape)}
                self.elements.put_elements(result, found, partial(source.element, value))
            elif source is not self.elements:
                source.compute_numbers(value)
                self.elements.share(result, source, value)

    # --- groups ---

    def fused(self, number: int, node: Node) -> None:
        """A group: its numbers, then what it writes."""
        body: Graph = node.params["body"]
        source = self._group(number, node)
        for value, argument in zip(body.inputs, self.graph.args(number), strict=True):
            source.share(value, self.elements, argument)
        pairs = list(zip(body.outputs, self.graph.results(number), strict=True))
        writing = [p for p in pairs if writes(body, p[0])]
        others = [p for p in pairs if p not in writing]
        self._compute(source, [v for v, _ in others], [r for _, r in others])
        for value, result in writing:
            update = Update(source, body, value)
            self._read_before(number, body, value)
            self.elements.put(result, update.store())

    def _group(self, number: int, node: Node) -> SequentialElements:
        """The elements of a group, on those of its inputs that are computed by now."""
        if number not in self.groups:
            body: Graph = node.params["body"]
            check_lazy(body, self.writer)
            source = self.groups[number] = SequentialElements(body, self.writer)
            for value, argument in zip(body.inputs, self.graph.args(number), strict=True):
                source.share(value, self.elements, argument)
        return self.groups[number]

    def _read_before(self, number: int, body: Graph, value: Value) -> None:
        """Before a group writes an array in place: read what later groups need of the array as it is."""
        written = body.args(value.node)[0]
        before = self.graph.args(number)[body.inputs.index(written)] if written in body.inputs else None
        if before is None:
            return
        for output, user, _ in self.graph.users(before.node):
            node = self.graph.node(user)
            if output == before.output and user > number and node.primitive.name == "fused":
                self._read_group(self._group(user, node), node.params["body"])

    def _read_group(self, source: SequentialElements, body: Graph) -> None:
        """The elements that a group needs, as far as they are known; it finds them bound when it is written."""
        for value in body.outputs:
            try:
                if writes(body, value):
                    Update(source, body, value)
                elif is_few(value.shape, AT_ONCE):
                    for index in indices_of(value.shape):
                        source.element(value, index)
            except NotYet:
                continue

    def view(self, number: int, node: Node) -> None:
        """The same elements under another shape, the first ones, or as complex numbers."""
        (argument,), (result,) = self.graph.args(number), self.graph.results(number)
        array = self.elements.arrays.get((argument.node, argument.output))
        if array is not None:
            self.elements.put(result, Array(array.buffer, array.version, real_shape(result), array.dtype))
        elif is_number(result) and node.primitive.name != "as_parts":
            self.elements.put_number(result, [self.elements.element(argument, index) for index in parts(result)]
                                     if node.primitive.name == "of_parts" else self.number(argument))  # fmt: skip
        elif node.primitive.name != "reshape":
            self.elements.share(result, self.elements, argument)
        else:
            self._reshaped(result, argument)

    def _reshaped(self, result: Value, argument: Value) -> None:
        """A computed array with other axes of size 1."""
        axes = [a for a, n in enumerate(result.shape) if n != 1]
        if [result.shape[a] for a in axes] != [n for n in argument.shape if n != 1] or result.dtype.is_complex:
            raise Unsuitable("a view of an array that is computed in its body")
        elements = self.elements

        def read(index: Index) -> Expr:
            found = iter(index[a] for a in axes)
            return elements.element(argument, tuple(dim(0) if n == 1 else next(found) for n in argument.shape))

        elements.sources[result.node, result.output] = read

    # --- loops and branches ---

    def enter(self, inner: GraphWriter, inputs: Sequence[Value], args: Sequence[Value]) -> None:
        """Give a subgraph's inputs the values of arguments."""
        for value, argument in zip(inputs, args, strict=True):
            inner.elements.share(value, self.elements, argument)

    def start(self, values: Sequence[Value], args: Sequence[Value]) -> Carried:
        """The carried values of a loop, at their start."""
        carried = Carried(self, values)
        for value, argument in zip(values, args, strict=True):
            if is_number(value):
                names = [self.elements.fresh("carry") for _ in parts(value)]
                given = self.number(argument)
                for name, part in zip(names, given, strict=True):
                    self.elements.assign(name, part)
                carried.names.append(tuple(names))
                carried.starts.append(self.writer.intervals.value(given[0]))
            else:
                array = self.elements.arrays.get((argument.node, argument.output))
                if array is None:
                    raise Unsuitable("an array is made in its body")
                self.writer.require_current(array)
                carried.names.append((array.buffer,))
                carried.starts.append(None)
        return carried

    def scan(self, number: int, node: Node) -> None:
        """A loop with a number of turns."""
        body, first, count = node.params["body"], node.params["captured"], node.params["carried"]
        args, length = self.graph.args(number), maximum(node.params["length"], 0)
        if len(node.types) > count and not self.is_program:
            raise Unsuitable("a loop in its body stacks results")
        carried = self.start(body.inputs[first : first + count], args[first : first + count])
        turn, at = self.turn_of(node, length)
        self.elements.open(turn)
        inner = self.inner(body)
        with self.counting(turn, at, node, first, carried), self.inside():
            if self.is_program:
                self.writer.turns = self._turns(turn, length, body, carried)
            self.enter(inner, body.inputs[:first], args[:first])
            carried.begin(inner, args[:first])
            for value, whole in zip(body.inputs[first + count :], args[first + count :], strict=True):
                self.slice_of_turn(inner, value, whole, at)
            inner.write()
            for k in range(count, len(node.types)):
                self.stack(inner, body.outputs[k], self.graph.results(number)[k], at)
            carried.end(inner, body.outputs)
        self.elements.append(Loop(turn, dim(0), length, False, self.elements.close()))
        carried.finish(self.graph.results(number))

    def _turns(self, turn: str, length: Dim, body: Graph, carried: Carried) -> Turns:
        """What is known of the program's loop where its turns begin."""
        intervals, read = self.writer.intervals, {*body.outputs}
        known = {name: intervals.known[name] for own in carried.names for name in own if name in intervals.known}
        others = [
            v for v, own in zip(carried.values, carried.names, strict=True) if is_number(v) and own[0] not in known
        ]
        return Turns(turn, length, known, not any(v in read or list(body.users(v.node)) for v in others))

    def stack(self, inner: GraphWriter, value: Value, result: Value, at: Dim) -> None:
        """Store a turn's result, in the loop of a program."""
        for index in indices_of(real_shape(value)):
            place = row_major(real_shape(result), (at, *index))
            self.writer.accesses.append(Access(f"out{result.output}", real_shape(result), (at, *index), True))
            self.elements.append(Store(f"out{result.output}", place, inner.elements.element(value, index)))

    def turn_of(self, node: Node, length: Dim) -> tuple[str, Dim]:
        """The variable that counts the turns of a scan, and the number of the step: its index, which is the variable
        itself unless steps go backwards.
        """
        index, reverse = node.params["index"], node.params["reverse"]
        turn = index if index and not reverse else self.elements.fresh("turn")
        return turn, length - 1 - symbol(turn) if reverse else symbol(turn)

    @contextmanager
    def counting(self, turn: str, at: Dim, node: Node, first: int, carried: Carried) -> Iterator[None]:
        """The turns of a scan: their number is a counter, and carried integers that change by a step follow from it."""
        intervals, last = self.writer.intervals, dim(node.params["length"]) - 1
        body, index = node.params["body"], node.params["index"]
        counters = [Counter(turn, dim(0), last)]
        if index and index != turn:
            self.elements.append(Bind(index, at))
            counters.append(Counter(index, dim(0), last))
        with intervals.within(*counters):
            for k, (own, start) in enumerate(zip(carried.names, carried.starts, strict=True)):
                value = body.inputs[first + k]
                step = step_of(body, body.outputs[k], value) if is_number(value) and value.dtype == int64 else 0
                if start is not None and step:
                    intervals.known[own[0]] = start + symbol(turn) * step
            yield

    def slice_of_turn(self, inner: GraphWriter, value: Value, whole: Value, at: Dim) -> None:
        """The slice of an array along its first axis, of a turn."""
        elements = self.elements

        def read(index: Index) -> Expr:
            return elements.element(whole, (at, *index))

        inner.elements.sources[value.node, value.output] = read

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The turns of a loop; the program's own is where the kernel's depth begins."""
        if self.is_program:
            yield
        else:
            with self.writer.deeper():
                yield

    def sized(self, number: int, node: Node) -> None:
        """What has a size that is a number: a variable of the kernel."""
        count, *operands = self.graph.args(number)
        body, index = node.params["body"], node.params["index"]
        self.elements.assign(index, self.number(count)[0])
        inner = self.inner(body)
        with self.writer.intervals.within(Counter(index, dim(0), node.params["most"])):
            self.enter(inner, body.inputs, operands)
            inner.write()
        for result, value in zip(self.graph.results(number), body.outputs, strict=True):
            self.elements.share(result, inner.elements, value)

    def switch(self, number: int, node: Node) -> None:
        """A branch: all cases give the same variables values, and write the same arrays."""
        index, *operands = self.graph.args(number)
        results, cases = self.graph.results(number), []
        at = self.elements.let(Apply("x", tuple(self.number(index)), int64), stem="case")
        names = [[self.elements.fresh("chosen") for _ in parts(r)] if is_number(r) else [] for r in results]
        before, ends_ = dict(self.writer.versions), []
        for branch, fact in zip(node.params["branches"], self._facts(node, index), strict=True):
            self.writer.versions = dict(before)
            self.elements.open()
            inner = self.inner(branch)
            self.enter(inner, branch.inputs, operands)
            with self.writer.intervals.where(fact):
                inner.write()
            ends_.append([None if own else final_array(inner, v) for v, own in zip(branch.outputs, names, strict=True)])
            for value, own in zip(branch.outputs, names, strict=True):
                for name, part in zip(own, inner.number(value) if own else (), strict=True):
                    self.elements.assign(name, part)
            _only(before, self.writer.versions, [a for a in ends_[-1] if a is not None])
            cases.append(self.elements.close())
        self.elements.append(Branch(symbol(at.name), 0, tuple(cases), exhaustive=True))
        self.writer.versions = dict(before)
        for result, own, arrays in zip(results, names, zip(*ends_, strict=True), strict=True):
            if own:
                self.elements.put_number(result, [Name(name, result.dtype.real) for name in own])
            else:
                self.elements.put(result, self.writer.written(_one_buffer(arrays, result)))

    def _facts(self, node: Node, index: Value) -> list[Dim | None]:
        """What each case of a branch knows to be at least 0: of two, the first runs where a comparison is false."""
        count = len(node.params["branches"])
        if count != 2:
            return [None] * count
        fact = fact_of(self.graph, index, lambda v: self.writer.intervals.value(self.number(v)[0]))
        return [None, None] if fact is None else [-fact - 1, fact]


def _real(array: NDArray) -> NDArray:
    """An array's numbers, real and imaginary parts of complex ones one after the other."""
    return np.atleast_1d(array).view(array.real.dtype)


def _only(before: dict[str, int], after: dict[str, int], arrays: Sequence[Array]) -> None:
    """Unsuitable where a branch has written another buffer than those of its results."""
    changed = {buffer for buffer, version in after.items() if before.get(buffer, 0) != version}
    if changed - {a.buffer for a in arrays}:
        raise Unsuitable("a branch writes an array that it does not return")


def _one_buffer(arrays: Sequence[Array | None], result: Value) -> Array:
    found = [a for a in arrays if a is not None]
    if len({a.buffer for a in found}) != 1:
        raise Unsuitable("a branch chooses between arrays")
    return Array(found[0].buffer, 0, real_shape(result), result.dtype.real)


def position(at: Dim) -> Expr:
    """An index expression as an element."""
    return Number(at.static, int64) if at.static is not None else Position(at)


_NODES: dict[str, Callable[[GraphWriter, int, Node], None]] = {
    "fused": GraphWriter.fused, "scan": GraphWriter.scan, "while_loop": write_while, "switch": GraphWriter.switch,
    "constant": GraphWriter.constant, "sized": GraphWriter.sized, "reshape": GraphWriter.view,
    "as_parts": GraphWriter.view, "of_parts": GraphWriter.view, "prefix": GraphWriter.view,
}  # fmt: skip
