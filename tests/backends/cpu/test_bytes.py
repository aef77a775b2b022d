"""Products of 8-bit integers, of which processors multiply four at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_pairs import assert_panels_of_the_twin
from zenith import numpy as znp
from zenith.backends.cpu.product_schedule import choose
from zenith.backends.cpu.vectors import TABLE, host_features
from zenith.ir.types import int8, int32, uint8

SIGNS = [(np.uint8, np.int8), (np.int8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)]
TERMS = (0, 1, 2, 3, 4, 5, 63, 512, 2048, 2051)


def in_int32(product: Any) -> Any:
    """The product of bytes in int32."""
    return lambda x, y: product(x.astype(np.int32), y.astype(np.int32))


def of_constant(product: Any, y: np.ndarray) -> Any:
    """The compiled product with a constant, whose bytes are packed ahead of all calls."""
    return zenith.jit(lambda x: product(x, znp.asarray(y)))


def matrix(rows: int, columns: int, dtype: Any, seed: int = 0) -> np.ndarray:
    """Bytes of all values; the extreme ones are frequent, so that pairs of products saturate where something can."""
    info, generator = np.iinfo(dtype), np.random.default_rng(seed)
    drawn = generator.integers(info.min, info.max + 1, (rows, columns), dtype=dtype)
    extreme = generator.choice(np.array([info.min, info.max], dtype), (rows, columns))
    return np.where(generator.random((rows, columns)) < 0.5, drawn, extreme)


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("terms", TERMS)
def test_products_are_exact(terms: int, signs: tuple[Any, Any]) -> None:
    plain = in_int32(lambda x, y: x @ y)
    compiled = zenith.jit(plain)
    for rows, columns in ((1, 5), (7, 70), (13, 64)):
        x, y = matrix(rows, terms, signs[0]), matrix(terms, columns, signs[1], 1)
        np.testing.assert_array_equal(compiled(x, y), plain(x, y))
    fixed = of_constant(plain, y)
    np.testing.assert_array_equal(fixed(x), plain(x, y))
    assert "matmul_integer" in str(fixed.show("optimized"))


@pytest.mark.parametrize("layout", ["x @ y.T", "x.T @ y", "x[::2] @ y", "x @ y[:, ::3]", "x[:, ::2] @ y[::2]"])
def test_every_layout(layout: str) -> None:
    code = compile(layout, layout, "eval")
    plain = in_int32(lambda x, y: eval(code, {"x": x, "y": y}))
    for terms in (9, 12):
        x, y = matrix(13, terms, np.uint8), matrix(terms, 70, np.int8, 1)
        x = np.ascontiguousarray(x.T) if "x.T" in layout else x
        y = np.ascontiguousarray(y.T) if "y.T" in layout else y
        np.testing.assert_array_equal(zenith.jit(plain)(x, y), plain(x, y))
        np.testing.assert_array_equal(of_constant(plain, y)(x), plain(x, y))


def test_leading_axes_share_a_matrix() -> None:
    x, y = matrix(6 * 5, 12, np.uint8).reshape(6, 5, 12), matrix(12, 20, np.int8, 1)
    plain = in_int32(lambda x, y: x @ y)
    compiled = of_constant(plain, y)
    np.testing.assert_array_equal(compiled(x), plain(x, y))
    assert "i32[x0*x1, 20]" in str(compiled.show("optimized"))  # one product of all rows


def test_products_of_bytes_wrap_as_numpy_s() -> None:
    for dtype in (np.int8, np.uint8):
        x, y = matrix(9, 33, dtype), matrix(33, 20, dtype, 1)
        np.testing.assert_array_equal(zenith.jit(lambda x, y: x @ y)(x, y), x @ y)


@pytest.mark.parametrize("signs", SIGNS)
def test_constants_that_numpy_widened(signs: tuple[Any, Any]) -> None:
    """As a function captures them, they are int32; their numbers still fit into bytes."""
    x, y = matrix(9, 12, signs[0]), matrix(12, 20, signs[1], 1).astype(np.int32)
    compiled = zenith.jit(lambda x: x.astype(np.int32) @ y)
    np.testing.assert_array_equal(compiled(x), x.astype(np.int32) @ y)
    assert "matmul_integer" in str(compiled.show("optimized"))
    large = y * 1000
    compiled = zenith.jit(lambda x: x.astype(np.int32) @ large)
    np.testing.assert_array_equal(compiled(x), x.astype(np.int32) @ large)
    assert "matmul_integer" not in str(compiled.show("optimized"))


def test_sums_that_exceed_int32_wrap() -> None:
    x, y = np.full((2, 1 << 17), 255, np.uint8), np.full((1 << 17, 3), 127, np.int8)
    plain = in_int32(lambda x, y: x @ y)
    np.testing.assert_array_equal(zenith.jit(plain)(x, y), plain(x, y))


def test_a_batch_of_products() -> None:
    x, y = matrix(4 * 3, 7, np.int8).reshape(4, 3, 7), matrix(4 * 7, 5, np.int8, 1).reshape(4, 7, 5)
    plain = in_int32(lambda x, y: x @ y)
    np.testing.assert_array_equal(zenith.jit(plain)(x, y), plain(x, y))
    np.testing.assert_array_equal(zenith.jit(zenith.vmap(plain))(x, y), plain(x, y))


def test_a_product_of_bytes_and_wider_integers_is_int32_s() -> None:
    x, y = matrix(5, 7, np.uint8), matrix(7, 4, np.int8, 1).astype(np.int32) * 1000
    compiled = zenith.jit(lambda x, y: x.astype(np.int32) @ y)
    np.testing.assert_array_equal(compiled(x, y), x.astype(np.int32) @ y)
    assert "matmul_integer" not in str(compiled.show("optimized"))


def test_panels_are_those_of_the_twin() -> None:
    assert_panels_of_the_twin("i8", np.arange(1 << 15).astype(np.int8), (0, 1, 2, 3, 4, 61, 62, 63, 64, 67))


@pytest.mark.parametrize("isa", [name for name, row in TABLE.items() if row.runs_on(host_features())])
def test_no_instruction_set_saturates(isa: str) -> None:
    """Neighbours 255 * -128 twice: 16 bits hold one product, and not the sum of two."""
    script = (
        "import numpy as np, zenith\n"
        "x, y = np.full((7, 9), 255, np.uint8), np.full((9, 70), -128, np.int8)\n"
        "product = lambda x, y: x.astype(np.int32) @ y.astype(np.int32)\n"
        "assert (zenith.jit(product)(x, y) == product(x, y)).all()\n"
    )
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "ZENITH_ISA": isa}, check=True)


def test_words_have_four_bytes() -> None:
    for isa in TABLE.values():
        assert choose(int32, isa, stored=(uint8, int8)).terms == 4
        assert choose(int32, isa, stored=(int32, int32)).terms == choose(int32, isa).terms == 1
