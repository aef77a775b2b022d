"""Equations and determinants of matrices of a few rows, written out: kernels compute a whole stack of them at once.

Gauss's elimination with exchange of rows, one step after the other: each step takes, of the rows that are left, the one
whose leading element is largest, by choices instead of branches. A singular matrix gives infinities and nan.
"""

from __future__ import annotations

from typing import Any

from zenith.numpy import elementwise as ew
from zenith.numpy.joining import stack
from zenith.numpy.operands import convert, dims_of
from zenith.numpy.selection import where
from zenith.trace.tracer import Tracer

LARGEST = 4
Rows = list[list[Any]]


def is_small(a: Any) -> bool:
    """Whether square matrices are written out: traced ones, of at most four rows."""
    return isinstance(a, Tracer) and 1 <= (dims_of(a)[-1].static or 0) <= LARGEST


def solve(a: Any, y: Any) -> Any:
    """X of A X = Y for matrices of a fixed small size, and leading axes that fit."""
    rows, right = _elements(a), _elements(y)
    _eliminate(rows, right)
    for i in reversed(range(len(rows))):
        for j in range(i + 1, len(rows)):
            right[i] = [ew.subtract(e, ew.multiply(rows[i][j], f)) for e, f in zip(right[i], right[j], strict=True)]
        right[i] = [ew.divide(e, rows[i][i]) for e in right[i]]
    return _matrices(right)


def det(a: Any) -> Any:
    """The determinant of matrices of a fixed small size: the product of the leading elements, with its sign."""
    rows = _elements(a)
    found = _eliminate(rows, [[] for _ in rows])
    for i, row in enumerate(rows):
        found = row[i] if found is None else ew.multiply(found, row[i])
    return found


def _elements(a: Any) -> Rows:
    """Each element of the matrices as an array of the leading axes."""
    height, width = (n.static for n in dims_of(a)[-2:])
    assert height is not None and width is not None
    return [[a[..., i, j] for j in range(width)] for i in range(height)]


def _matrices(rows: Rows) -> Any:
    return stack([stack(row, -1) for row in rows], -2)


def _eliminate(rows: Rows, right: Rows) -> Any:
    """Make the matrices triangular, and do the same to the right side; the sign of the exchanges, None for none."""
    sign = None
    for k in range(len(rows)):
        for i in range(k + 1, len(rows)):
            larger = ew.greater(ew.absolute(rows[i][k]), ew.absolute(rows[k][k]))
            rows[k], rows[i] = _exchanged(larger, rows[k], rows[i])
            right[k], right[i] = _exchanged(larger, right[k], right[i])
            turn = where(larger, convert(-1, rows[0][0].dtype), convert(1, rows[0][0].dtype))
            sign = turn if sign is None else ew.multiply(sign, turn)
        for i in range(k + 1, len(rows)):
            factor = ew.divide(rows[i][k], rows[k][k])
            rows[i] = [*rows[i][: k + 1], *_less(rows[i][k + 1 :], factor, rows[k][k + 1 :])]
            right[i] = _less(right[i], factor, right[k])
    return sign


def _exchanged(condition: Any, x: list[Any], y: list[Any]) -> tuple[list[Any], list[Any]]:
    pairs = list(zip(x, y, strict=True))
    return [where(condition, b, a) for a, b in pairs], [where(condition, a, b) for a, b in pairs]


def _less(x: list[Any], factor: Any, y: list[Any]) -> list[Any]:
    return [ew.subtract(a, ew.multiply(factor, b)) for a, b in zip(x, y, strict=True)]
