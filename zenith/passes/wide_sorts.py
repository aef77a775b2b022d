"""Sorts of elements of 64 bits whose indices are asked for: by the lower half of their bits, then by the upper one.

A sorting network compares integers, in which there is room for 32 bits and an index. Two stable sorts, the second of
what the first has ordered, are one of all bits; this is a radix sort with digits of 32 bits (Knuth, TAOCP 3, 5.2.5).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.sort import elements_at
from zenith.ir.types import int32, int64, uint64
from zenith.passes.rewrite import Rewriter, rebuild

HALF = 32  # bits
LAST = 2**63 - 1
NAN, INFINITY = (int(np.array(x).view(np.int64)) for x in (np.nan, np.inf))


def wide_sorts(graph: Graph) -> Graph:
    """The graph with such sorts replaced."""

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        x = args[0].dtype if node.primitive.name == "sort" else None
        if x is None or x.itemsize != int64.itemsize or x.is_complex:  # a complex number is two of 32 bits
            return None
        read = {output for output, _, _ in graph.users(b.number)}
        read |= {value.output for value in graph.outputs if value.node == b.number}
        return _sorted(b, args[0], node.params["descending"]) if 1 in read else None

    return rebuild(graph, visit, inner=wide_sorts)


def _sorted(b: Rewriter, x: Value, descending: bool) -> tuple[Value, Value]:
    """The elements in order, and their indices."""
    order = b.bit_not(_order(b, x)) if descending else _order(b, x)
    low = b.cast(b.sub(b.bit_and(order, 2**HALF - 1), 2 ** (HALF - 1)), dtype=int32)
    high = b.cast(b.shift_right(order, HALF), dtype=int32)
    by_low = b.sort(low, descending=False)[1]
    by_high = b.sort(b.gather(high, *elements_at(b, high, by_low)), descending=False)[1]
    indices = b.gather(by_low, *elements_at(b, by_low, by_high))
    return b.gather(x, *elements_at(b, x, indices)), indices


def _order(b: Rewriter, x: Value) -> Value:
    """Integers that order as elements do: all nans are the largest, zeros are equal."""
    if x.dtype == uint64:
        return b.bit_xor(b.cast(x, dtype=int64), -LAST - 1)
    if not x.dtype.is_float:
        return x
    bits = b.float_bits(x)
    size = b.bit_and(bits, LAST)
    number = b.where(b.gt(size, INFINITY), b.full(NAN, int64, x.shape), bits)
    signed = b.where(b.lt(number, 0), b.bit_xor(number, LAST), number)
    return b.where(b.eq(size, 0), size, signed)
