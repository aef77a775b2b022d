"""The interpreter: runs a graph node by node with NumPy. It is the ``reference`` backend and every test's oracle.

>>> from zenith.ir.text import parse
>>> g = parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = add(x, x)\\n    return (v1,)")
>>> interpret(g, np.ones(2, np.float32))
[array([2., 2.], dtype=float32)]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from zenith.errors import DTypeError, ShapeError, ZenithError
from zenith.ir import params as params_
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, stored_name
from zenith.ir.primitive import Interpreted
from zenith.ir.types import ArrayType, NDArray, dtype_of

Watch = Callable[[Node, Sequence[NDArray], tuple[NDArray, ...]], tuple[NDArray, ...]]


def interpret(
    graph: Graph,
    *args: object,
    sizes: Mapping[str, int] | None = None,
    watch: Watch | None = None,
    weights: Mapping[str, NDArray] | None = None,
) -> list[NDArray]:
    """Run ``graph`` on NumPy arrays and return its outputs; what leads to none, nor to an effect, is left alone.

    ``sizes`` gives symbols that no input shape determines; ``watch(node, args, results)`` sees every node and
    returns the results to go on with (tests perturb values there). ``weights`` replace the graph's own. Raises
    ShapeError or DTypeError when arguments do not fit the inputs' types or a guard does not hold.
    """
    arrays = [None if a is None else np.asarray(a) for a in args]
    bound = bind_sizes(graph, arrays, sizes or {})
    values: dict[tuple[int, int], Any] = {(v.node, 0): a for v, a in zip(graph.inputs, arrays, strict=True)}
    live = graph.live()  # a trace leaves nodes that need not hold: of a condition tried ahead of a loop
    for number, node in graph.nodes():
        if number not in live or node.primitive.name == "input":
            continue
        operands = [values[a.node, a.output] for a in graph.args(number)]
        results = _run_node(graph, node, operands, bound, watch, graph.weights if weights is None else weights)
        if watch is not None:
            results = watch(node, operands, results)
        values.update({(number, i): r for i, r in enumerate(results)})
    return [values[v.node, v.output] for v in graph.outputs]


def _run_node(
    graph: Graph,
    node: Node,
    args: Sequence[NDArray],
    sizes: Mapping[str, int],
    watch: Watch | None,
    weights: Mapping[str, NDArray],
) -> tuple[Any, ...]:
    if node.primitive.name in ("constant", "weight"):
        return (_stored(graph, node, weights),)
    params = params_.evaluate(node.primitive.params, node.params, sizes)
    if isinstance(node.primitive.evaluate, Interpreted):
        results = cast(
            Sequence[NDArray | None], node.primitive.evaluate.run(Caller(sizes, watch, weights), args, params)
        )
        return tuple(np.asarray(r) for r in results)
    try:
        results = node.primitive.evaluate(args, params)
    except ZenithError as error:
        raise error.at(node.line) from None
    return tuple(r if r is None else np.asarray(r) for r in results)


@dataclass(frozen=True, slots=True)
class Caller:
    """Runs the subgraphs of a node with the settings of the graph around them."""

    sizes: Mapping[str, int]
    watch: Watch | None = None
    weights: Mapping[str, NDArray] | None = None

    def __call__(self, body: Graph, args: Sequence[NDArray]) -> list[NDArray]:
        """The outputs of a subgraph."""
        return interpret(body, *args, sizes=self.sizes, watch=self.watch, weights=self.weights)

    def at(self, index: str, step: int) -> Caller:
        """What runs subgraphs in which the size ``index``, if it has a name, is ``step``."""
        return replace(self, sizes={**self.sizes, index: step}) if index else self

    def shape(self, type: ArrayType) -> tuple[int, ...]:
        """The shape of an array in numbers."""
        return tuple(size.evaluate(self.sizes) for size in type.shape)


def _stored(graph: Graph, node: Node, weights: Mapping[str, NDArray]) -> NDArray:
    kind, name = node.primitive.name, stored_name(node)
    array = weights.get(name) if kind == "weight" else graph.stored(node)
    if array is None:
        raise ZenithError(f"{kind} {name} is not stored with the graph", fix=f"give parse(text, {kind}s=...)")
    return array


def bind_sizes(graph: Graph, args: Sequence[Any], known: Mapping[str, int]) -> dict[str, int]:
    """The value of every symbol, from the arguments' shapes; checks types, sizes and guards."""
    if len(args) != len(graph.inputs):
        raise ShapeError(f"{graph.name} takes {len(graph.inputs)} arrays, not {len(args)}")
    sizes: dict[str, int] = dict(known)
    typed = [(v.type, a) for v, a in zip(graph.inputs, args, strict=True) if isinstance(v.type, ArrayType)]
    for type, array in typed:
        _check_array(graph, type, array)
        for size, n in zip(type.shape, array.shape, strict=True):
            if str(size).isidentifier():
                sizes.setdefault(str(size), n)
    for type, array in typed:
        for size, n in zip(type.shape, array.shape, strict=True):
            _check_size(graph, type, size, n, sizes)
    for guard in graph.guards:
        if not guard.holds(sizes):
            reason = guard.reason or f"{graph.name}: {guard} does not hold for {sizes}"
            raise guard.error(reason, where=guard.line)
    return sizes


def _check_size(graph: Graph, type: ArrayType, size: Dim, n: int, sizes: Mapping[str, int]) -> None:
    unknown = sorted(size.symbols() - sizes.keys())
    if unknown:
        what = f"{graph.name}: no argument determines the size {', '.join(unknown)}"
        raise ShapeError(what, types=(type,), fix="give it in sizes=")
    expected = size.evaluate(sizes)
    if expected != n:
        said = f"{size} = {expected}" if size.static is None else str(size)
        raise ShapeError(f"{graph.name}: a size is {n}, but must be {said}", types=(type,))


def _check_array(graph: Graph, type: ArrayType, array: NDArray) -> None:
    if dtype_of(array.dtype) != type.dtype:
        raise DTypeError(f"{graph.name}: an argument is {array.dtype}, but must be {type.dtype}", types=(type,))
    if array.ndim != type.rank:
        raise ShapeError(f"{graph.name}: an argument has {array.ndim} axes, but must have {type.rank}", types=(type,))
