"""Sums over the steps of a loop: the cotangents of operands that every step captures, to which each step adds.

Where a step adds a product, the sum over all steps is one product of the steps' concatenated factors,

    sum_t A_t B_t = [A_1 ... A_T] [B_1; ...; B_T].

So the loop returns the factors, which are smaller than the matrices that it would otherwise read and write in every
step, and the product is computed after it, as are sums of returned values. The other addends are carried. (For
recurrent cells: section 3 of J. Appleyard et al., "Optimizing Performance of Recurrent Neural Networks on GPUs", 2016.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zenith.ir.builder import Builder
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.common import moved_axes
from zenith.ir.primitive import get

_INDEX_MAPS = frozenset({"transpose", "reshape"})


@dataclass(slots=True)
class StepSums:
    """The first ``count`` outputs of a step, which add up over all steps.

    The step's inputs numbered in ``same`` are the same in all steps, those in ``parts`` are slices of arrays. Values
    whose sizes contain the loop's ``index`` differ in shape from step to step, and cannot be concatenated.
    """

    step: Graph
    count: int
    same: Collection[int]
    parts: Collection[int]
    index: str = ""
    carried: list[list[Value]] = field(init=False)  # for each sum, the addends that the loop adds up
    given: list[Value] = field(init=False)  # what the loop returns of each step, for the other addends
    _deferred: list[list[Value]] = field(init=False)

    def __post_init__(self) -> None:
        addends = [list(self._addends(v)) for v in self.step.outputs[: self.count]]
        products = [v for own in addends for v in own if self._is_product(v)]
        factors = dict.fromkeys(self._source(a) for v in products for a in self.step.args(self._source(v).node))
        read = {self.step.inputs[i] for i in self.parts}
        self.given = [v for v in factors if v not in read]
        available = {*read, *self.given}
        self._deferred = [[v for v in own if v in products or self._is_sum_of(available, v)] for own in addends]
        self.carried = [[v for v in own if v not in late] for own, late in zip(addends, self._deferred, strict=True)]

    def total(self, b: Builder, index: int, length: Dim, rows: Mapping[Value, Value]) -> list[Value]:
        """A sum's addends that are computed after the loop; ``rows`` has all steps' slices and ``given`` values."""
        return [self._of_all(b, value, length, rows) for value in self._deferred[index]]

    def _addends(self, value: Value) -> Iterator[Value]:
        """The addends of a value; a sum that is read twice is one addend, since sums of sums of it have no end."""
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
        """The value that a value shows through index maps."""
        while self.step.node(value.node).primitive.name in _INDEX_MAPS:
            (value,) = self.step.args(value.node)
        return value

    def _is_product(self, value: Value) -> bool:
        """Whether both factors differ from step to step, and the steps' products are not large ones."""
        source = self._source(value)
        if self.step.node(source.node).primitive is not get("matmul"):
            return False
        left, right = self.step.args(source.node)
        if any(self.index in size.symbols() for factor in (left, right) for size in factor.shape):
            return False
        fixed = {self.step.inputs[i].node for i in range(len(self.step.inputs)) if i not in self.same}
        varying = all(self.step.ancestors([a.node]) & fixed for a in (left, right))
        rows, terms = left.shape[-2].static, left.shape[-1].static
        return varying and (rows is None or terms is None or terms <= rows)

    def _is_sum_of(self, available: Collection[Value], value: Value) -> bool:
        source = self._source(value)
        if self.step.node(source.node).primitive is not get("reduce_sum"):
            return False
        (summed,) = self.step.args(source.node)
        return self._source(summed) in available

    def _of_all(self, b: Builder, value: Value, length: Dim, rows: Mapping[Value, Value]) -> Value:
        """An addend, summed over all steps."""
        node, args = self.step.node(value.node), self.step.args(value.node)
        if node.primitive.name in _INDEX_MAPS:
            inner = self._of_all(b, args[0], length, rows)
            return b.graph.add(node.primitive, [inner], node.params, node.line)[0]
        steps = [self._steps(b, a, length, rows) for a in args]
        if node.primitive is get("matmul"):
            return b.matmul(_concatenated(b, steps[0], 1), _concatenated(b, steps[1], 2))
        return b.reduce_sum(steps[0], axes=(0, *moved_axes(node.params["axes"])))

    def _steps(self, b: Builder, value: Value, length: Dim, rows: Mapping[Value, Value]) -> Value:
        """A value of all steps, along a new first axis."""
        if value in rows:
            return rows[value]
        node, (arg,) = self.step.node(value.node), self.step.args(value.node)
        (result,) = node.primitive.batch(b, [self._steps(b, arg, length, rows)], [True], length, node.params)
        return result


def _concatenated(b: Builder, steps: Value, last: int) -> Value:
    """The steps' matrices in one: the first axis joined with axis ``-last``."""
    rank = len(steps.shape)
    at = rank - last
    moved = b.transpose(steps, axes=(*range(1, at), 0, *range(at, rank)))
    shape = moved.shape
    return b.reshape(moved, shape=(*shape[: at - 1], shape[at - 1] * shape[at], *shape[at + 1 :]))
