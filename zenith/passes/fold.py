"""Constant folding: nodes that depend on literals and constants only are evaluated by the primitive's reference.

A result is used only when it is small or not larger than what it was computed from, so that programs never grow.
Weights are never folded: their contents change. Sizes that are known numbers become literals, and constants of one
repeated number become broadcast literals, which the simplifier understands, and so do comparisons whose result is the
same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import ZenithError
from zenith.ir import params as params_
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Data, Elements, HostCall, NativeCall, Region
from zenith.ir.types import ArrayType, Type
from zenith.passes.ranges import decided
from zenith.passes.rewrite import Rewriter, rebuild

SMALL_BYTES = 4096
"""A folded result of at most this size is always used."""


def fold(graph: Graph) -> Graph:
    """The graph with everything computed that is known."""

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.primitive.name == "constant":
            array = graph.constants.get(node.params["id"])
            repeated = None if array is None else _repeated(b, array, node.types[0])
            return None if repeated is None else [repeated]
        known = decided(b, node, args)
        return _evaluate(b, node, args) if known is None else [known]

    return rebuild(graph, visit, inner=fold)


def _repeated(b: Rewriter, array: np.ndarray[Any, Any], type: Type) -> Value | None:
    """An array whose elements all have the same bits, as a broadcast literal; None when they have not.

    Complex numbers stay in memory, as kernels have none.
    """
    assert isinstance(type, ArrayType)
    if array.size == 0 or type.dtype.is_complex:
        return None
    flat = array.reshape(-1)
    first = flat[:1].tobytes()
    if flat[-1:].tobytes() != first or array.tobytes() != first * array.size:
        return None
    return b.full(flat[0].item(), type.dtype, type.shape)


def _evaluate(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    values = _known_values(b, node, args)
    if values is None or not _static(node):
        return None
    try:
        results = node.primitive.evaluate(values, params_.evaluate(node.primitive.params, node.params, {}))
    except ZenithError:  # an index out of bounds is reported when the program runs, as without folding
        return None
    return [_known_result(b, np.asarray(r), t) for r, t in zip(results, node.types, strict=True)]


def _known_values(b: Rewriter, node: Node, args: tuple[Value, ...]) -> list[Any] | None:
    """The arguments as arrays when all are known and folding is worth it."""
    kind = node.primitive.lowering
    if node.primitive.effect or isinstance(kind, Data | Region | HostCall | NativeCall):
        return None
    if not args:
        return [] if node.primitive.name == "size" else None
    known = [_array(b, a) for a in args]
    values = [v for v in known if v is not None]
    if len(values) < len(known):
        return None
    result = sum(_bytes(t) for t in node.types)
    if isinstance(kind, Elements) and kind.cheap and all(v.ndim == 0 for v in values):
        return None  # a broadcast literal is the best form there is
    return values if result <= max(SMALL_BYTES, sum(v.nbytes for v in values)) else None


def _array(b: Rewriter, value: Value) -> np.ndarray[Any, Any] | None:
    node = b.definition(value)
    if node.primitive.name == "literal":
        return np.asarray(node.params["value"], node.params["dtype"].numpy)
    return b.so_far.constants.get(node.params["id"]) if node.primitive.name == "constant" else None


def _bytes(type: Type) -> float:
    if not isinstance(type, ArrayType) or type.size.static is None:
        return float("inf")
    return type.size.static * type.dtype.itemsize


def _static(node: Node) -> bool:
    """Whether no parameter mentions a symbol."""
    found: list[Dim] = []
    for name, value in node.params.items():
        params_.KINDS[node.primitive.params[name]].map_sizes(value, found.append)
    return all(size.static is not None for size in found)


def _known_result(b: Rewriter, array: np.ndarray[Any, Any], type: Type) -> Value:
    assert isinstance(type, ArrayType)
    repeated = _repeated(b, array, type)
    return repeated or b.graph.add_constant(array.astype(type.dtype.numpy, copy=False), b.line)
