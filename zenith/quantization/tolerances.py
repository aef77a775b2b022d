"""The cheapest precisions within a tolerance: products in bytes, then in bfloat16, as they are, sums in float64.

Batches are held out of the calibration, and decide. Products are ordered by what they lose alone, on sampled rows. One
after the other, those that lose most are rounded to bfloat16 instead; where even that of all is too much, one after the
other stays as it is. How many *steps* of these are needed is found by bisection: errors fall with each. Each trial is
compiled and measured at the outputs against float64, so nothing is assumed of how errors add up. Tables whose rows are
gathered save memory alone: they stay as they are where not all products can be in bytes beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from zenith.accuracy import measured, references
from zenith.api.jit import Jitted
from zenith.errors import ArgumentError, UnsupportedError, user_line
from zenith.ir.types import NDArray
from zenith.passes.float64_sums import float64_sums
from zenith.passes.pipeline import Pass
from zenith.quantization.calibration import Observed, observe
from zenith.quantization.products import Names, Product
from zenith.quantization.quantized import Quantized, nothing_to_quantise
from zenith.quantization.quantizer import choose
from zenith.quantization.recipe import Recipe

EVERY = 4  # batch is held out
BATCHES = 64  # that are held out at most


@dataclass(frozen=True)
class Search:
    """What trials of one function are made of, and measured on."""

    tolerance: float
    plain: Jitted
    held: Sequence[object]
    observed: Observed
    recipe: Recipe
    releases: bool

    @classmethod
    def of(
        cls, tolerance: float, plain: Jitted, names: Names, batches: Iterable[object], recipe: Recipe, releases: bool
    ) -> Search:
        """One by these batches, some of which are held out; ArgumentError for too few."""
        if not (isinstance(tolerance, int | float) and tolerance > 0):
            raise ArgumentError(f"tolerance is {tolerance!r}", where=user_line(),
                                fix="give a relative error such as 0.01")  # fmt: skip
        numbered = list(enumerate(islice(batches, EVERY * BATCHES)))
        held, seen = ([b for n, b in numbered if (n % EVERY == EVERY - 1 or n == len(numbered) - 1) is out]
                      for out in (True, False))  # fmt: skip
        if not seen:
            raise ArgumentError("one calibration batch leaves none to measure the error with", where=user_line(),
                                fix="give two or more: every fourth and the last measure it")  # fmt: skip
        return cls(tolerance, plain, held, observe(plain, names, seen, recipe, samples=True), recipe, releases)

    @cached_property
    def wanted(self) -> list[list[NDArray]]:
        """The results in float64."""
        return list(references(self.plain, self.held))

    @cached_property
    def losses(self) -> dict[str, float]:
        """By key, the relative error of each product that can have fewer bits if it alone is in bytes."""
        possible = choose(self.recipe, self.observed)[0].choices
        products = [product for product in self.observed.products if possible[product.key] is not None]
        return {product.key: self._lost(product) for product in products}

    def _lost(self, product: Product) -> float:
        seen = self.observed.observers[product.operand]
        return float(seen.channels.lost(product.matrix, seen.smoothing, self.recipe) ** 0.5)

    @cached_property
    def order(self) -> list[str]:
        """The keys of products that can have fewer bits, first those that lose most."""
        return sorted(self.losses, key=self.losses.__getitem__, reverse=True)

    def in_bytes(self) -> Quantized:
        """The function with all products in bytes, and with its tables where the tolerance allows both."""
        found = self._measured((), (), tables=True)
        return self.trial(0) if self.observed.tables and self.order and not self.accepts(found) else found

    def trial(self, steps: int) -> Quantized:
        """The function after so many steps, with its accuracy in the report."""
        kept = max(0, steps - len(self.order))
        return self._measured(self.order[:kept], self.order[kept:steps])

    def with_float64_sums(self) -> Quantized:
        """The function in its own precision, but for sums, with its accuracy in the report."""
        return self._measured(self.order, (), then=(float64_sums,))

    def _measured(
        self, exact: Sequence[str], short: Sequence[str], tables: bool = False, then: Sequence[Pass] = ()
    ) -> Quantized:
        why = f"the error would exceed {self.tolerance:g}"
        exact_ones = dict.fromkeys(exact, why)
        quantizer, report = choose(self.recipe, self.observed, exact_ones, short, "" if tables else why)
        losses = {p.name: self.losses.get(p.key) for p in self.observed.products}
        products = tuple(replace(p, loses=losses[p.name]) for p in report.products)
        kept = tuple(replace(k, loses=losses.get(k.name)) for k in report.kept)
        report = replace(report, products=products, kept=kept, float64_sums=bool(then))
        accuracy = measured(Quantized.of(self.plain, quantizer, report, False, then), self.held, self.wanted)
        return Quantized.of(self.plain, quantizer, replace(report, accuracy=accuracy), self.releases, then)

    def accepts(self, function: Quantized) -> bool:
        """Whether its error is within the tolerance."""
        return _error(function) <= self.tolerance

    def fewest_steps(self, first: Quantized, end: int) -> Quantized | None:
        """The trial of the fewest steps that the tolerance accepts, among those before ``end``; ``first`` has none."""
        if self.accepts(first):
            return first
        best, low = None, 0  # so many steps are too few
        while end - low > 1:
            middle = (low + end) // 2
            found = self.trial(middle)
            if self.accepts(found):
                best, end = found, middle
            else:
                low = middle
        return best


def fewest_bits(search: Search) -> Quantized:
    """The function with as many products in few bits as the tolerance allows; UnsupportedError where that is none."""
    first = search.in_bytes()
    if not (first.report.products or first.report.embeddings):
        raise nothing_to_quantise(search.plain, first.report)
    best = search.fewest_steps(first, 2 * len(search.order))  # as many leave nothing to quantise
    if best is None:
        raise UnsupportedError(
            f"{search.plain.__name__} has no product that can have fewer bits within {search.tolerance:g}: with all in "
            f"bytes the error is {_error(first):.2g}", where=user_line(), fix="allow more, or keep it as it is",
        )  # fmt: skip
    return best


def cheapest(search: Search) -> Quantized:
    """The function in the cheapest precisions within the tolerance, its own and sums in float64 among them.

    UnsupportedError where even these exceed it.
    """
    best = search.fewest_steps(search.in_bytes(), 2 * len(search.order) + 1)
    if best is not None:
        return best
    exact, wide = search.trial(2 * len(search.order)), search.with_float64_sums()
    if not search.accepts(wide):
        raise UnsupportedError(
            f"{search.plain.__name__} has an error of {_error(exact):.2g} as it is, and of {_error(wide):.2g} with "
            f"sums in float64: more than {search.tolerance:g}", where=user_line(),
            fix="allow more, or compute in float64: pass arguments and weights of that type",
        )  # fmt: skip
    return wide


def _error(function: Quantized) -> float:
    assert function.report.accuracy is not None, "it was measured"
    return function.report.accuracy.relative
