"""A loop over scalars as one kernel: its turns one after the other, numbers in variables, arrays changed in place.

It is for loops whose turns compute numbers, read elements, and write elements or a few at a time; and for loops and
branches in them. Such a turn takes nanoseconds, a launch of a kernel for each of its operations many times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product as combinations

from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position
from zenith.backends.kernel import Assign, Branch, Loop, Store, While
from zenith.backends.lower.elements import Index, IndexBuilder
from zenith.backends.lower.sequential.arrays import Array, SequentialElements, Unsuitable, Writer
from zenith.backends.lower.sequential.bounds import ends
from zenith.ir.dims import Dim, dim, maximum, product, row_major, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Elements, Overwrite, Scalar, Scatter
from zenith.ir.types import ArrayType, int64

SMALL = 16  # elements of an array that are written by a statement each


def is_scalar(value: Value) -> bool:
    """Whether a value has one element."""
    return isinstance(value.type, ArrayType) and all(n == 1 for n in value.shape)


def _origin(value: Value) -> Index:
    return (dim(0),) * len(value.shape)


@dataclass
class GraphWriter:
    """Writes the nodes of a graph; ``fuel``, if any, is the variable that counts the turns of loops in it down."""

    graph: Graph
    writer: Writer
    fuel: str = ""
    elements: SequentialElements = field(init=False)

    def __post_init__(self) -> None:
        self.elements = SequentialElements(self.graph, self.writer)

    def inner(self, graph: Graph) -> GraphWriter:
        """The writer of a subgraph."""
        return GraphWriter(graph, self.writer, self.fuel)

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

    def scalar(self, value: Value) -> Expr:
        """The one element of a value."""
        return self.elements.element(value, _origin(value))

    def _compute(self, source: SequentialElements, values: Sequence[Value], results: Sequence[Value]) -> None:
        """Take results from a group's values: numbers at once, elements of arrays where they are asked for."""
        for value, result in zip(values, results, strict=True):
            if is_scalar(result):
                self.elements.put_scalar(result, source.element(value, _origin(value)))
            elif source is not self.elements:
                self.elements.share(result, source, value)

    # --- groups ---

    def fused(self, number: int, node: Node) -> None:
        """A group: its numbers, then what it writes."""
        body: Graph = node.params["body"]
        source = SequentialElements(body, self.writer)
        for value, argument in zip(body.inputs, self.graph.args(number), strict=True):
            source.share(value, self.elements, argument)
        results = self.graph.results(number)
        _check_lazy(body)
        pairs = list(zip(body.outputs, results, strict=True))
        writing = [p for p in pairs if isinstance(body.node(p[0].node).primitive.lowering, (Scatter, Overwrite))]
        others = [p for p in pairs if p not in writing]
        self._compute(source, [v for v, _ in others], [r for _, r in others])
        for value, result in writing:
            self.elements.put(result, _update(source, body, value))

    def view(self, number: int, node: Node) -> None:
        """The same elements under another shape."""
        (argument,), (result,) = self.graph.args(number), self.graph.results(number)
        array = self.elements.arrays.get((argument.node, argument.output))
        if array is not None:
            self.elements.put(result, Array(array.buffer, array.version, result.shape, array.dtype))
        elif is_scalar(result):
            self.elements.put_scalar(result, self.scalar(argument))
        else:
            raise Unsuitable("a view of an array that is computed in its body")

    # --- loops and branches ---

    def enter(self, inner: GraphWriter, inputs: Sequence[Value], args: Sequence[Value]) -> None:
        """Give a subgraph's inputs the values of arguments."""
        for value, argument in zip(inputs, args, strict=True):
            inner.elements.share(value, self.elements, argument)

    def start(self, values: Sequence[Value], args: Sequence[Value]) -> Carried:
        """The carried values of a loop, at their start."""
        carried = Carried(self, values)
        for value, argument in zip(values, args, strict=True):
            if is_scalar(value):
                name = self.elements.fresh("carry")
                self.elements.append(Assign(name, self.scalar(argument)))
                carried.names.append(name)
            else:
                array = self.elements.arrays.get((argument.node, argument.output))
                if array is None:
                    raise Unsuitable("an array is made in its body")
                self.writer.require_current(array)
                carried.names.append(array.buffer)
        return carried

    def scan(self, number: int, node: Node) -> None:
        """A loop with a number of turns."""
        body, first, count = node.params["body"], node.params["captured"], node.params["carried"]
        args, length = self.graph.args(number), maximum(node.params["length"], 0)
        if len(node.types) > count:
            raise Unsuitable("a loop in its body stacks results")
        captured = list(zip(body.inputs[:first], args[:first], strict=True))
        carried = self.start(body.inputs[first : first + count], args[first : first + count])
        self._burn(length)
        turn = self.elements.fresh("turn")
        at = length - 1 - symbol(turn) if node.params["reverse"] else symbol(turn)
        self.elements.open(turn)
        inner = self.inner(body)
        self.enter(inner, [v for v, _ in captured], [a for _, a in captured])
        carried.begin(inner, [a for _, a in captured])
        for value, whole in zip(body.inputs[first + count :], args[first + count :], strict=True):
            self._slice(inner, value, whole, at)
        inner.write()
        carried.end(inner, body.outputs)
        self.elements.append(Loop(turn, dim(0), length, False, self.elements.close()))
        carried.finish(self.graph.results(number))

    def _slice(self, inner: GraphWriter, value: Value, whole: Value, at: Dim) -> None:
        """The slice of an array along its first axis, of a turn."""
        elements = self.elements

        def read(index: Index) -> Expr:
            return elements.element(whole, (at, *index))

        inner.elements.sources[value.node, value.output] = read

    def _burn(self, turns: Dim) -> None:
        if self.fuel:
            self.elements.append(Assign(self.fuel, Apply("x - y", (Name(self.fuel, int64), position(turns)), int64)))

    def while_loop(self, number: int, node: Node) -> None:
        """A loop that a condition ends."""
        if not ends(node):
            raise Unsuitable("a while loop in its body may not end")
        condition, body = node.params["condition"], node.params["body"]
        first, args = node.params["condition_captured"], self.graph.args(number)
        last = first + node.params["body_captured"]
        carried = self.start(body.inputs[last - first :], args[last:])
        self.elements.append(self.turns(condition, body, args, (first, last), carried))
        carried.finish(self.graph.results(number))

    def turns(
        self, condition: Graph, body: Graph, args: Sequence[Value], limits: tuple[int, int], carried: Carried,
        going: Callable[[Expr], Expr] = lambda holds: holds,
    ) -> While:  # fmt: skip
        """The turns of a while loop, on carried values that have been started."""
        first, last = limits
        self.elements.open()
        test = self.inner(condition)
        self.enter(test, condition.inputs[:first], args[:first])
        carried.begin(test, args[:first])
        test.write()
        holds = going(test.scalar(condition.outputs[0]))
        before = self.elements.close()
        self.elements.open()
        inner = self.inner(body)
        self.enter(inner, body.inputs[: last - first], args[first:last])
        carried.begin(inner, args[first:last])
        inner.write()
        carried.end(inner, body.outputs)
        self._burn(dim(1))
        return While(before, holds, self.elements.close())

    def switch(self, number: int, node: Node) -> None:
        """A branch: all cases give the same variables values, and write the same arrays."""
        index, *operands = self.graph.args(number)
        results, cases = self.graph.results(number), []
        at = self.elements.let(Apply("x", (self.scalar(index),), int64), stem="case")
        names = [self.elements.fresh("chosen") if is_scalar(r) else "" for r in results]
        before, ends_ = dict(self.writer.versions), []
        for branch in node.params["branches"]:
            self.writer.versions = dict(before)
            self.elements.open()
            inner = self.inner(branch)
            self.enter(inner, branch.inputs, operands)
            inner.write()
            ends_.append([_left(inner, v) if name == "" else None for v, name in zip(branch.outputs, names, strict=True)])
            for value, name in zip(branch.outputs, names, strict=True):
                if name:
                    self.elements.append(Assign(name, inner.scalar(value)))
            _only(before, self.writer.versions, [a for a in ends_[-1] if a is not None])
            cases.append(self.elements.close())
        self.elements.append(Branch(symbol(at.name), 0, tuple(cases)))
        self.writer.versions = dict(before)
        for result, name, arrays in zip(results, names, zip(*ends_, strict=True), strict=True):
            if name:
                self.elements.put_scalar(result, Name(name, result.dtype))
            else:
                self.elements.put(result, self.writer.written(_one_buffer(arrays, result)))


@dataclass
class Carried:
    """The carried values of a loop: a variable for each number, a buffer for each array."""

    outer: GraphWriter
    values: Sequence[Value]
    names: list[str] = field(default_factory=list)

    def begin(self, inner: GraphWriter, captured: Sequence[Value]) -> None:
        """Give a body, or a condition, the values with which a turn begins."""
        buffers = [n for n, v in zip(self.names, self.values, strict=True) if not is_scalar(v)]
        read = (self.outer.elements.arrays.get((v.node, v.output)) for v in captured)
        if len(set(buffers)) < len(buffers) or any(a is not None and a.buffer in buffers for a in read):
            raise Unsuitable("an array is written in place of another one")
        inputs = inner.graph.inputs[len(captured) :]
        for value, name in zip(inputs, self.names, strict=False):
            if is_scalar(value):
                inner.elements.put_scalar(value, Name(name, value.dtype))
            else:
                inner.elements.put(value, inner.writer.written(Array(name, 0, value.shape, value.dtype)))

    def end(self, inner: GraphWriter, outputs: Sequence[Value]) -> None:
        """Give the variables the values with which the next turn begins, all at once."""
        following: list[tuple[str, Expr]] = []
        for value, output, name in zip(self.values, outputs, self.names, strict=False):
            if is_scalar(value):
                found = inner.scalar(output)
                if isinstance(found, Name) and found.name in self.names and found.name != name:
                    kept = inner.elements.fresh("kept")
                    inner.elements.append(Assign(kept, found))
                    found = Name(kept, found.dtype)
                if found != Name(name, value.dtype):
                    following.append((name, found))
            elif _left(inner, output).buffer != name:
                raise Unsuitable("a carried array is not updated in place")
        for name, expr in following:
            inner.elements.append(Assign(name, expr))

    def finish(self, results: Sequence[Value]) -> None:
        """The values after the loop."""
        for value, result, name in zip(self.values, results, self.names, strict=False):
            if is_scalar(value):
                self.outer.elements.put_scalar(result, Name(name, result.dtype))
            else:
                array = Array(name, 0, result.shape, result.dtype)
                self.outer.elements.put(result, self.outer.writer.written(array))


def _left(inner: GraphWriter, value: Value) -> Array:
    """The buffer in which a graph leaves an array."""
    array = inner.elements.arrays.get((value.node, value.output))
    if array is None:
        raise Unsuitable("an array is computed in its body")
    inner.writer.require_current(array)
    return array


def _only(before: dict[str, int], after: dict[str, int], arrays: Sequence[Array]) -> None:
    """Unsuitable where a branch has written another buffer than those of its results."""
    changed = {buffer for buffer, version in after.items() if before.get(buffer, 0) != version}
    if changed - {a.buffer for a in arrays}:
        raise Unsuitable("a branch writes an array that it does not return")


def _one_buffer(arrays: Sequence[Array | None], result: Value) -> Array:
    found = [a for a in arrays if a is not None]
    if len({a.buffer for a in found}) != 1:
        raise Unsuitable("a branch chooses between arrays")
    return Array(found[0].buffer, 0, result.shape, result.dtype)


def _check_lazy(body: Graph) -> None:
    """Unsuitable where a group computes arrays of more than a few elements: these are work for vectors and threads."""
    for _, node in body.nodes():
        computes = isinstance(node.primitive.lowering, Scalar)
        if computes and not all(isinstance(t, ArrayType) and _few(t.shape) for t in node.types):
            raise Unsuitable("its body computes with whole arrays")


def _few(shape: Sequence[Dim]) -> bool:
    count = product(shape).static
    return count is not None and count <= SMALL


def _update(e: SequentialElements, body: Graph, value: Value) -> Array:
    """Write what a scatter or an overwritten slice changes into the buffer of its first operand."""
    node, args = body.node(value.node), body.args(value.node)
    array = e.arrays.get((args[0].node, args[0].output))
    if array is None:
        raise Unsuitable("an array is made in its body")
    e.writer.require_current(array)
    lowering = node.primitive.lowering
    stores: list[tuple[Dim, Expr]] = []
    for index in _indices(args[1].shape):
        if isinstance(lowering, Scatter):
            builder, lead = IndexBuilder(e, node.line, ()), len(args[2].shape)
            at = [builder.checked(e.element(i, index[:lead]), n) for i, n in zip(args[2:], value.shape, strict=False)]
            place = row_major(value.shape, (*at, *index[lead:]))
        else:
            assert isinstance(lowering, Overwrite)
            read = [lambda *i, a=a: e.element(a, tuple(map(dim, i))) for a in args]
            found = lowering.coordinates(IndexBuilder(e, node.line, index), index, read, [a.type for a in args], node.params)
            place = row_major(value.shape, tuple(map(dim, found)))
        stores.append((place, e.element(args[1], index)))
    for place, update in stores:
        if isinstance(lowering, Scatter) and not lowering.overwrites:
            update = Apply(lowering.combine, (Load(array.buffer, place, array.dtype), update), array.dtype)
        e.append(Store(array.buffer, place, update))
    return e.writer.written(array)


def _indices(shape: Sequence[Dim]) -> Iterator[Index]:
    """All indices of a small array."""
    if not _few(shape):
        raise Unsuitable("its body writes whole arrays")
    sizes = [n.static or 0 for n in shape]
    return (tuple(map(dim, index)) for index in combinations(*map(range, sizes)))


def position(at: Dim) -> Expr:
    """An index expression as an element."""
    return Number(at.static, int64) if at.static is not None else Position(at)


_NODES: dict[str, Callable[[GraphWriter, int, Node], None]] = {
    "fused": GraphWriter.fused, "scan": GraphWriter.scan, "while_loop": GraphWriter.while_loop,
    "switch": GraphWriter.switch, "reshape": GraphWriter.view,
}  # fmt: skip
