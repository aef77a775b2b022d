"""The extremes of sizes over the turns of loops: what a formula is at least and at most while its indices run.

The index of a loop's turn is a symbol in its body. Interval arithmetic gives bounds of a polynomial in it that are
exact where it occurs linearly, which sizes of triangular loops are; others are bounded less tightly (R. E. Moore,
*Interval Analysis*, 1966).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from zenith.ir.dims import Atom, Dim, dim, maximum, minimum, prove_at_least, symbol

Extremes = tuple[Dim, Dim]


def extremes(size: Dim, last: Mapping[str, Dim]) -> Extremes:
    """What a size is at least and at most, where each symbol in ``last`` is between 0 and the size there.

    Those sizes may contain the indices of loops further out, which come first. Divisors are at least 1.

    >>> n, i, j = symbol("n"), symbol("i"), symbol("j")
    >>> extremes(n - i - 1, {"i": n - 1}), extremes(i + j, {"i": n - 1, "j": n - i - 1})
    ((0, n - 1), (0, n - 1))
    """
    return _extremes(size, tuple(last.items()))


@functools.lru_cache(maxsize=4096)  # of a formula in formulas, each is asked for many times
def _extremes(size: Dim, bounds: tuple[tuple[str, Dim], ...]) -> Extremes:
    last = dict(bounds)
    return _interval(_eliminated(size, last, False), last)[0], _interval(_eliminated(size, last, True), last)[1]


def _eliminated(size: Dim, last: Mapping[str, Dim], most: bool) -> Dim:
    """A bound of a size without the symbols that occur linearly, inner ones first, whose bounds may cancel others."""
    for name in reversed([*last]):
        others = {s for monomial, _ in size.terms if monomial != (name,) for s in Dim({monomial: 1}).symbols()}
        count = dict(size.terms).get((name,), 0)
        if count and name not in others:
            size = size.substitute({name: last[name] if (count > 0) == most else 0})
    return size


def _interval(size: Dim, last: Mapping[str, Dim]) -> Extremes:
    if not size.symbols() & last.keys():
        return size, size
    least = most = dim(0)
    for monomial, count in size.terms:
        low, high = functools.reduce(_product, (_of_atom(atom, last) for atom in monomial), (dim(1), dim(1)))
        low, high = (low, high) if count > 0 else (high, low)
        least, most = least + low * count, most + high * count
    return least, most


def _product(one: Extremes, other: Extremes) -> Extremes:
    """The extremes of a product: those of its corners, of which two are enough where no factor is below 0."""
    (low, high), (least, most) = one, other
    if prove_at_least(low, 0) and prove_at_least(least, 0):
        return low * least, high * most
    corners = low * least, low * most, high * least, high * most
    return functools.reduce(minimum, corners), functools.reduce(maximum, corners)


def _of_atom(atom: Atom, last: Mapping[str, Dim]) -> Extremes:
    if isinstance(atom, str):
        return (dim(0), _interval(last[atom], last)[1]) if atom in last else (symbol(atom), symbol(atom))
    (low, high), (least, most) = extremes(atom.left, last), extremes(atom.right, last)
    if atom.kind in ("//", "%"):
        least, most = maximum(least, 1), maximum(most, 1)
    if atom.kind == "%":
        return dim(0), most - 1
    if atom.kind == "//":
        return minimum(low // most, low // least), maximum(high // least, high // most)
    join: Callable[[Dim, Dim], Dim] = maximum if atom.kind == "max" else minimum
    return join(low, least), join(high, most)
