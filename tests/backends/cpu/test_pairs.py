"""Products of bfloat16, of which processors that can multiply pairs of terms at once."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_product import VARIANTS, seen, stored
from zenith.backends.cpu import link
from zenith.backends.cpu.tile import BLOCK, pack_panel, product_tile
from zenith.backends.cpu.vectors import select
from zenith.ir.types import bfloat16

TERMS = (0, 1, 2, 3, 8, 31, BLOCK, BLOCK + 1, 2 * BLOCK + 7)
needs_pairs = pytest.mark.skipif(not select().multiplies_pairs, reason="no instruction for pairs of bfloat16")


def in_float32(product: Any) -> Any:
    """The product of bfloat16 arrays in float32."""
    return zenith.jit(lambda x, y: product(x.astype(np.float32), y.astype(np.float32)))


def assert_sums(result: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Exact products, summed in float32."""
    wide_x, wide_y = x.astype(np.longdouble), y.astype(np.longdouble)
    bound = (x.shape[-1] + 4) * np.finfo(np.float32).eps * (abs(wide_x) @ abs(wide_y))
    assert result.dtype == np.float32 and (abs(result - wide_x @ wide_y) <= bound).all()


@pytest.mark.parametrize("name", VARIANTS)
def test_every_layout_and_number_of_terms(name: str) -> None:
    compiled = in_float32(VARIANTS[name])
    for terms in TERMS:
        for rows, columns in ((1, 5), (7, 70), (13, 64)):
            x, y = stored(name, rows, terms, columns, bfloat16)
            assert_sums(compiled(x, y), *seen(name, x, y))


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("name", ["plain", "right transposed", "every other"])
def test_constants_are_packed_ahead(name: str, terms: int) -> None:
    x, y = stored(name, 9, terms, 70, bfloat16)
    of_constant = zenith.jit(lambda x: VARIANTS[name](x.astype(np.float32), y.astype(np.float32)))
    assert_sums(of_constant(x), *seen(name, x, y))
    assert_sums(of_constant(x[::-1]), *seen(name, x[::-1], y))


def test_batches() -> None:
    x, _ = stored("plain", 5 * 7, 33, 3, bfloat16)
    y, _ = stored("plain", 5 * 33, 20, 3, bfloat16)
    x, y = x.reshape(5, 7, 33), y.reshape(5, 33, 20)
    result = in_float32(lambda x, y: x @ y)(x, y)
    for row, left, right in zip(result, x, y, strict=True):
        assert_sums(row, left, right)


def test_not_a_number_and_infinity_stay_in_their_row() -> None:
    x, y = stored("plain", 8, 2 * BLOCK + 7, 70, bfloat16)
    x[2, -1], x[5, 3] = np.nan, np.inf
    result = in_float32(lambda x, y: x @ y)(x, y)
    assert np.isnan(result[2]).all() and not np.isfinite(result[5]).any()
    others = [0, 1, 3, 4, 6, 7]
    assert_sums(result[others], x[others], y)


def test_results_in_bfloat16_are_rounded_once() -> None:
    x, y = stored("plain", 6, 300, 40, bfloat16)
    sums = in_float32(lambda x, y: x @ y)(x, y)
    np.testing.assert_array_equal(zenith.jit(lambda x, y: x @ y)(x, y), sums.astype(x.dtype))


def assert_panels_of_the_twin(name: str, b: np.ndarray, many: Sequence[int]) -> None:
    """Panels of words of these elements, of so many terms, are those that the twin packs."""
    source = f"def kernel(begin, end, args):\n    to = u32_buffer(args, 1, 2)\n    b = {name}_buffer(args, 2, 2)\n"
    source += "    pack_panel(4, 16, to, 1, b, 5, args[3], args[4], args[5], args[6])\n"
    linked = link.link_kernel("pack", source)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(linked.address)
    for terms in many:
        for columns in (1, 15, 16, 40, 64):
            for k, j in ((1, terms + 3), (columns + 1, 1), (columns * 2, 2), (3, 4 * terms + 1)):
                panels = [np.full(1 + 64 * 32 + 1, 7, np.uint32) for _ in range(2)]
                args = [5, k, j, terms, columns]
                pack_panel(4, 16, panels[0], 1, b, *args)
                block = np.array([0, panels[1].ctypes.data, b.ctypes.data, *args[1:]], np.int64)
                kernel(0, 1, block.ctypes.data)
                np.testing.assert_array_equal(*panels)


@needs_pairs
def test_panels_are_those_of_the_twin() -> None:
    b = np.arange(1, 1 << 15, dtype=np.uint16).view(bfloat16.numpy)
    assert_panels_of_the_twin("bf16", b, (0, 1, 2, 31, 32, 47, 64))


@needs_pairs
def test_panels_of_float32_are_rounded() -> None:
    b = np.random.default_rng(0).standard_normal(1 << 15).astype(np.float32)
    b[7::50], b[9::50], b[11::50] = np.inf, -0.0, 3e38
    assert_panels_of_the_twin("f32", b, (0, 1, 2, 31, 32, 47, 64))


@needs_pairs
@pytest.mark.parametrize("terms", [0, 1, 2, 5, 64])
def test_tiles_of_words_on_both_sides(terms: int) -> None:
    """The left operand's words are as far apart as one likes."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2 * terms, n)).astype(bfloat16.numpy) for n in (6, 64))
    words = []
    for source in (x, y):
        words.append(np.zeros(64 * terms + 8, np.uint32))
        pack_panel(4, 16, words[-1], 0, source.reshape(-1), 0, source.shape[1], 1, *source.shape)
    expected = np.zeros(6 * 64, np.float32)
    product_tile(6, 4, 16, 1, expected, 0, 64, words[0], 0, 1, 64, words[1], 0, 64, terms, 0, 0)
    assert_sums(expected.reshape(6, 64), x.T, y)
    source = "def kernel(begin, end, args):\n    c = f32_buffer(args, 1, 3)\n    a = u32_buffer(args, 2, 3)\n"
    source += "    b = u32_buffer(args, 3, 3)\n"
    source += "    product_tile(6, 4, 16, 1, c, 0, 64, a, 0, 1, 64, b, 0, 64, args[4], 0, 0)\n"
    linked = link.link_kernel("tile", source)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(linked.address)
    result = np.full(6 * 64, 7, np.float32)
    block = np.array([0, *(array.ctypes.data for array in (result, *words)), terms], np.int64)
    kernel(0, 1, block.ctypes.data)
    assert_sums(result.reshape(6, 64), x.T, y)


@needs_pairs
def test_which_products_are_in_pairs() -> None:
    brain, half = np.ones((4, 6), bfloat16.numpy), np.ones((4, 6), np.float16)
    for x, y, pairs in ((brain, brain, True), (brain, half, False), (half, half, False)):
        compiled = in_float32(lambda x, y: x @ y.T)
        compiled(x, y)
        assert ("u32_scratch" in str(compiled.show("kernels"))) == pairs
