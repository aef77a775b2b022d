"""``precision=`` of convolutions: operands are rounded, sums are float32, and blocks of bfloat16 have whole words."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zenith
from zenith import nn
from zenith import numpy as znp
from zenith.backends.cpu.vectors import select
from zenith.ir.ops.blocked_convolution import correlate

GENERATOR = np.random.default_rng(0)


TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "fp16": np.dtype(np.float16)}


def rounded(x: np.ndarray, precision: str = "bf16") -> np.ndarray:
    return x.astype(TYPES[precision]).astype(np.float64)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    GENERATOR.bit_generator.state = np.random.default_rng(0).bit_generator.state


def drawn(*shape: int) -> np.ndarray:
    return GENERATOR.standard_normal(shape).astype(np.float32)


def check(found: np.ndarray, wanted: np.ndarray, compiled: Any) -> None:
    """Near to what rounded operands give; where transforms round once more, not quite as near."""
    if "winograd" in str(compiled.show("plan")) and select().multiplies_pairs:
        assert np.linalg.norm(found - wanted) / np.linalg.norm(wanted) < 0.006
    else:
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-4)


CASES = {
    "an image": ((2, 3, 9, 8), (16, 3, 3, 3), {"padding": 1}),
    "an image, strides": ((1, 3, 19, 17), (24, 3, 7, 7), {"padding": 3, "stride": 2}),
    "whole blocks": ((2, 32, 7, 6), (48, 32, 3, 3), {"padding": 1}),
    "long sums": ((1, 192, 5, 4), (20, 192, 3, 3), {"padding": 1}),
    "a window of one": ((3, 64, 5, 5), (33, 64, 1, 1), {}),
    "an odd number of channels": ((2, 21, 6, 5), (17, 21, 3, 2), {"padding": 1}),
    "blocks of ten": ((2, 40, 6, 5), (40, 40, 3, 3), {"dilation": 2}),
    "groups": ((2, 12, 6, 5), (8, 6, 3, 3), {"groups": 2}),
    "groups of odd channels": ((2, 6, 6, 5), (8, 3, 3, 3), {"groups": 2}),
    "one axis": ((2, 5, 30), (7, 5, 4), {"padding": 2}),
    "three axes": ((1, 4, 5, 4, 6), (6, 4, 2, 3, 2), {"padding": 1}),
    "one channel": ((2, 1, 6, 6), (8, 1, 3, 3), {"padding": 1}),
}


def exact(x: np.ndarray, w: np.ndarray, padding: int = 0, stride: int = 1, dilation: int = 1, groups: int = 1) -> Any:
    axes = x.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *[(padding, padding)] * axes))
    return correlate(x, w, (stride,) * axes, (dilation,) * axes, groups)


@pytest.mark.parametrize(("precision", "fixed"), [("bf16", True), ("bf16", False), ("fp16", True)])
@pytest.mark.parametrize("case", CASES)
def test_operands_are_rounded_and_nothing_else(case: str, fixed: bool, precision: str) -> None:
    shape, window, options = CASES[case]
    x, w = drawn(*shape), drawn(*window)
    if fixed:
        compiled, given = zenith.jit(lambda x: nn.conv(x, w, **options), precision=precision), (x,)
    else:
        compiled, given = zenith.jit(lambda x, w: nn.conv(x, w, **options), precision=precision), (x, w)
    result = compiled(*given)
    assert result.dtype == np.float32 and {"bf16": "bf16", "fp16": "f16"}[precision] in str(compiled.show("optimized"))
    wanted = exact(rounded(x, precision), rounded(w, precision), **options)
    if precision == "bf16":
        check(result, wanted, compiled)
    else:  # transforms are float32
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-4)


SCRIPT = """
import numpy as np
from tests.passes.test_rounded_convolutions import CASES, drawn, exact, nn, rounded, zenith
for shape, window, options in CASES.values():
    x, w = drawn(*shape), drawn(*window)
    result = zenith.jit(lambda x: nn.conv(x, w, **options), precision="bf16")(x)
    np.testing.assert_allclose(result, exact(rounded(x), rounded(w), **options), rtol=2e-5, atol=1e-4)
"""


@pytest.mark.parametrize("isa", ["avx2", "portable"])
def test_without_words_it_is_the_same(isa: str) -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], env={**os.environ, "ZENITH_ISA": isa}, check=True)


@pytest.mark.parametrize("fixed", [True, False], ids=["fixed weights", "any weights"])
@pytest.mark.parametrize(("batch", "size", "channels", "outputs"), [(1, 24, 64, 64), (2, 19, 80, 33), (1, 31, 32, 128)])
def test_transforms_of_windows_round_once_more(fixed: bool, batch: int, size: int, channels: int, outputs: int) -> None:
    x, w = drawn(batch, channels, size, size - 1), drawn(outputs, channels, 3, 3)
    given = (x,) if fixed else (x, w)
    compiled = zenith.jit(lambda x, w=w: nn.conv(x, w, padding=1), precision="bf16")
    result, wanted = compiled(*given), exact(x.astype(np.float64), w, padding=1)
    direct = exact(rounded(x), rounded(w), padding=1)
    if select().multiplies_pairs:
        assert "winograd" in str(compiled.show("plan"))
    errors = [np.linalg.norm(found - wanted) / np.linalg.norm(wanted) for found in (result, direct)]
    assert errors[0] < 2.5 * errors[1] < 0.01


def test_borders_are_rounded_with_what_is_inside_of_them() -> None:
    w, v = drawn(32, 3, 3, 3), drawn(16, 32, 3, 3)

    def network(x: Any) -> Any:
        return nn.conv(znp.maximum(nn.conv(x, w, padding=1), 0), v, padding=1)

    x = drawn(2, 3, 12, 11)
    compiled = zenith.jit(network, precision="bf16")
    hidden = np.maximum(exact(rounded(x), rounded(w), padding=1), 0).astype(np.float32)
    wanted = exact(rounded(hidden), rounded(v), padding=1)
    assert np.linalg.norm(compiled(x) - wanted) / np.linalg.norm(wanted) < 0.006
    text = str(compiled.show("optimized"))
    assert any("pad(" in line and "bf16" in line for line in text.splitlines())  # no border of float32


def test_a_value_with_other_readers_stays_exact_for_them() -> None:
    w, v = drawn(32, 16, 1, 1), drawn(32, 32, 3, 3)

    def block(x: Any) -> Any:
        h = znp.tanh(nn.conv(x, w))
        return nn.conv(h, v, padding=1) + h, h

    x = drawn(1, 16, 6, 5)
    compiled = zenith.jit(block, precision="bf16")
    result, hidden = compiled(x)
    check(result, exact(rounded(hidden), rounded(v), padding=1) + hidden, compiled)
    assert not np.array_equal(rounded(hidden), hidden)


def test_channels_by_themselves_and_other_types_stay() -> None:
    x, w = drawn(2, 8, 7, 6), drawn(8, 1, 3, 3)

    def by_channels(x: Any) -> Any:
        return nn.conv(x, w, groups=8)

    np.testing.assert_array_equal(zenith.jit(by_channels, precision="bf16")(x), zenith.jit(by_channels)(x))
    wide, matrix = x.astype(np.float64), drawn(4, 8, 3, 3).astype(np.float64)
    compiled = zenith.jit(lambda x: nn.conv(x, matrix), precision="bf16")
    np.testing.assert_allclose(compiled(wide), exact(wide, matrix), rtol=1e-12, atol=1e-12)


def test_derivatives() -> None:
    w, x = drawn(8, 16, 3, 3) / np.float32(12), drawn(2, 16, 6, 5)

    def loss(w: Any) -> Any:
        return (znp.tanh(nn.conv(x, w, padding=1)) ** 2).sum()

    found, wanted = zenith.jit(zenith.grad(loss), precision="bf16")(w), zenith.grad(loss)(w)
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert 1e-5 < error < 0.02


def test_borders_of_another_number() -> None:
    w, x = drawn(8, 16, 3, 3), drawn(2, 16, 6, 5)

    def network(x: Any) -> Any:
        return nn.conv(znp.pad(znp.tanh(x), ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=1.5), w)

    padded = np.pad(np.tanh(x), ((0, 0), (0, 0), (1, 2), (0, 1)), constant_values=1.5)
    np.testing.assert_allclose(zenith.jit(network)(x), exact(padded.astype(np.float64), w), rtol=2e-5, atol=1e-4)
    compiled = zenith.jit(network, precision="bf16")
    np.testing.assert_allclose(compiled(x), exact(rounded(padded), rounded(w)), rtol=2e-2, atol=2e-2)


def test_arrays_of_bfloat16_are_convolved_exactly_unless_more_rounding_is_asked_for() -> None:
    x, w = (drawn(*shape).astype(ml_dtypes.bfloat16) for shape in ((1, 64, 24, 24), (64, 64, 3, 3)))
    wanted = exact(x.astype(np.float64), w.astype(np.float64))
    wide = zenith.jit(lambda x, w: nn.conv(x.astype(np.float32), w.astype(np.float32)))
    assert np.linalg.norm(wide(x, w) - wanted) / np.linalg.norm(wanted) < 1e-6
    narrow = zenith.jit(nn.conv)(x, w).astype(np.float64)
    assert np.linalg.norm(narrow - wanted) / np.linalg.norm(wanted) < 0.002  # one rounding of results
    budget = zenith.jit(lambda x, w: nn.conv(x, w), precision="bf16", error_budget=1e-5)
    x, w = drawn(1, 64, 48, 48), drawn(64, 64, 3, 3)
    wanted = exact(x.astype(np.float64), w.astype(np.float64))
    assert np.linalg.norm(budget(x, w) - wanted) / np.linalg.norm(wanted) < 0.006  # no larger tiles


@pytest.mark.parametrize("channels", [33, 64, 96])
@pytest.mark.parametrize("precision", ["exact", "bf16"])
def test_many_channels_by_themselves(channels: int, precision: str) -> None:
    x, w = drawn(2, channels, 7, 6), drawn(channels, 1, 3, 3)
    found = zenith.jit(lambda x: nn.conv(x, w, padding=1, groups=channels), precision=precision)(x)
    np.testing.assert_allclose(found, exact(x, w, padding=1, groups=channels), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("border", [np.inf, -np.inf, np.nan])
def test_borders_that_are_not_finite_reach_what_reads_them(border: float) -> None:
    x, w = drawn(1, 3, 5, 5), np.abs(drawn(8, 3, 3, 3))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=border)
    compiled = zenith.jit(
        lambda x: nn.conv(znp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=border), w), precision="bf16"
    )
    np.testing.assert_array_equal(np.isfinite(compiled(x)), np.isfinite(exact(padded.astype(np.float64), w)))
