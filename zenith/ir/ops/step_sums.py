"""Sums over the steps of a loop: the cotangents of what every step captures, to which each step adds.

Where a step adds a product, the sum over all steps is one product of the steps' factors laid side by side,

    sum_t A_t B_t = [A_1 ... A_T] [B_1; ...; B_T].

So the loop gives the factors, which are small beside the matrices that it would otherwise read and write in every
step, and the product is computed behind it; sums of what is given anyway are, too. The other addends are carried. (For
recurrent cells: section 3 of J. Appleyard et al., "Optimizing Performance of Recurrent Neural Networks on GPUs", 2016.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.common import moved_axes
from zenith.ir.primitive import get

_INDEX_MAPS = frozenset({"transpose", "reshape"})


@dataclass(slots=True)
class StepSums:
    """The first ``count`` outputs of a step, which add up over all steps.

    The step's inputs numbered in ``same`` are the same in all steps, those in ``parts`` are parts of arrays.
    """

    step: Graph
    count: int
    same: Collection[int]
    parts: Collection[int]
    carried: list[list[Value]] = field(init=False)  # for each sum, the addends that the loop adds up
    given: list[Value] = field(init=False)  # what the loop gives of each step, for the other addends
    _behind: list[list[Value]] = field(init=False)

    def __post_init__(self) -> None:
        addends = [list(self._addends(v)) for v in self.step.outputs[: self.count]]
        products = [v for own in addends for v in own if self._is_product(v)]
        factors = dict.fromkeys(self._source(a) for v in products for a in self.step.args(self._source(v).node))
        read = {self.step.inputs[i] for i in self.parts}
        self.given = [v for v in factors if v not in read]
        held = {*read, *self.given}
        self._behind = [[v for v in own if v in products or self._is_sum_of(held, v)] for own in addends]
        self.carried = [[v for v in own if v not in behind] for own, behind in zip(addends, self._behind, strict=True)]

    def total(self, b: Any, index: int, length: Dim, rows: Mapping[Value, Any]) -> list[Any]:
        """What is added behind the loop to a sum; ``rows`` has all steps' values of parts and of what was given."""
        return [self._of_all(b, value, length, rows) for value in self._behind[index]]

    def _addends(self, value: Value) -> Iterator[Value]:
        """What adds up to a value; a sum that is read twice is one addend, since sums of sums of it have no end."""
        node, args = self.step.node(value.node), self.step.args(value.node)
        if node.primitive.name == "add" and len(self.step.users(value.node)) <= 1:
            for arg in args:
                yield from self._addends(arg)
        elif not self._is_zero(node, args):
            yield value

    def _is_zero(self, node: Node, args: Sequence[Value]) -> bool:
        if node.primitive.name == "broadcast":
            node = self.step.node(args[0].node)
        return node.primitive.name == "literal" and node.params["value"] == 0

    def _source(self, value: Value) -> Value:
        """The value that index maps made a value of."""
        while self.step.node(value.node).primitive.name in _INDEX_MAPS:
            (value,) = self.step.args(value.node)
        return value

    def _is_product(self, value: Value) -> bool:
        """Whether both factors differ from step to step, and the steps' products are not large ones."""
        source = self._source(value)
        if self.step.node(source.node).primitive is not get("matmul"):
            return False
        left, right = self.step.args(source.node)
        fixed = {self.step.inputs[i].node for i in range(len(self.step.inputs)) if i not in self.same}
        varying = all(self.step.ancestors([a.node]) & fixed for a in (left, right))
        rows, terms = left.shape[-2].static, left.shape[-1].static
        return varying and (rows is None or terms is None or terms <= rows)

    def _is_sum_of(self, held: Collection[Value], value: Value) -> bool:
        source = self._source(value)
        if self.step.node(source.node).primitive is not get("reduce_sum"):
            return False
        (summed,) = self.step.args(source.node)
        return self._source(summed) in held

    def _of_all(self, b: Any, value: Value, length: Dim, rows: Mapping[Value, Any]) -> Any:
        """An addend, summed over all steps."""
        node, args = self.step.node(value.node), self.step.args(value.node)
        if node.primitive.name in _INDEX_MAPS:
            inner = self._of_all(b, args[0], length, rows)
            return b.graph.add(node.primitive, [inner], node.params, node.line)[0]
        steps = [self._steps(b, a, length, rows) for a in args]
        if node.primitive is get("matmul"):
            return b.matmul(_beside(b, steps[0], 1), _beside(b, steps[1], 2))
        return b.reduce_sum(steps[0], axes=(0, *moved_axes(node.params["axes"])))

    def _steps(self, b: Any, value: Value, length: Dim, rows: Mapping[Value, Any]) -> Any:
        """A value of all steps, along a new first axis."""
        if value in rows:
            return rows[value]
        node, (arg,) = self.step.node(value.node), self.step.args(value.node)
        (result,) = node.primitive.batch(b, [self._steps(b, arg, length, rows)], [True], length, node.params)
        return result


def _beside(b: Any, steps: Any, last: int) -> Any:
    """The steps' matrices in one: the first axis joined with the one that is ``last`` places from the end."""
    rank = len(steps.shape)
    at = rank - last
    moved = b.transpose(steps, axes=(*range(1, at), 0, *range(at, rank)))
    shape = moved.shape
    return b.reshape(moved, shape=(*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :]))
