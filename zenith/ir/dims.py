"""Symbolic sizes: integer polynomials over named symbols, in one normal form.

A :class:`Dim` is a sum of monomials with integer coefficients. Its atoms are symbols (``n``) and the opaque functions
floor division, remainder, minimum and maximum. Inside the IR sizes compare by structure only; the three-valued
:func:`prove_equal` decides more. Every symbol is an integer >= 0.

>>> n = symbol("n")
>>> str((n + 1) * 2 - 2), (n * 4) // 2 == n * 2
('2*n', True)
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Union

TYPICAL = 64  # taken for a size that is not known


@dataclass(frozen=True, slots=True)
class Opaque:
    """``kind(left, right)`` with kind one of ``//``, ``%``, ``max``, ``min``: an atom that arithmetic does not open."""

    kind: str
    left: Dim
    right: Dim

    def __str__(self) -> str:
        if self.kind in ("max", "min"):
            return f"{self.kind}({self.left}, {self.right})"
        return f"({_wrap(self.left)}{self.kind}{_wrap(self.right)})"


Atom = str | Opaque
Monomial = tuple[Atom, ...]  # sorted, repeated for powers; () is the constant term
DimLike = Union["Dim", int]


class Dim:
    """A size: immutable, hashable, equal by structure; equal to an ``int`` when it is that constant.

    ``static`` is the number that it always is, or None. Its text, by which atoms are sorted, is made once.
    """

    __slots__ = ("_hash", "_text", "static", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        nonzero = [(m, c) for m, c in terms.items() if c]
        if len(nonzero) > 1:
            nonzero.sort(key=_term_order)
        self.terms: tuple[tuple[Monomial, int], ...] = tuple(nonzero)
        self.static: int | None = 0
        if nonzero:
            self.static = nonzero[0][1] if len(nonzero) == 1 and nonzero[0][0] == () else None
        self._hash = hash(self.terms) if self.static is None else hash(self.static)
        self._text: str | None = None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            return self is other or self.terms == other.terms
        return isinstance(other, int) and self.static == other

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: DimLike) -> Dim:
        other = dim(other)
        if self.static is not None and other.static is not None:
            return _constant(self.static + other.static)
        total = dict(self.terms)
        for monomial, c in other.terms:
            total[monomial] = total.get(monomial, 0) + c
        return Dim(total)

    def __neg__(self) -> Dim:
        return Dim({m: -c for m, c in self.terms}) if self.static is None else _constant(-self.static)

    def __sub__(self, other: DimLike) -> Dim:
        return _constant(0) if self == other else self + (-dim(other))

    def __rsub__(self, other: DimLike) -> Dim:
        return dim(other) - self

    def __mul__(self, other: DimLike) -> Dim:
        other = dim(other)
        if self.static is not None and other.static is not None:
            return _constant(self.static * other.static)
        total: dict[Monomial, int] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                m = tuple(sorted(m1 + m2, key=str)) if m1 and m2 else m1 or m2
                total[m] = total.get(m, 0) + c1 * c2
        return Dim(total)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> Dim:
        divisor = dim(other)
        exact = divide_exactly(self, _nonzero(divisor))
        if exact is not None:
            return exact
        if self.static is not None and divisor.static is not None:
            return dim(self.static // divisor.static)
        if (divisor.static or 0) < 0:  # divisors are at least 1 in all formulas
            return -self // -divisor
        return Dim({(Opaque("//", *_reduced(self, divisor)),): 1})

    def __mod__(self, other: DimLike) -> Dim:
        divisor = dim(other)
        if divide_exactly(self, _nonzero(divisor)) is not None:
            return dim(0)
        if self.static is not None and divisor.static is not None:
            return dim(self.static % divisor.static)
        if (divisor.static or 0) < 0:
            return -(-self % -divisor)
        return Dim({(Opaque("%", self, divisor),): 1})

    def symbols(self) -> set[str]:
        """The names of all symbols in this size."""
        if self.static is not None:
            return set()
        return {atom for atom in self.atoms() if isinstance(atom, str)}

    def atoms(self) -> set[Atom]:
        """The symbols and opaque functions in this size, and those in their operands."""
        found: set[Atom] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else {atom} | atom.left.atoms() | atom.right.atoms()
        return found

    def substitute(self, values: Mapping[str, DimLike]) -> Dim:
        """This size with symbols replaced; symbols not in ``values`` stay."""
        if not self.terms or self.static is not None or not (self.symbols() & values.keys()):
            return self
        total = dim(0)
        for monomial, c in self.terms:
            product = dim(c)
            for atom in monomial:
                product = product * _substitute_atom(atom, values)
            total = total + product
        return total

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The number that this size is when its symbols have ``values``."""
        result = self.substitute(values).static
        if result is None:
            raise KeyError(f"size {self} has symbols without a value: {sorted(self.symbols() - values.keys())}")
        return result

    def typical(self) -> int:
        """The number that this size is for symbols of ``TYPICAL``: to choose by where no call's sizes are known."""
        return self.evaluate(dict.fromkeys(self.symbols(), TYPICAL))

    def __str__(self) -> str:
        if self._text is None:
            self._text = self._spelled()
        return self._text

    def _spelled(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for monomial, c in self.terms:
            body = "*".join(map(str, monomial)) or str(abs(c))
            if monomial and abs(c) != 1:
                body = f"{abs(c)}*{body}"
            text += (" - " if c < 0 else " + ") + body
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    __repr__ = __str__


def _term_order(term: tuple[Monomial, int]) -> tuple[bool, int, str]:
    return (term[0] == (), -len(term[0]), "*".join(map(str, term[0])))


def _nonzero(divisor: Dim) -> Dim:
    if divisor == 0:
        raise ZeroDivisionError("a size is divided by 0")
    return divisor


def _atom(size: Dim) -> Atom | None:
    """The symbol or operation that a size is, if it is nothing else."""
    if len(size.terms) != 1 or size.terms[0][1] != 1 or len(size.terms[0][0]) != 1:
        return None
    return size.terms[0][0][0]


def _wrap(size: Dim) -> str:
    """The text of an operand of ``//`` or ``%``: only an atom or a constant needs no parentheses."""
    return str(size) if size.static is not None or _atom(size) is not None else f"({size})"


def _substitute_atom(atom: Atom, values: Mapping[str, DimLike]) -> Dim:
    if isinstance(atom, str):
        return dim(values[atom]) if atom in values else symbol(atom)
    left, right = atom.left.substitute(values), atom.right.substitute(values)
    return _OPERATIONS[atom.kind](left, right)


@functools.lru_cache(maxsize=4096)
def _constant(value: int) -> Dim:
    return Dim({(): value})


@functools.lru_cache(maxsize=4096)
def symbol(name: str) -> Dim:
    """The size called ``name``, an integer >= 0."""
    if not name.isidentifier():
        raise ValueError(f"a size is named by a Python identifier, not {name!r}")
    return Dim({(name,): 1})


def dim(value: DimLike) -> Dim:
    """``value`` as a :class:`Dim` (an ``int`` becomes a constant)."""
    return value if isinstance(value, Dim) else _constant(int(value))


# --- shapes ---


def dims(values: Iterable[DimLike]) -> tuple[Dim, ...]:
    """A shape: every entry as a :class:`Dim`."""
    return tuple(map(dim, values))


def product(sizes: Iterable[DimLike]) -> Dim:
    """The product of sizes; 1 for none."""
    return _product(dims(sizes))


@functools.lru_cache(maxsize=4096)  # called with the same few shapes many times
def _product(sizes: tuple[Dim, ...]) -> Dim:
    number, unknown = 1, []
    for size in sizes:
        if size.static is None:
            unknown.append(size)
        else:
            number *= size.static
    return functools.reduce(Dim.__mul__, unknown, dim(number))


def row_major(shape: Sequence[Dim], index: Sequence[Dim]) -> Dim:
    """The position of an element in a dense array."""
    at = dim(0)
    for size, i in zip(shape, index, strict=True):
        at = at * size + i
    return at


# --- quotients ---


def divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """``q`` with ``q * b == a`` for every value of the symbols, found for a divisor of one term; else None."""
    if a == b and b != 0:
        return dim(1)
    if len(b.terms) != 1:
        return None
    divisor, coefficient = b.terms[0]
    quotient: dict[Monomial, int] = {}
    for monomial, c in a.terms:
        rest = list(monomial)
        for atom in divisor:
            if atom not in rest:
                return None
            rest.remove(atom)
        if c % coefficient:
            return None
        quotient[tuple(rest)] = c // coefficient
    return Dim(quotient)


def _reduced(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    """A fraction without the factor that all terms have in common: as floor division, equal where it is not 0.

    >>> _reduced(symbol("n") * 4 + symbol("n") * 6, symbol("n") * 8)
    (5, 4)
    """
    terms = (*a.terms, *b.terms)
    number = gcd(*(c for _, c in terms))
    shared, *others = (list(monomial) for monomial, _ in terms)
    for other in others:
        shared = [atom for i, atom in enumerate(shared) if shared[:i].count(atom) < other.count(atom)]
    if number == 1 and not shared:
        return a, b
    factor = Dim({tuple(shared): number})
    reduced = divide_exactly(a, factor), divide_exactly(b, factor)
    assert reduced[0] is not None and reduced[1] is not None, "each term has the factor"
    return reduced[0], reduced[1]


# --- maxima and minima ---


def _extreme(kind: str, a: Dim, b: Dim) -> Dim:
    difference = (a - b).static
    if difference is not None:
        return a if (difference >= 0) == (kind == "max") else b
    for one, other in ((a, b), (b, a)):
        if prove_at_least(one, other):
            return one if kind == "max" else other
        atom = _opaque(other)
        if atom is not None and atom.kind in ("max", "min") and one in (atom.left, atom.right):
            return other if atom.kind == kind else one  # max(x, max(x, y)) = max(x, y), max(x, min(x, y)) = x
        inner = _inner_extreme(kind, one, other)
        if inner is not None:
            return _extreme(kind, one, inner)
    first, second = sorted((a, b), key=str)
    return Dim({(Opaque(kind, first, second),): 1})


def _inner_extreme(kind: str, number: Dim, size: Dim) -> Dim | None:
    """``a + e`` for a ``max(d, a) + e`` whose ``d + e`` is not above a number that it is compared with; else None.

    >>> maximum(0, maximum(0, symbol("n") - 1) - 2)
    max(0, n - 3)
    """
    rest = dict(size.terms).get((), 0)
    atom = _opaque(size - rest)
    if number.static is None or atom is None or atom.kind != kind:
        return None
    for one, other in ((atom.left, atom.right), (atom.right, atom.left)):
        if one.static is not None and (
            number.static >= one.static + rest if kind == "max" else number.static <= one.static + rest
        ):
            return other + rest
    return None


def _opaque(size: Dim) -> Opaque | None:
    """The operation that a size is, if it is nothing else."""
    atom = _atom(size)
    return None if isinstance(atom, str) else atom


def operands_of_minimum(size: Dim) -> tuple[Dim, ...]:
    """The sizes of which one is the smaller; none of another formula."""
    atom = _opaque(size)
    return (atom.left, atom.right) if atom is not None and atom.kind == "min" else ()


def maximum(a: DimLike, b: DimLike) -> Dim:
    """The larger of two sizes."""
    return _extreme("max", dim(a), dim(b))


def minimum(a: DimLike, b: DimLike) -> Dim:
    """The smaller of two sizes."""
    return _extreme("min", dim(a), dim(b))


_OPERATIONS = {"//": Dim.__floordiv__, "%": Dim.__mod__, "max": maximum, "min": minimum}


# --- order, for all values of the symbols ---


def prove_equal(a: DimLike, b: DimLike) -> bool | None:
    """True or False when two sizes are equal or different for all values of their symbols, None when it depends."""
    difference = dim(a) - b
    if difference.static is not None:
        return difference.static == 0
    return False if _signed(difference) or _signed(-difference) else None


def prove_at_least(a: DimLike, b: DimLike) -> bool | None:
    """True or False when ``a >= b`` always or never holds, None when it depends."""
    difference = dim(a) - b
    if difference.static is not None:
        return difference.static >= 0
    if _natural(difference) or _natural(_without_quotients(difference)) or _follows_of_operands(dim(a), dim(b)):
        return True
    return False if _signed(-difference) else None


def _follows_of_operands(a: Dim, b: Dim) -> bool:
    """Whether ``a >= b`` follows from the operands of a maximum or minimum that one of them is."""
    one, other = _opaque(a), _opaque(b)
    found: list[bool] = []
    if one is not None and one.kind in ("max", "min"):
        of_one = (prove_at_least(size, b) is True for size in (one.left, one.right))
        found.append(any(of_one) if one.kind == "max" else all(of_one))
    if other is not None and other.kind in ("max", "min"):
        of_other = (prove_at_least(a, size) is True for size in (other.left, other.right))
        found.append(all(of_other) if other.kind == "max" else any(of_other))
    return any(found)


def _signed(size: Dim) -> bool:
    """Whether the size is surely positive: no negative term and a positive constant."""
    return _natural(size) and size.terms[-1][0] == ()


def _natural(size: Dim) -> bool:
    """Whether the size is surely >= 0: no negative coefficient, and no atom that could be negative."""
    return all(c > 0 and all(map(_natural_atom, monomial)) for monomial, c in _without_lower_powers(size).terms)


def _without_lower_powers(size: Dim) -> Dim:
    """A size that is at least 0 only where the given one is: a natural number's square is not below the number.

    >>> n = symbol("n")
    >>> prove_at_least(n * n * 2, n + n * n), prove_at_least(n * symbol("m"), n)
    (True, None)
    """
    terms = dict(size.terms)
    for low, c in size.terms:
        for high, d in terms.items() if c < 0 and low else ():
            if d > 0 and set(high) == set(low) and all(high.count(a) >= low.count(a) and _natural_atom(a) for a in low):
                shared = min(-terms[low], d)
                terms |= {low: terms[low] + shared, high: d - shared}
    return size if terms == dict(size.terms) else Dim(terms)


def _without_quotients(size: Dim) -> Dim:
    """A size that is at least 0 only where the given one is, without the rounded quotients that are subtracted.

    ``x // c`` is ``x / c`` at most, and a number ``n`` at most where ``x`` is less than ``(n + 1) * c``.
    """
    for monomial, c in size.terms:
        atom = monomial[0] if len(monomial) == 1 else ""
        if c < 0 and not isinstance(atom, str) and atom.kind == "//" and (atom.right.static or 0) > 0:
            rest = Dim({m: v for m, v in size.terms if m != monomial})
            return _without_quotients(rest * atom.right + atom.left * c + (atom.right - 1 if c == -1 else 0))
    return size


def _natural_atom(atom: Atom) -> bool:
    if isinstance(atom, str):
        return True
    left, right = _natural(atom.left), _natural(atom.right)
    return {"//": left and right, "%": right, "max": left or right, "min": left and right}[atom.kind]


# --- equations and text ---


def solve(equation: Dim) -> tuple[str, Dim] | None:
    """A symbol and its value such that ``equation == 0`` holds, when one symbol is a term of its own in it.

    >>> solve(symbol("m") - symbol("n") * 2)
    ('m', 2*n)
    """
    for monomial, c in reversed(equation.terms):
        if len(monomial) == 1 and abs(c) == 1 and isinstance(monomial[0], str):
            rest = Dim({m: v for m, v in equation.terms if m != monomial})
            value = -rest if c == 1 else rest
            if monomial[0] not in value.symbols():
                return monomial[0], value
    return None


_BINARY = {
    ast.Add: Dim.__add__,
    ast.Sub: Dim.__sub__,
    ast.Mult: Dim.__mul__,
    ast.FloorDiv: Dim.__floordiv__,
    ast.Mod: Dim.__mod__,
}


def parse(node: ast.expr) -> Dim:
    """The size that a Python expression spells: the inverse of ``str``.

    >>> parse(ast.parse("2*n + max(m, 1)", mode="eval").body)
    max(1, m) + 2*n
    """
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return dim(value)
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -parse(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](parse(left), parse(right))
        case ast.Call(func=ast.Name(id="max" | "min" as kind), args=[left, right]):
            return _OPERATIONS[kind](parse(left), parse(right))
    raise ValueError(f"not a size: {ast.unparse(node)}")
