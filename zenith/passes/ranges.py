"""What is known of integers before a program runs: indices counted from zero, and sizes, are not negative.

Index arrays that count from the end, and masks over indices, compare such numbers with zero. So may those of unsigned
types, which are never below it.
"""

from __future__ import annotations

from zenith.ir.builder import Builder
from zenith.ir.dims import prove_at_least
from zenith.ir.graph import Node, Value
from zenith.ir.ops.reduce import highest
from zenith.ir.types import bool_, int64
from zenith.passes.rewrite import number_of

_MOVES = frozenset({"broadcast", "reshape", "reverse", "slice", "transpose"})
_LONGEST = 2**31 - 1  # elements of an axis along which int32 counts
_ORDERED = {"lt": (0, 1, False), "ge": (0, 1, True), "gt": (1, 0, False), "le": (1, 0, True)}
"""The numbers of two arguments, and the comparison's result when the first of them is nowhere below the second."""


def decided(b: Builder, node: Node, args: tuple[Value, ...]) -> Value | None:
    """The result of a comparison that is the same everywhere, or of wrapping indices of which none counts from the
    end; None where that is not known.
    """
    if node.primitive.name == "wrapped":
        least = _lower_bound(b, args[0])
        return None if least is None or least < 0 else _as_int64(b, args[0])
    if node.primitive.name not in _ORDERED or not args[0].dtype.is_integer:
        return None
    large, small, answer = _ORDERED[node.primitive.name]
    bound, number = _lower_bound(b, args[large]), number_of(b, args[small])
    if bound is None or number is None or bound < number:
        return None
    return b.full(answer, bool_, args[0].shape)


def _as_int64(b: Builder, value: Value) -> Value:
    return value if value.dtype == int64 else b.cast(value, dtype=int64)


def _lower_bound(b: Builder, value: Value) -> int | None:
    """A lower bound of an integer array, by the operation that defines it."""
    node = b.so_far.node(value.node)
    while node.primitive.name in _MOVES:
        value = b.so_far.args(value.node)[0]
        node = b.so_far.node(value.node)
    if value.dtype.kind == "u":
        return 0
    if node.primitive.name == "size":  # of formulas, such as differences
        return 0 if prove_at_least(node.params["value"], 0) else None
    if node.primitive.name != "iota":
        return None
    most = highest(value.dtype)  # a longer count wraps: where sizes are not known, small types are not trusted
    return 0 if most >= _LONGEST or prove_at_least(most + 1, node.params["size"]) else None
