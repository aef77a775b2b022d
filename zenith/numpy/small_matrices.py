"""Equations and determinants of matrices of a few rows, written out: kernels compute a whole stack of them at once.

Gaussian elimination with partial pivoting, one step after the other: each step takes, of the rows that are left, the
one whose leading element is largest, by selects instead of branches. Of a singular matrix the determinant is 0 or next
to it, and solutions are infinite or nan.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from zenith.numpy import elementwise as ew
from zenith.numpy.conditionals import where
from zenith.numpy.creation import ones_like
from zenith.numpy.joining import stack
from zenith.numpy.operands import ask, convert, dims_of
from zenith.numpy.typing import Array
from zenith.trace.bind import b
from zenith.trace.size_relations import VaryingSize
from zenith.trace.tracer import Tracer

LARGEST = 4
Rows = list[list[Array]]
Minors = dict[tuple[tuple[int, ...], tuple[int, ...]], Any]  # by the chosen rows and columns


def rows_of(a: Array) -> int | None:
    """How many rows square matrices have that are to be written out: traced ones; None where they are too many.

    A size that is not fixed is asked for: a program is for one small size, or for all larger ones. One that differs
    from turn to turn of a loop may be any.
    """
    size = dims_of(a)[-1]
    try:
        if not isinstance(a, Tracer) or not ask(size, "<=", LARGEST):
            return None
    except VaryingSize:
        return None
    return next((n for n in range(1, LARGEST + 1) if ask(size, "==", n)), None)


def solve(a: Array, y: Any, size: int) -> Array:
    """X of A X = Y for matrices of a small size, and leading axes that fit."""
    rows = _elements(a, size)
    right = [[y[..., i, :]] for i in range(size)]  # rows as they are: an operation on one is on all of its elements
    rows = [[b.reshape(e, shape=(*dims_of(e), 1)) for e in row] for row in rows]
    _eliminate(rows, right)
    for i in reversed(range(len(rows))):
        for j in range(i + 1, len(rows)):
            right[i] = [ew.subtract(e, ew.multiply(rows[i][j], f)) for e, f in zip(right[i], right[j], strict=True)]
        right[i] = [ew.divide(e, rows[i][i]) for e in right[i]]
    return stack([row for (row,) in right], -2)


def det(a: Array, size: int) -> Array:
    """The determinant of matrices of a small size: the product of the leading elements, with its sign.

    Its derivative is written with cofactors, polynomials of the elements: elimination has none where a pivot is 0, and
    the determinant has one there.
    """
    from zenith.transforms import custom_jvp

    @custom_jvp
    def determinant(a: Array) -> Array:
        return _product_of_pivots(_elements(a, size))

    @determinant.defjvp
    def rule(primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
        (x,), (change,) = primals, tangents
        known: Minors = {}
        rows, changes = _elements(x, size), _elements(change, size)
        terms = [ew.multiply(_cofactor(rows, i, j, known), changes[i][j]) for i in range(size) for j in range(size)]
        return determinant(x), functools.reduce(ew.add, terms)

    return determinant(a)


def _product_of_pivots(rows: Rows) -> Array:
    found = _eliminate(rows, [[] for _ in rows])
    for i, row in enumerate(rows):
        found = row[i] if found is None else ew.multiply(found, row[i])
    return found


def _cofactor(rows: Rows, row: int, column: int, known: Minors) -> Array:
    """The determinant without a row and a column, with the sign of their indices' sum."""
    indices = range(len(rows))
    left = [tuple(i for i in indices if i != removed) for removed in (row, column)]
    found = _minor(rows, left[0], left[1], known) if len(rows) > 1 else ones_like(rows[0][0])
    return ew.negative(found) if (row + column) % 2 else found


def _minor(rows: Rows, chosen: tuple[int, ...], columns: tuple[int, ...], known: Minors) -> Array:
    """The determinant of the chosen rows and columns, expanded along the first row."""
    if len(chosen) == 1:
        return rows[chosen[0]][columns[0]]
    if (chosen, columns) not in known:
        found = None
        for k, column in enumerate(columns):
            inner = _minor(rows, chosen[1:], columns[:k] + columns[k + 1 :], known)
            term = ew.multiply(rows[chosen[0]][column], inner)
            found = term if found is None else (ew.subtract if k % 2 else ew.add)(found, term)
        known[chosen, columns] = found
    return known[chosen, columns]


def _elements(a: Array, size: int) -> Rows:
    """Each element of the matrices as an array of the leading axes."""
    return [[a[..., i, j] for j in range(size)] for i in range(size)]


def _eliminate(rows: Rows, right: Rows) -> Any:
    """Make the matrices triangular, and do the same to the right side; the sign of the exchanges, None for none."""
    sign = None
    for k in range(len(rows)):
        for i in range(k + 1, len(rows)):
            larger = ew.greater(ew.absolute(rows[i][k]), ew.absolute(rows[k][k]))
            rows[k], rows[i] = _exchanged(larger, rows[k], rows[i])
            right[k], right[i] = _exchanged(larger, right[k], right[i])
            swap_sign = where(larger, convert(-1, rows[0][0].dtype), convert(1, rows[0][0].dtype))
            sign = swap_sign if sign is None else ew.multiply(sign, swap_sign)
        pivot = where(ew.equal(rows[k][k], 0), ones_like(rows[k][k]), rows[k][k])  # 0 above zeros leaves them alone
        for i in range(k + 1, len(rows)):
            factor = ew.divide(rows[i][k], pivot)
            rows[i] = [*rows[i][: k + 1], *_less(rows[i][k + 1 :], factor, rows[k][k + 1 :])]
            right[i] = _less(right[i], factor, right[k])
    return sign


def _exchanged(condition: Array, x: list[Array], y: list[Array]) -> tuple[list[Array], list[Array]]:
    pairs = list(zip(x, y, strict=True))
    return [where(condition, second, first) for first, second in pairs], [where(condition, *pair) for pair in pairs]


def _less(x: list[Array], factor: Array, y: list[Array]) -> list[Array]:
    return [ew.subtract(p, ew.multiply(factor, q)) for p, q in zip(x, y, strict=True)]
