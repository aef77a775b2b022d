"""The fold that finds where a row has its maximum first, and the fold of that maximum, as ``argmax`` is written.

Where a row is split, only those splits need the second walk whose own maximum is the row's. All others have no hit and
would yield the size, which is no less than what a split yields that is walked, and some split has the maximum.
"""

from __future__ import annotations

from typing import cast

from zenith.ir.graph import Graph, Value


def maximum_of(body: Graph, number: int) -> int | None:
    """The node of the maximum whose first position a fold finds, as the primitive ``argmax`` is written; else None."""
    hits, indices, none = _args(body, body.args(number)[0], "where") or (None, None, None)
    if body.node(number).primitive.name != "reduce_min" or hits is None:
        return None
    equal, nan = _args(body, hits, "bit_or") or (hits, None)
    x, spread = _args(body, equal, "eq") or (None, None)
    (maximum,) = _args(body, spread, "broadcast") or (None,)
    (end,) = _args(body, none, "broadcast") or (None,)
    if x is None or _args(body, maximum, "reduce_max") != (x,) or (nan and _args(body, nan, "ne") != (x, x)):
        return None
    is_position = _args(body, indices, "iota") == () and _args(body, end, "size") == ()
    return cast(Value, maximum).node if is_position else None


def _args(body: Graph, value: Value | None, name: str) -> tuple[Value, ...] | None:
    """The operands of a value; None if it is of no primitive of that name."""
    return body.args(value.node) if value and body.node(value.node).primitive.name == name else None
