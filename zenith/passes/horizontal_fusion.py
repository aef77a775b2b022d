"""Products of one array with several fixed matrices become one product with the matrices side by side.

The queries, keys and values of attention are such products. One kernel then reads the array once, and has enough tiles
to keep a large machine busy; readers take a slice. Fixed values are those that follow from constants and weights alone,
so that they are concatenated once, not in every call; biases that are added are concatenated too.

A product whose result goes into arithmetic stays: that is its epilogue, in the same kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from zenith.ir.dims import dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Elements, View
from zenith.passes.rewrite import Rewriter, rebuild

Key = tuple[int, int, bool]  # the array's node and output, and whether a bias is added


@dataclass(slots=True)
class _Member:
    """A product, and its sum with a bias: which nodes compute it, and its fixed operands."""

    product: int
    result: int
    matrix: Value
    bias: Value | None


@dataclass(slots=True)
class _Family:
    """Products of one array, and the slice of the merged product that replaces each."""

    members: list[_Member] = field(default_factory=list)
    slices: dict[int, Value] = field(default_factory=dict)


def horizontal_fusion(graph: Graph) -> Graph:
    """The graph with such products merged."""
    families = _families(graph)
    of = {number: family for family in families for m in family.members for number in (m.product, m.result)}
    copies: dict[int, tuple[Value, ...]] = {}

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        family = of.get(b.number)
        if family is None:
            return None
        if not family.slices:
            _merge(b, family, args[0], copies)
        return (family.slices[b.number],)

    return rebuild(graph, visit, inner=horizontal_fusion)


def _families(graph: Graph) -> list[_Family]:
    """Products that can be merged, by their left operand; only families of two or more."""
    fixed = _fixed(graph)
    found: dict[Key, _Family] = {}
    for number, node in graph.nodes():
        member = _member(graph, number, fixed) if node.primitive.name == "matmul" else None
        if member is not None:
            left = graph.args(number)[0]
            found.setdefault((left.node, left.output, member.bias is not None), _Family()).members.append(member)
    return [family for family in found.values() if len(family.members) > 1]


def _fixed(graph: Graph) -> set[int]:
    """The constants, the weights, and the index maps of these."""
    found = set[int]()
    for number, node in graph.nodes():
        lowering = node.primitive.lowering
        moves = isinstance(lowering, View) or (isinstance(lowering, Elements) and lowering.strided)
        if node.primitive.name in ("constant", "weight") or (moves and graph.args(number)[0].node in found):
            found.add(number)
    return found


def _member(graph: Graph, number: int, fixed: set[int]) -> _Member | None:
    """A product as a member; None where it cannot be merged."""
    left, matrix = graph.args(number)
    if len(left.shape) != 2 or left.node in fixed or matrix.node not in fixed:
        return None
    if any(size.static is None for size in matrix.shape):
        return None
    result, bias = _with_bias(graph, number, fixed)
    readers = [graph.node(user) for _, user, _ in graph.users(result)]
    moved = all(isinstance(r.primitive.lowering, View | Elements) for r in readers)
    returned = result in {v.node for v in graph.outputs}
    return _Member(number, result, matrix, bias) if readers and moved and not returned else None


def _with_bias(graph: Graph, number: int, fixed: set[int]) -> tuple[int, Value | None]:
    """The sum of a product and a fixed vector along its rows, its only reader, and the vector; else the product."""
    users = [user for _, user, _ in graph.users(number)]
    if len(users) != 1 or graph.node(users[0]).primitive.name != "add" or number in {v.node for v in graph.outputs}:
        return number, None
    for other in graph.args(users[0]):
        made = graph.node(other.node)
        if made.primitive.name == "broadcast" and made.params["axes"] == (1,):
            (bias,) = graph.args(other.node)
            if bias.node in fixed:
                return users[0], bias
    return number, None


def _merge(b: Rewriter, family: _Family, left: Value, copies: dict[int, tuple[Value, ...]]) -> None:
    """Write the merged product, and the slices that replace its members."""
    members = family.members
    merged = b.matmul(left, b.concat(*(b.copy_in_front(m.matrix, copies) for m in members), axis=1))
    biases = [b.copy_in_front(m.bias, copies) for m in members if m.bias is not None]
    if biases:
        merged = b.add(merged, b.broadcast(b.concat(*biases, axis=0), shape=merged.shape, axes=(1,)))
    ends = accumulate((m.matrix.shape[1] for m in members), initial=dim(0))
    for member, (start, stop) in zip(members, pairwise(ends), strict=True):
        sliced = b.slice(merged, start=(dim(0), start), stop=(left.shape[0], stop), step=(1, 1))
        family.slices[member.product] = family.slices[member.result] = sliced
