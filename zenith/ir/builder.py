"""The builder that rules write with: ``b.mul(x, 2.0)`` appends a node and gives its result back.

Every registered primitive is a method. A Python number among array operands of an elementwise primitive becomes a
literal of their type, broadcast to their shape: the IR itself has no implicit conversions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from zenith.errors import SourceLine
from zenith.ir.dims import Dim, DimLike
from zenith.ir.graph import Graph, Node, Value, stored_name
from zenith.ir.primitive import Primitive, get
from zenith.ir.types import ArrayType, DType

if TYPE_CHECKING:
    from zenith.ir.builder_methods import Methods, Operand  # a stub, made of the registry: `make docs`
else:
    Methods = object

Values = Sequence[Value]
Tangents = Sequence[Value | None]  # None is zero
Cotangents = Sequence[Value | None]


class Builder(Methods):
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            try:
                primitive = get(name)
            except KeyError:
                raise AttributeError(f"no primitive {name!r}") from None
            return partial(self._emit, primitive)

    def _emit(self, primitive: Primitive, /, *args: Operand, **params: Any) -> Value | tuple[Value, ...]:
        results = self.graph.add(primitive, self._values(args), params, self.line)
        return results[0] if len(results) == 1 else results

    def full(self, value: complex | int | bool, dtype: DType, shape: Sequence[DimLike]) -> Value:
        """An array of one repeated number."""
        scalar = self.literal(value=_python_number(value, dtype), dtype=dtype)
        return self.broadcast_scalar(scalar, shape)

    def broadcast_scalar(self, scalar: Value, shape: Sequence[DimLike]) -> Value:
        """A 0-d value repeated to ``shape``."""
        if not shape:
            return scalar
        return self.broadcast(scalar, shape=tuple(shape), axes=())

    def zeros_like(self, value: Value) -> Value:
        """Zeros of a value's type."""
        return self.full(0, value.dtype, value.shape)

    def inline(self, graph: Graph, args: Sequence[Value], asked: Sequence[Value] | None = None) -> tuple[Value, ...]:
        """The outputs of ``graph`` on values of this one: its nodes appended, with their own lines.

        With ``asked``, those values of ``graph`` instead of its outputs.
        """
        moved = {(v.node, 0): a for v, a in zip(graph.inputs, args, strict=True)}
        for number, node in graph.nodes():
            if node.primitive.name != "input":
                operands = [moved[a.node, a.output] for a in graph.args(number)]
                results = self.transplant(graph, node, operands)
                moved.update({(number, i): value for i, value in enumerate(results)})
        return tuple(moved[v.node, v.output] for v in (graph.outputs if asked is None else asked))

    def transplant(self, source: Graph, node: Node, args: Sequence[Value]) -> tuple[Value, ...]:
        """A node of ``source`` on values of this graph, with its line and, of a constant or weight, its array."""
        if node.primitive.name in ("constant", "weight"):
            name, array = stored_name(node), source.stored(node)
            if array is not None:
                (self.graph.weights if node.primitive.name == "weight" else self.graph.constants)[name] = array
        return self.graph.add(node.primitive, args, node.params, node.line)

    def _values(self, args: Sequence[Operand]) -> list[Value]:
        model = next((a for a in args if isinstance(a, Value) and isinstance(a.type, ArrayType)), None)
        return [a if isinstance(a, Value) else self._number(a, model) for a in args]

    def _number(self, number: complex | int | bool, model: Value | None) -> Value:
        if model is None:
            raise TypeError("a number needs an array operand next to it to take its type from")
        return self.full(number, model.dtype, model.shape)


class Halves(Protocol):
    """A graph split in two, as :class:`zenith.transforms.split.Split` is."""

    @property
    def known(self) -> Graph: ...
    @property
    def unknown(self) -> Graph: ...
    @property
    def waits(self) -> Sequence[bool]: ...
    @property
    def residual_values(self) -> Values: ...


class SubgraphBuilder(Builder):
    """The builder for rules of primitives that hold subgraphs: :class:`zenith.transforms.rules.RuleBuilder`."""

    @abstractmethod
    def on(self, graph: Graph) -> SubgraphBuilder: ...
    @abstractmethod
    def split(
        self,
        graph: Graph,
        late: Sequence[bool],
        there: Values | None = None,
        same: Collection[int] | None = None,
        index: str = "",
    ) -> Halves: ...
    @abstractmethod
    def split_at_marks(self, joint: Graph, primals: int, results: int) -> tuple[Graph, Graph]: ...
    @abstractmethod
    def jvp_of(self, graph: Graph, active: Sequence[bool]) -> Graph: ...
    @abstractmethod
    def vjp_of(self, graph: Graph, wanted: Sequence[bool], seeded: Sequence[bool]) -> Graph: ...
    @abstractmethod
    def batched_of(self, graph: Graph, size: Dim, inputs: Sequence[bool] | None = None) -> Graph: ...


def _python_number(value: complex | int | bool, dtype: DType) -> complex | int | bool:
    """The Python number that prints ``value`` exactly as an element of ``dtype``."""
    kinds = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
    number: complex | int | bool = kinds[dtype.kind](dtype.numpy.type(value))
    return number
