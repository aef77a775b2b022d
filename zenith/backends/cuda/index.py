"""Index expressions for a GPU: unsigned integers of 32 bits, or of 64 for buffers of 2**31 elements and more.

Numba computes sums, differences and products in 64 bits; they are exact modulo the width, so one conversion around a
whole polynomial is enough, and LLVM narrows what is inside. Quotients, remainders and extremes take converted operands
for that reason, and are computed in int64 where an operand may be negative.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from zenith.ir.dims import Dim, Opaque, prove_at_least
from zenith.ir.types import int64


@dataclass(frozen=True, slots=True)
class Indices:
    """Prints index expressions of the type ``kind``, ``u32`` or ``u64``."""

    kind: str = "u32"

    def text(self, at: Dim) -> str:
        """An index expression, of the index type unless it is a number."""
        if at.static is not None and at.static >= 0:
            return str(at.static)
        text = _polynomial(at, self._atom)
        return text if text.isidentifier() else f"{self.kind}({text})"

    def typed(self, at: Dim) -> str:
        """An index expression that is of the index type even where it is a number."""
        return self.text(at) if at.static is None else f"{self.kind}({at.static})"

    def _atom(self, atom: str | Opaque) -> str:
        if isinstance(atom, str):
            return atom
        if not (prove_at_least(atom.left, 0) and prove_at_least(atom.right, 0)):
            return f"{self.kind}({_apply(atom, signed(atom.left), signed(atom.right))})"
        return _apply(atom, self.typed(atom.left), self.typed(atom.right))


def signed(at: Dim) -> str:
    """An index expression in int64, exact for negative values too."""

    def atom_text(atom: str | Opaque) -> str:
        if isinstance(atom, str):
            return f"{int64}({atom})"
        return _apply(atom, signed(atom.left), signed(atom.right))

    return _polynomial(at, atom_text) if at.static is None else f"{int64}({at.static})"


def _apply(atom: Opaque, left: str, right: str) -> str:
    """The text of an atom's operation on the texts of its operands."""
    if atom.kind in ("max", "min"):
        return f"{atom.kind}({left}, {right})"
    left, right = (side if re.fullmatch(r"\w+(\([^()]*\))?", side) else f"({side})" for side in (left, right))
    return f"({left} {atom.kind} {right})"


def _polynomial(at: Dim, atom_text: Callable[[str | Opaque], str]) -> str:
    """A sum of products of numbers and texts of its atoms."""
    text = ""
    for monomial, coefficient in at.terms:
        factors = [atom_text(atom) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        text += f" {'-' if coefficient < 0 else '+'} {' * '.join(factors)}"
    return text[3:] if text.startswith(" + ") else f"0{text}"
