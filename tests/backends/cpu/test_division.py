"""Division of small integers goes by floats, of constants by multiplication: every quotient is exact all the same."""

from __future__ import annotations

import numpy as np
import pytest

import zenith

divided = zenith.jit(lambda x, y: (x // y, x % y))


def every(dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.arange(info.min, info.max + 1).astype(dtype)


def assert_exact(x: np.ndarray, y: np.ndarray) -> None:
    quotient, rest = divided(x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotient, x // y)
        np.testing.assert_array_equal(rest, x % y)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_all_pairs_of_bytes(dtype: str) -> None:
    x, y = np.meshgrid(every(dtype), every(dtype))
    assert_exact(x.ravel(), y.ravel())


@pytest.mark.parametrize("dtype", ["int16", "uint16"])
def test_all_numbers_of_16_bits_by_small_large_and_extreme_ones(dtype: str) -> None:
    x, info = every(dtype), np.iinfo(dtype)
    near = [0, 1, 2, 3, 7, 10, 255, 256, 257, 1000, 32767, *range(info.max - 2, info.max + 1), info.min, info.min + 1]
    for divisor in (*near, *range(info.min + 17, info.max, 9973)):
        assert_exact(x, np.full_like(x, divisor))


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_by_constants(dtype: str) -> None:
    x = every(dtype)
    constants = [1, 3, 7, 16, 100, *([-1, -3, -128] if dtype == "int8" else [641, 65535])]
    found = zenith.jit(lambda x: [(x // c, x % c) for c in constants])(x)
    with np.errstate(all="ignore"):
        for (quotient, rest), c in zip(found, constants, strict=True):
            np.testing.assert_array_equal(quotient, x // x.dtype.type(c))
            np.testing.assert_array_equal(rest, x % x.dtype.type(c))
