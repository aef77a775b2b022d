"""The builder that rules write with: ``b.mul(x, 2.0)`` appends a node and gives its result back.

Every registered primitive is a method. A Python number beside array operands of an elementwise primitive becomes a
literal of their type, broadcast to their shape: the IR itself has no implicit conversions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from zenith.errors import SourceLine
from zenith.ir.dims import DimLike
from zenith.ir.graph import Graph, Node, Value, stored_name
from zenith.ir.primitive import Primitive, get
from zenith.ir.types import ArrayType, DType


class Builder:
    """Appends to ``graph``; new nodes carry ``line``."""

    def __init__(self, graph: Graph, line: SourceLine | None = None) -> None:
        self._graph = graph
        self.line = line

    @property
    def graph(self) -> Graph:
        """The graph to add to."""
        return self._graph

    @property
    def so_far(self) -> Graph:
        """The graph up to here, to look at."""
        return self._graph

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            primitive = get(name)
        except KeyError:
            raise AttributeError(f"no primitive {name!r}") from None
        return partial(self._emit, primitive)

    def _emit(self, primitive: Primitive, /, *args: Any, **params: Any) -> Any:
        results = self.graph.add(primitive, self._values(args), params, self.line)
        return results[0] if len(results) == 1 else results

    def full(self, value: complex | int | bool, dtype: DType, shape: Sequence[DimLike]) -> Value:
        """An array of one repeated number."""
        scalar: Value = self.literal(value=_python_number(value, dtype), dtype=dtype)
        return self.broadcast_scalar(scalar, shape)

    def broadcast_scalar(self, scalar: Value, shape: Sequence[DimLike]) -> Value:
        """A 0-d value repeated to ``shape``."""
        if not shape:
            return scalar
        result: Value = self.broadcast(scalar, shape=tuple(shape), axes=())
        return result

    def zeros_like(self, value: Value) -> Value:
        """Zeros of a value's type."""
        return self.full(0, value.dtype, value.shape)

    def inline(self, graph: Graph, args: Sequence[Value], asked: Sequence[Value] | None = None) -> tuple[Value, ...]:
        """The outputs of ``graph`` on values of this one: its nodes appended, with their own lines.

        Or, in place of its outputs, the values of it that are ``asked`` for.
        """
        moved = {(v.node, 0): a for v, a in zip(graph.inputs, args, strict=True)}
        for number, node in graph.nodes():
            if node.primitive.name != "input":
                operands = [moved[a.node, a.output] for a in graph.args(number)]
                results = self.transplant(graph, node, operands)
                moved.update({(number, i): value for i, value in enumerate(results)})
        return tuple(moved[v.node, v.output] for v in (graph.outputs if asked is None else asked))

    def transplant(self, source: Graph, node: Node, args: Sequence[Value]) -> tuple[Value, ...]:
        """A node of ``source`` on values of this graph, with its line and the array that it stands for."""
        if node.primitive.name in ("constant", "weight"):
            name, array = stored_name(node), source.stored(node)
            if array is not None:
                (self.graph.weights if node.primitive.name == "weight" else self.graph.constants)[name] = array
        return self.graph.add(node.primitive, args, node.params, node.line)

    def _values(self, args: Sequence[Any]) -> list[Value]:
        model = next((a for a in args if isinstance(a, Value) and isinstance(a.type, ArrayType)), None)
        return [a if isinstance(a, Value) else self._number(a, model) for a in args]

    def _number(self, number: complex | int | bool, model: Value | None) -> Value:
        if model is None:
            raise TypeError("a number needs an array operand beside it to take its type from")
        return self.full(number, model.dtype, model.shape)


def _python_number(value: complex | int | bool, dtype: DType) -> complex | int | bool:
    """The Python number that prints ``value`` exactly as an element of ``dtype``."""
    kinds = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    number: complex | int | bool = kinds[dtype.kind](dtype.numpy.type(value))
    return number
