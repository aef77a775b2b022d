"""The extremes of sizes over the turns of loops: what a formula is at least and at most while its indices run.

The index of a loop's turn is a symbol in its body. Interval arithmetic gives bounds of a polynomial in it that are
exact where it occurs linearly, which sizes of triangular loops are; others are bounded less tightly (R. E. Moore,
*Interval Analysis*, 1966).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zenith.ir.dims import Atom, Dim, dim, maximum, minimum, symbol

Extremes = tuple[Dim, Dim]


def extremes(size: Dim, last: Mapping[str, Dim]) -> Extremes:
    """What a size is at least and at most, where each symbol in ``last`` is between 0 and the size there.

    Those sizes may contain the indices of loops further out. Atoms that are multiplied are taken to be at least 0.

    >>> n, i = symbol("n"), symbol("i")
    >>> extremes(n - i - 1, {"i": n - 1})
    (0, n - 1)
    """
    if not size.symbols() & last.keys():
        return size, size
    least = most = dim(0)
    for monomial, count in size.terms:
        low = high = dim(1)
        for atom in monomial:
            below, above = _of_atom(atom, last)
            low, high = low * below, high * above
        low, high = (low, high) if count > 0 else (high, low)
        least, most = least + low * count, most + high * count
    return least, most


def _of_atom(atom: Atom, last: Mapping[str, Dim]) -> Extremes:
    if isinstance(atom, str):
        return (dim(0), extremes(last[atom], last)[1]) if atom in last else (symbol(atom), symbol(atom))
    (low, high), (least, most) = extremes(atom.left, last), extremes(atom.right, last)
    if atom.kind == "%":
        return dim(0), most - 1
    if atom.kind == "//":
        return low // most, high // least
    join: Callable[[Dim, Dim], Dim] = maximum if atom.kind == "max" else minimum
    return join(low, least), join(high, most)
