"""Counters of while loops: a condition that bounds a number, which each turn moves towards the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from zenith.backends.lower.sequential.intervals import is_exact
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import ArrayType, int64

_RISING, _FALLING = ("lt", "le"), ("gt", "ge")
_MOST = 64  # operations that are looked through


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A value of a graph, in which the inputs are definitions in the graph around it."""

    graph: Graph
    value: Value
    inputs: Mapping[Value, Definition]

    @property
    def key(self) -> tuple[int, int, int]:
        """Equal for the same value."""
        return id(self.graph), self.value.node, self.value.output

    @property
    def node(self) -> Node:
        """The node that computes it."""
        return self.graph.node(self.value.node)

    @property
    def args(self) -> list[Definition]:
        """The definitions of the node's arguments."""
        return [Definition(self.graph, a, self.inputs) for a in self.graph.args(self.value.node)]

    def within(self, body: Graph, output: int, args: list[Definition]) -> Definition:
        """An output of a subgraph on arguments."""
        return Definition(body, body.outputs[output], dict(zip(body.inputs, args, strict=True)))

    def resolved(self, through: tuple[str, ...] = ()) -> Definition:
        """The node that computes it inside of groups, seen through operations of some names with one argument."""
        found = self
        while True:
            node = found.node
            if found.value in found.inputs:
                found = found.inputs[found.value]
            elif node.primitive.name == "fused":
                found = found.within(node.params["body"], found.value.output, found.args)
            elif node.primitive.name in through:
                found = found.args[0]
            else:
                return found


@dataclass(frozen=True, slots=True)
class Progress:
    """The carried value ``number`` changes by ``step`` a turn; a turn runs only where it compares so with ``bound``.

    A step of 0 says that it is divided by a literal, rounded down. The turn runs in all these cases if that
    ``is_condition``, the loop's whole one.
    """

    number: int
    step: int
    comparison: str
    bound: Definition
    is_condition: bool

    @property
    def slack(self) -> int:
        """What lies between the bound and the last number of a turn: 0 where the bound itself is one."""
        return 0 if self.comparison in ("le", "ge") else 1


def progress(node: Node) -> Progress | None:
    """A carried value that a ``while_loop`` moves towards a bound on which it ends."""
    condition, body = node.params["condition"], node.params["body"]
    first, skipped = node.params["condition_captured"], node.params["body_captured"]
    carried = {Definition(condition, v, {}).key: k for k, v in enumerate(condition.inputs[first:])}
    captured = {Definition(condition, v, {}).key for v in condition.inputs[:first]}
    truth = Definition(condition, condition.outputs[0], {})
    whole = truth.resolved(("cast",)).node.primitive.name in (*_RISING, *_FALLING)
    for name, left, right in _conjuncts(truth):
        for counted, bound, comparison in ((left, right, name), (right, left, _MIRRORED[name])):
            number = carried.get(counted.resolved().key)
            if number is not None and _is_invariant(bound, captured):
                result, start = body.outputs[number], body.inputs[skipped + number]
                step = step_of(body, result, start)
                if step == 0 and comparison in _FALLING and _is_divided(body, result, start):
                    return Progress(number, 0, comparison, bound, whole)
                if (step > 0 and comparison in _RISING) or (step < 0 and comparison in _FALLING):
                    return Progress(number, step, comparison, bound, whole)
    return None


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _conjuncts(truth: Definition) -> Iterator[tuple[str, Definition, Definition]]:
    """The comparisons that must all hold where a value is true, with their operands."""
    found = truth.resolved(("cast",))
    name = found.node.primitive.name
    if name == "bit_and":
        for argument in found.args:
            yield from _conjuncts(argument)
    elif name == "switch" and len(found.node.params["branches"]) == 2:
        index, *operands = found.args
        no, yes = (found.within(b, found.value.output, operands) for b in found.node.params["branches"])
        if no.resolved(("cast",)).key == index.resolved(("cast",)).key:  # ``and``: where it chose, that was false
            yield from _conjuncts(index)
            yield from _conjuncts(yes)
    elif name in (*_RISING, *_FALLING):
        left, right = found.args
        yield name, left, right


def _is_invariant(definition: Definition, captured: set[tuple[int, int, int]]) -> bool:
    """Whether a number follows from literals, sizes and what the loop captures."""
    pending, seen = [definition], 0
    while pending:
        found, seen = pending.pop().resolved(), seen + 1
        name = found.node.primitive.name
        if seen > _MOST or (name == "input" and found.key not in captured) or found.node.bodies:
            return False
        pending += found.args
    return True


def step_of(body: Graph, result: Value, start: Value) -> int:
    """What a turn adds to a carried integer; 0 where that is not known."""
    made, begun = Definition(body, result, {}).resolved(), Definition(body, start, {}).key
    if made.node.primitive.name not in ("add", "sub") or start.dtype.kind not in "iu":
        return 0
    left, right = (a.resolved() for a in made.args)
    is_sum = made.node.primitive.name == "add"
    for counted, other in ((left, right), (right, left)) if is_sum else ((left, right),):
        if counted.key == begun and other.node.primitive.name == "literal":
            value = int(other.node.params["value"])
            return value if is_sum else -value
    return 0


def _is_divided(body: Graph, result: Value, start: Value) -> bool:
    """Whether a turn divides a carried integer by a literal above 1."""
    made, begun = Definition(body, result, {}).resolved(), Definition(body, start, {}).key
    if made.node.primitive.name != "floor_divide" or start.dtype.kind not in "iu":
        return False
    dividend, divisor = (a.resolved() for a in made.args)
    literal = divisor.node
    return dividend.key == begun and literal.primitive.name == "literal" and int(literal.params["value"]) > 1


def affine(definition: Definition, number: Callable[[Value], Dim | None]) -> Dim | None:
    """An integer as an expression of sizes and counters; ``number`` is what an input of its graph is."""
    return _affine(definition, number, {})


def _affine(
    definition: Definition, number: Callable[[Value], Dim | None], known: dict[tuple[int, int, int], Dim | None]
) -> Dim | None:  # fmt: skip
    found = definition.resolved()
    if found.key in known:  # else the walk would double with each value that is read twice
        return known[found.key]
    if len(known) > _MOST or not isinstance(found.value.type, ArrayType) or found.value.dtype != int64:
        return None
    result, name = None, found.node.primitive.name
    known[found.key] = None
    if name == "literal":
        result = dim(int(found.node.params["value"]))
    elif name == "size":
        result = dim(found.node.params["value"])
    elif name == "input":
        result = number(found.value)
    elif name in ("add", "sub"):
        left, right = (_affine(a, number, known) for a in found.args)
        if left is not None and right is not None:
            result = left + right if name == "add" else left - right
    result = result if result is not None and is_exact(result) else None
    known[found.key] = result
    return result


def fact_of(graph: Graph, truth: Value, number: Callable[[Value], Dim | None]) -> Dim | None:
    """What is at least 0 exactly where a comparison of integers is true; None for other values."""
    found = Definition(graph, truth, {}).resolved(("cast",))
    name = found.node.primitive.name
    if name not in _MIRRORED:
        return None
    left, right = (affine(a, number) for a in found.args)
    if left is None or right is None:
        return None
    difference = right - left if name in _RISING else left - right
    return difference - 1 if name in ("lt", "gt") else difference


def integer_of(graph: Graph, value: Value) -> Dim | None:
    """The integer that a value is in every call with the same sizes; None for any other."""
    return affine(Definition(graph, value, {}), lambda _: None)
