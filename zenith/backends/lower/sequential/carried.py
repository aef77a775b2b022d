"""What a sequential loop carries from turn to turn: numbers in variables, arrays in buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zenith.backends.expressions import Expr, Name
from zenith.backends.lower.sequential.arrays import Array, Unsuitable, is_number, real_shape
from zenith.ir.dims import Dim
from zenith.ir.graph import Value

if TYPE_CHECKING:
    from zenith.backends.lower.sequential.kernel import GraphWriter


@dataclass
class Carried:
    """The carried values of a loop: variables for each number, and its parts, a buffer for each array.

    ``starts`` are the integers with which they begin, where these are known.
    """

    outer: GraphWriter
    values: Sequence[Value]
    names: list[tuple[str, ...]] = field(default_factory=list)
    starts: list[Dim | None] = field(default_factory=list)

    def begin(self, inner: GraphWriter, captured: Sequence[Value]) -> None:
        """Give a body, or a condition, the values with which a turn begins."""
        buffers = [own[0] for own, v in zip(self.names, self.values, strict=True) if not is_number(v)]
        read = (self.outer.elements.arrays.get((v.node, v.output)) for v in captured)
        if len(set(buffers)) < len(buffers) or any(a is not None and a.buffer in buffers for a in read):
            raise Unsuitable("an array is written in place of another one")
        inputs = inner.graph.inputs[len(captured) :]
        for value, own in zip(inputs, self.names, strict=False):
            self._put(inner, value, own)

    @staticmethod
    def _put(writer: GraphWriter, value: Value, own: tuple[str, ...]) -> None:
        if is_number(value):
            writer.elements.put_number(value, [Name(name, value.dtype.real) for name in own])
        else:
            array = Array(own[0], 0, real_shape(value), value.dtype.real)
            writer.elements.put(value, writer.writer.written(array))

    def end(self, inner: GraphWriter, outputs: Sequence[Value]) -> None:
        """Give the variables the values with which the next turn begins, all at once."""
        following: list[tuple[str, Expr]] = []
        variables = {name for own in self.names for name in own}
        for value, output, own in zip(self.values, outputs, self.names, strict=False):
            if not is_number(value):
                if final_array(inner, output).buffer != own[0]:
                    raise Unsuitable("a carried array is not updated in place")
                continue
            for name, found in zip(own, inner.number(output), strict=True):
                if isinstance(found, Name) and found.name in variables and found.name != name:
                    before = inner.elements.fresh("before")
                    inner.elements.assign(before, found)
                    found = Name(before, found.dtype)
                if found != Name(name, value.dtype.real):
                    following.append((name, found))
        for name, expr in following:
            inner.elements.assign(name, expr)

    def finish(self, results: Sequence[Value]) -> None:
        """The values after the loop."""
        for result, own in zip(results, self.names, strict=False):
            self._put(self.outer, result, own)


def final_array(inner: GraphWriter, value: Value) -> Array:
    """The buffer in which a graph leaves an array."""
    array = inner.elements.arrays.get((value.node, value.output))
    if array is None:
        raise Unsuitable("an array is computed in its body")
    inner.writer.require_current(array)
    return array
