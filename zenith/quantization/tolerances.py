"""Quantisation within a tolerance: as many products in bytes as a measured error allows, then in bfloat16.

Batches are held out of the calibration, and decide. Products are ordered by what they lose alone, on sampled rows. One
after the other, those that lose most are rounded to bfloat16 instead; where even that of all is too much, one after the
other stays as it is. How many *steps* of these are needed is found by bisection: errors fall with each. Each trial is
compiled and measured at the outputs against float64, so nothing is assumed of how errors add up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from zenith.accuracy import measured, references
from zenith.api.jit import Jitted
from zenith.errors import ArgumentError, UnsupportedError, user_line
from zenith.quantization.calibration import observe
from zenith.quantization.products import Names, Product
from zenith.quantization.quantized import Quantized, with_quantizer
from zenith.quantization.quantizer import choose
from zenith.quantization.recipe import Recipe

EVERY = 4  # batch is held out
BATCHES = 64  # that are held out at most


def within(
    tolerance: float, plain: Jitted, names: Names, batches: Iterable[object], recipe: Recipe, releases: bool
) -> Quantized:
    """The function with as many products in few bits as ``tolerance`` allows; UnsupportedError where that is none."""
    if not (isinstance(tolerance, int | float) and tolerance > 0):
        raise ArgumentError(f"tolerance is {tolerance!r}", where=user_line(), fix="give a relative error such as 0.01")
    numbered = list(enumerate(islice(batches, EVERY * BATCHES)))
    held, seen = ([b for n, b in numbered if (n % EVERY == EVERY - 1 or n == len(numbered) - 1) is out]
                  for out in (True, False))  # fmt: skip
    if not seen:
        raise ArgumentError("one calibration batch leaves none to measure the error with", where=user_line(),
                            fix="give two or more: the tolerance is measured on every fourth and the last")  # fmt: skip
    observed = observe(plain, names, seen, recipe, samples=True)
    possible = choose(recipe, observed)[0].choices

    def lost(product: Product) -> float:
        seen = observed.observers[product.operand]
        return seen.channels.lost(product.matrix, seen.smoothing, recipe)

    products = [product for product in observed.products if possible[product.key] is not None]
    order = sorted(products, key=lost, reverse=True)
    wanted = list(references(plain, held))

    def trial(steps: int) -> Quantized:
        kept = max(0, steps - len(order))
        exact = {product.key: f"the error would exceed {tolerance:g}" for product in order[:kept]}
        quantizer, report = choose(recipe, observed, exact, {product.key for product in order[:steps]})
        function = with_quantizer(plain, quantizer, report, releases=False)
        accuracy = measured(function, held, wanted)
        return with_quantizer(plain, quantizer, replace(report, accuracy=accuracy), releases)

    first = trial(0)
    best = first if _error(first) <= tolerance else None
    low, high = 0, 2 * len(order)  # so many steps are too few, and so many leave nothing to quantise
    while best is not first and high - low > 1:
        middle = (low + high) // 2
        found = trial(middle)
        if _error(found) <= tolerance:
            best, high = found, middle
        else:
            low = middle
    if best is None:
        raise UnsupportedError(
            f"{plain.__name__} has no product that can have fewer bits within {tolerance:g}: with all in bytes the "
            f"error is {_error(first):.2g}", where=user_line(), fix="allow more, or keep it as it is",
        )  # fmt: skip
    return best


def _error(function: Quantized) -> float:
    assert function.report.accuracy is not None, "it was measured"
    return function.report.accuracy.relative
