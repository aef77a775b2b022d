"""float16 against NumPy: every elementwise function on all 65 536 numbers, and statistics beyond its range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.test_elementwise import BINARY, UNARY, computes_in, expect
from zenith import nn
from zenith.ir.types import float16

HALF = float16.numpy
ALL = np.arange(1 << 16, dtype=np.uint16).view(HALF)
NUMBERS = ALL[~np.isnan(ALL) | (ALL.view(np.uint16) & 0x200 != 0)]  # without signaling nan: C's pow and hypot know it
PARTNERS = np.array([0.0, -0.0, 1, -1, 2, 0.5, -0.333, 3, 6e-8, -1e-4, 65504, np.inf, -np.inf, np.nan, 7.3, 2048], HALF)
UNSPECIFIED = {"maximum", "minimum", "fmax", "fmin", "nextafter"}  # the sign of zero, of 0 and -0


def functions(candidates: list[np.ufunc], *types: np.dtype[Any]) -> list[np.ufunc]:
    return [f for f in candidates if computes_in(f, *types) is not None]


def positions(x: np.ndarray) -> np.ndarray:
    """The number of each float16 in their order, in which neighbours differ by 1; both zeros are 0."""
    bits = x.view(np.int16).astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


def same(name: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """At most one unit in the last place from NumPy, which rounds float32's results as well; nan where it has nan."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), name
    if wanted.dtype != HALF:
        np.testing.assert_allclose(found, wanted, rtol=1e-15, err_msg=name)
        return
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), err_msg=name)
    finite = ~np.isnan(wanted)
    assert np.abs(positions(found) - positions(wanted))[finite].max() <= 1, name
    if name not in UNSPECIFIED:
        zero = (found == 0) & (wanted == 0)
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]), err_msg=name)


def test_every_number_through_every_function_of_one() -> None:
    tried = functions(UNARY, HALF)
    results = zenith.jit(lambda x: [f(x) for f in tried])(ALL)
    assert len(tried) > 35
    for function, found in zip(tried, results, strict=True):
        same(function.__name__, found, expect(function, ALL))


def test_every_number_through_every_function_of_two() -> None:
    tried = [f for f in functions(BINARY, HALF, HALF) if f is not np.float_power]  # which is float64's
    results = zenith.jit(lambda x, y: [f(x, y) for f in tried])(NUMBERS[:, None], PARTNERS)
    assert len(tried) > 25
    for function, found in zip(tried, results, strict=True):
        same(function.__name__, found, expect(function, NUMBERS[:, None], PARTNERS))


LARGE = np.full((2, 100_000), 60000, HALF)
SPREAD = (np.random.default_rng(0).standard_normal((4, 6, 32)) * 300).astype(HALF)
WITH_NAN = np.where(SPREAD > 600, np.nan, SPREAD).astype(HALF)
STATISTICS: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
    "mean": (np.mean, LARGE),
    "mean of rows": (lambda x: np.mean(x, axis=1, keepdims=True), LARGE),
    "mean where": (lambda x: np.mean(x, where=x > 0, axis=-1), SPREAD),
    "nanmean": (lambda x: np.nanmean(x, axis=0), WITH_NAN),
    "average": (lambda x: np.average(x, axis=1), LARGE),
    "std": (lambda x: np.std(x, axis=-1, ddof=1), SPREAD),
    "nanstd": (np.nanstd, WITH_NAN),
    "var": (lambda x: np.var(x / 4, axis=1), SPREAD),
    "nanvar": (lambda x: np.nanvar(x / 4, axis=1), WITH_NAN),
    "a sum and a size": (lambda x: x.sum(axis=1) / x.shape[1], LARGE),
    "norms": (lambda x: np.linalg.norm(x, axis=-1), SPREAD),
    "softmax": (nn.softmax, LARGE),
    "layer norm": (nn.layer_norm, SPREAD),
    "rms norm": (nn.rms_norm, SPREAD),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_sums_squares_and_counts_may_exceed_float16(name: str) -> None:
    """As near as one rounding is to float64; NumPy itself gives infinities or less exact numbers for most of these."""
    function, x = STATISTICS[name]
    found, wanted = zenith.jit(function)(x), zenith.jit(function)(x.astype(np.float64))
    assert np.asarray(found).dtype == HALF
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=1.5e-3, atol=1e-3)


def test_means_are_computed_in_float32_wherever_they_are() -> None:
    """By definition, in the program as it is traced: in the interpreter, at once, batched, and in derivatives."""
    for mean in (znp.mean, zenith.jit(np.mean, backend="reference"), lambda x: zenith.vmap(np.mean)(x)[0]):
        assert float(mean(LARGE)) == float(np.mean(LARGE)) == 60000
    gradient = zenith.grad(lambda x: np.mean(x * x))(np.full(70_000, 100, HALF))
    assert gradient.dtype == HALF
    np.testing.assert_allclose(gradient.astype(float), 200 / 70_000, rtol=2e-3)


def test_argmax_and_extremes_of_nan() -> None:
    x = np.array([[1, np.nan, 3, np.nan], [np.inf, 2, -np.inf, 5], [-0.0, 0.0, -6e-8, 0]], HALF)
    for f in (np.argmax, np.argmin, np.max, np.min, np.argsort, np.maximum.accumulate):
        np.testing.assert_array_equal(zenith.jit(lambda x, f=f: f(x, axis=1))(x), f(x, axis=1))
