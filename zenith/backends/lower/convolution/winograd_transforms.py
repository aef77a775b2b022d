"""The matrices of Winograd's convolutions F(m x m, 3x3), how they are applied, and how exact the result is.

Three weights and ``m + 2`` elements of an array give ``m`` elements of the result: ``A^T ((G g) * (B^T d))``. The
product of two polynomials is known from its values at as many *points* as it has coefficients, one of which may be
infinity; the matrices are that, transposed (S. Winograd, *Arithmetic complexity of computations*, 1980; A. Lavin and
S. Gray, *Fast algorithms for convolutional neural networks*, arXiv:1509.09308). Along two axes each is applied twice.

The more points, the larger the numbers in the matrices, and the more of the rounding errors remains where large terms
cancel. :meth:`Transforms.error` says how much, from the matrices alone: the analysis of B. Barabasz, A. Anderson, K. M.
Soodhalter and D. Gregg, *Error analysis and improving the accuracy of Winograd convolution for deep neural networks*
(arXiv:1803.10986), in which errors are not added up as if all were largest at once, but as independent ones, by their
squares (N. J. Higham and T. Mary, *A new approach to probabilistic rounding error analysis*, 2019).

>>> F2.error(256, 512, 2.0**-24) < F4.error(256, 512, 2.0**-24) < 5e-6
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TypeVar

from zenith.cached import cached_property

Matrix = tuple[tuple[Fraction, ...], ...]
V = TypeVar("V")
Op = Callable[..., V]  # (text over x, y, z, values and numbers) -> the value
WEIGHTS = 3  # along an axis


@dataclass(frozen=True)
class Transforms:
    """F(step x step, 3x3): ``array`` is B^T, ``weights`` is G, and ``results`` is A^T."""

    step: int
    array: Matrix
    weights: Matrix
    results: Matrix

    @property
    def side(self) -> int:
        """Elements along an axis that a tile of the result reads."""
        return self.step + WEIGHTS - 1

    @property
    def positions(self) -> int:
        """Elements of a transformed tile, each of which is multiplied with one of a transformed weight."""
        return self.side * self.side

    @classmethod
    def through(cls, *points: Fraction) -> Transforms:
        """The transforms that evaluate at some points, and at infinity."""
        step, side = len(points) + 2 - WEIGHTS, len(points) + 1
        others = [[p for p in points if p != point] for point in points]
        scales = [math.prod((a - b for b in rest), start=Fraction(1)) for a, rest in zip(points, others, strict=True)]
        array = [[*_coefficients(rest), Fraction(0)] for rest in others]
        weights = [[a**k / scale for k in range(WEIGHTS)] for a, scale in zip(points, scales, strict=True)]
        results = [[a**k for a in points] + [Fraction(k == step - 1)] for k in range(step)]
        array.append(_coefficients(points))
        weights.append([Fraction(k == WEIGHTS - 1) for k in range(WEIGHTS)])
        assert len(array) == len(weights) == side
        return cls(step, *(tuple(map(tuple, matrix)) for matrix in (array, weights, results)))

    @cached_property
    def input_cost(self) -> int:
        """Operations of the transform of an input tile: loads, arithmetic, stores."""
        return 2 * self.positions + 2 * self.side * operations(self.array)

    @cached_property
    def output_cost(self) -> int:
        """Operations of transforming a tile's sums back, with storing and loading the results."""
        results = self.step * self.step
        return self.positions + (self.side + self.step) * operations(self.results) + 2 * results

    def error(self, channels: int, block: int, unit: float) -> float:
        """The error of a result to be expected, over the result: roots of mean squares for what is not correlated.

        Sums have a term for each channel and are cut into blocks of so many; a rounding is off by ``unit`` at most.
        ``growth`` is what independent errors at all positions become in a result, over what terms become there.
        """
        squares = [sum(b * b for b in row) * sum(g * g for g in weights)
                   for row, weights in zip(self.array, self.weights, strict=True)]  # fmt: skip
        growths = [sum(a * a * s for a, s in zip(row, squares, strict=True)) / WEIGHTS for row in self.results]
        growth = float(sum(growths) / self.step)
        rounded = 2 * sum(max(map(_terms, m)) for m in (self.array, self.weights, self.results))
        in_order = (min(channels, block) + math.ceil(channels / max(1, block))) / 2
        return unit * growth * math.sqrt(rounded + in_order)


def applied(matrix: Matrix, values: Sequence[V], op: Op[V]) -> list[V]:
    """The product of a matrix and a row of values.

    Points come in pairs of opposite sign. Rows for such a pair are the sum and the difference of the same two halves;
    in columns for one, sums and differences of two values are multiplied by the same numbers.
    """
    columns = _folded(matrix)
    if columns is not None:
        return _by_columns(matrix, columns, values, op)
    found, number = list[V](), 0
    while number < len(matrix):
        row, after = matrix[number], matrix[number + 1 :][:1]
        if after and _are_mirrored(row, after[0]):
            even = [c if c == d else Fraction(0) for c, d in zip(row, after[0], strict=True)]
            odd = [Fraction(0) if c == d else c for c, d in zip(row, after[0], strict=True)]
            halves = _sum(even, values, op), _sum(odd, values, op)
            found += [op("x + y", *halves), op("x - y", *halves)]
            number += 2
        else:
            found.append(_sum(row, values, op))
            number += 1
    return found


def operations(matrix: Matrix) -> int:
    """How many operations an application has; a product and a sum are one."""
    count = 0

    def op(*_: object) -> None:
        nonlocal count
        count += 1

    applied(matrix, [None] * len(matrix[0]), op)
    return count


def _by_columns(matrix: Matrix, pairs: Sequence[int], values: Sequence[V], op: Op[V]) -> list[V]:
    """The product where columns from each of ``pairs`` on are two that differ in signs only."""
    values = list(values)
    for first in pairs:
        x, y = values[first : first + 2]
        values[first : first + 2] = op("x + y", x, y), op("x - y", x, y)
    found = []
    for row in matrix:
        folded = list(row)
        for first in pairs:
            same = row[first] == row[first + 1]
            folded[first : first + 2] = (row[first], Fraction(0)) if same else (Fraction(0), row[first])
        found.append(_sum(folded, values, op))
    return found


def _folded(matrix: Matrix) -> list[int] | None:
    """The starts of pairs of columns that differ in signs only; None where these are not most columns."""
    columns, found, number = list(zip(*matrix, strict=True)), list[int](), 0
    while number + 1 < len(columns):
        paired = _are_mirrored(columns[number], columns[number + 1])
        found += [number] if paired else []
        number += 2 if paired else 1
    return found if 2 * len(found) + 2 == len(columns) and len(matrix) < len(columns) else None


def _are_mirrored(row: Sequence[Fraction], other: Sequence[Fraction]) -> bool:
    """Whether two rows are equal in some columns, and opposite in the others."""
    alike = [c == d for c, d in zip(row, other, strict=True) if c or d]
    return all(abs(c) == abs(d) for c, d in zip(row, other, strict=True)) and len(set(alike)) == 2


def _sum(factors: Sequence[Fraction], values: Sequence[V], op: Op[V]) -> V:
    """A sum of multiples; it begins with one that is not to be multiplied, if there is such."""
    terms = [(factor, value) for factor, value in zip(factors, values, strict=True) if factor]
    scale = Fraction(1)
    if len({abs(factor) for factor, _ in terms}) == 1 and 1 not in {factor for factor, _ in terms}:
        scale = terms[0][0]
        terms = [(factor / scale, value) for factor, value in terms]
    terms.sort(key=lambda term: term[0] != 1)
    (factor, total), *rest = terms
    total = total if factor == 1 else op("x * y", total, float(factor))
    for factor, value in rest:
        if abs(factor) == 1:
            total = op("x + y" if factor == 1 else "x - y", total, value)
        else:
            total = op("x * y + z", value, float(factor), total)
    return total if scale == 1 else op("x * y", total, float(scale))


def _coefficients(roots: Sequence[Fraction]) -> list[Fraction]:
    """The polynomial with these roots, from the lowest coefficient on."""

    def times(polynomial: list[Fraction], root: Fraction) -> list[Fraction]:
        low, high = [Fraction(0), *polynomial], [*polynomial, Fraction(0)]
        return [a - root * b for a, b in zip(low, high, strict=True)]

    return reduce(times, roots, [Fraction(1)])


def _terms(row: Sequence[Fraction]) -> int:
    return sum(factor != 0 for factor in row)


F2 = Transforms.through(*map(Fraction, (0, 1, -1)))
F4 = Transforms.through(*(Fraction(n, 4) for n in (0, 3, -3, 6, -6)))  # its error is half that of 0, +-1, +-2
