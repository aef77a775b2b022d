"""Attention written by hand, ``softmax(q @ k.T * scale + mask) @ v``, becomes the primitive.

The steps are those of NumPy programs and of PyTorch's eager models, in the form after the pass movement: products,
times or divided by a number; a mask added, or -inf where it says so; the softmax relative to the row's maximum; the
product with the values. It is done where nothing else reads a step, so that no scores need to be in memory. A query
whose keys are all hidden gets nan, as written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.product import swap_last
from zenith.passes.rewrite import Rewriter, number_in, rebuild


@dataclass(frozen=True, slots=True)
class MatchedWeights:
    """The operands of an attention's weights; ``kind`` is that of the mask, ``hidden`` a negated bool one.

    ``steps`` are the nodes between the operands and the weights.
    """

    q: Value
    k_transposed: Value
    scale: float
    mask: Value | None
    kind: str
    steps: frozenset[int]


def attention(graph: Graph) -> Graph:
    """The graph with attention as one node."""
    products = (number for number, node in graph.nodes() if node.primitive.name == "matmul")
    whole = {number for number in products if _is_only_reader(graph, number)}

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> tuple[Value] | None:
        found = _match(b.so_far, args[0]) if b.number in whole else None
        return None if found is None else (_emit(b, found, args[1]),)

    return rebuild(graph, visit, inner=attention)


def _is_only_reader(graph: Graph, number: int) -> bool:
    """Whether a product ends an attention whose steps nobody else reads."""
    found = _match(graph, graph.args(number)[0])
    if found is None or any(v.node in found.steps for v in graph.outputs):
        return False
    inside = found.steps | {number}
    return all(user in inside for step in found.steps for _, user, _ in graph.users(step))


def _emit(b: Rewriter, found: MatchedWeights, v: Value) -> Value:
    k = swap_last(b, found.k_transposed)
    masks = [] if found.mask is None else [b.bit_not(found.mask) if found.kind == "hidden" else found.mask]
    kind = "bool" if found.kind == "hidden" else found.kind
    result: Value
    result, _ = b.attention(found.q, k, v, *masks, scale=found.scale, causal=False, mask=kind, empty=math.nan)
    return result


def _operands(graph: Graph, value: Value, name: str) -> tuple[Value, ...]:
    """The operands of a value that an operation of this name computes, else nothing."""
    return graph.args(value.node) if graph.node(value.node).primitive.name == name else ()


def _match(graph: Graph, weights: Value) -> MatchedWeights | None:
    """The attention whose weights these are."""
    quotient = _operands(graph, weights, "div")
    powers = _operands(graph, quotient[0], "exp") if quotient else ()
    shifted = _operands(graph, powers[0], "sub") if powers else ()
    if not shifted:
        return None
    total = _spread_reduction(graph, quotient[1], "reduce_sum", quotient[0])
    top = _spread_reduction(graph, shifted[1], "reduce_max", shifted[0])
    if not total or not top:
        return None
    steps = {weights.node, quotient[0].node, powers[0].node, shifted[0].node, *total, *top}
    for products, mask, kind in _unmasked(graph, shifted[0]):
        for plain, scale in _unscaled(graph, products):
            pair = _operands(graph, plain, "matmul")
            if pair:
                return MatchedWeights(
                    pair[0], pair[1], scale, mask, kind, frozenset({*steps, products.node, plain.node})
                )
    return None


def _spread_reduction(graph: Graph, value: Value, name: str, operand: Value) -> tuple[int, ...]:
    """The two nodes of ``operand`` reduced along its last axis and repeated there, if ``value`` is that."""
    rank = len(operand.shape)
    (source,) = _operands(graph, value, "broadcast") or (None,)
    if source is None or value.type != operand.type or source.shape != operand.shape[:-1]:
        return ()
    if graph.node(value.node).params["axes"] != tuple(range(rank - 1)):
        return ()
    if _operands(graph, source, name) != (operand,) or graph.node(source.node).params["axes"] != (rank - 1,):
        return ()
    return value.node, source.node


def _unmasked(graph: Graph, scores: Value) -> Iterator[tuple[Value, Value | None, str]]:
    """Every decomposition of scores into products under a mask: the products, the mask, and its kind."""
    yield scores, None, "none"
    for products, mask in _either_order(_operands(graph, scores, "add")):
        yield products, mask, "add"
    chosen = _operands(graph, scores, "where")
    if chosen and number_in(graph, chosen[2]) == -math.inf:
        yield chosen[1], chosen[0], "bool"
    if chosen and number_in(graph, chosen[1]) == -math.inf:
        yield chosen[2], chosen[0], "hidden"


def _unscaled(graph: Graph, products: Value) -> Iterator[tuple[Value, float]]:
    """Every decomposition of products into others times a number."""
    yield products, 1.0
    for plain, factor in _either_order(_operands(graph, products, "mul")):
        number = number_in(graph, factor)
        if number is not None:
            yield plain, float(number)
    quotient = _operands(graph, products, "div")
    divisor = number_in(graph, quotient[1]) if quotient else None
    if divisor:
        yield quotient[0], 1.0 / float(divisor)


def _either_order(pair: tuple[Value, ...]) -> Iterator[tuple[Value, Value]]:
    if pair:
        yield pair[0], pair[1]
        yield pair[1], pair[0]
