"""Hoisting to the host: terms of indices that depend on the program's sizes alone are arguments of the kernel.

A size of a convolutional network is a nest of quotients, and an index is a polynomial in several of them: written out
they are most of a kernel's text, and no two layers have the same. As arguments they are strides, offsets and trip
counts, computed once for all calls with equal sizes. Constants stay, for the compiler to unroll and divide by.
"""

from __future__ import annotations

from collections.abc import Iterable

from zenith.backends.cpu.emit import CpuPrinter
from zenith.ir.dims import Atom, Dim, Monomial, Opaque, symbol


class HoistingPrinter(CpuPrinter):
    """Prints kernels in which arguments replace sizes.

    ``arguments`` maps what the host computes to names of arguments, in the order in which they were met.
    """

    def __init__(self, sizes: Iterable[str], stem: str) -> None:
        super().__init__(with_lines=False)
        self.arguments: dict[Dim, str] = {}
        self._sizes, self._stem = frozenset(sizes), stem
        self._known: dict[Dim, str] = {}

    def size(self, at: Dim) -> str:
        """An index expression of the kernel's own names, constants and arguments."""
        if at not in self._known:
            self._known[at] = str(self._with_arguments(at))
        return self._known[at]

    def _with_arguments(self, at: Dim) -> Dim:
        """A sum of products of the kernel's names, each with a coefficient that is a constant or one argument."""
        if at.static is not None:
            return at
        coefficients: dict[Monomial, dict[Monomial, int]] = {}
        for monomial, c in at.terms:
            own = tuple(atom for atom in monomial if not self._is_size(atom))
            coefficients.setdefault(own, {})[tuple(a for a in monomial if self._is_size(a))] = c
        total = Dim({})
        for own in sorted(coefficients, key=lambda atoms: (-len(atoms), "*".join(map(str, atoms)))):
            term = self._argument(Dim(coefficients[own]))
            for atom in own:
                term = term * self._inside(atom)
            total = total + term
        return total

    def _is_size(self, atom: Atom) -> bool:
        """Whether the host can compute it."""
        if isinstance(atom, str):
            return atom in self._sizes
        symbols = atom.left.symbols() | atom.right.symbols()
        return bool(symbols) and symbols <= self._sizes

    def _inside(self, atom: Atom) -> Dim:
        if isinstance(atom, str):
            return symbol(atom)
        return Dim({(Opaque(atom.kind, self._with_arguments(atom.left), self._with_arguments(atom.right)),): 1})

    def _argument(self, size: Dim) -> Dim:
        """A size as an argument; a constant as itself."""
        if size.static is not None:
            return size
        return symbol(self.arguments.setdefault(size, f"{self._stem}{len(self.arguments)}"))
