"""Products: every remainder of tiles, panels and blocks, any strides, batches, the same bits however it is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import zenith
from zenith.backends.cpu.product_schedule import ROWS, choose
from zenith.backends.cpu.threads import default_num_threads, set_num_threads
from zenith.backends.cpu.tile import BLOCK
from zenith.ir.types import DType, float32, float64, int32, int64, uint32

DTYPES = (float32, float64, int32, int64, uint32)
TILE = choose(float32)
SIZES = [
    (m, k, n)
    for m in (0, 1, 2, TILE.rows, TILE.rows + 1, ROWS + 1)
    for k in (0, 1, BLOCK - 1, 2 * BLOCK + 3)
    for n in (0, 1, TILE.panel, 2 * TILE.panel + 5)
]

Product = Callable[[Any, Any], Any]


def random(shape: tuple[int, ...], dtype: DType = float32, seed: int = 0) -> np.ndarray:
    """Normal numbers, or integers of the whole range, so that products wrap."""
    generator = np.random.default_rng(seed)
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return generator.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)


def assert_product(result: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Integers equal modulo 2**bits; floats within the bound of a sum of blocks."""
    if result.dtype.kind in "iu":
        with np.errstate(all="ignore"):
            assert np.array_equal(result, x @ y)
        return
    wide_x, wide_y = x.astype(np.longdouble), y.astype(np.longdouble)
    k = x.shape[-1]
    bound = (min(k, BLOCK) + k // BLOCK + 2) * np.finfo(result.dtype).eps * (abs(wide_x) @ abs(wide_y))
    assert result.shape == bound.shape and (abs(result - wide_x @ wide_y) <= bound).all()


@cache
def compiled(name: str) -> Product:
    """One compilation for all sizes: no size is known to these."""
    return zenith.jit(VARIANTS[name])


VARIANTS: dict[str, Product] = {
    "plain": lambda x, y: x @ y,
    "left transposed": lambda x, y: np.transpose(x) @ y,
    "right transposed": lambda x, y: x @ np.transpose(y),
    "both transposed": lambda x, y: np.transpose(x) @ np.transpose(y),
    "reversed": lambda x, y: x[::-1, ::-1] @ y[::-1, ::-1],
    "slice": lambda x, y: x[1:, 1:] @ y[1:, 1:],
    "every other": lambda x, y: x[::2, ::2] @ y[::2, ::2],
}


def stored(name: str, m: int, k: int, n: int, dtype: DType = float32) -> tuple[np.ndarray, np.ndarray]:
    """Arguments of a variant that multiplies (m, k) by (k, n)."""
    left, right = (m, k), (k, n)
    if name == "slice":
        left, right = (m + 1, k + 1), (k + 1, n + 1)
    if name == "every other":
        left, right = (2 * m, 2 * k), (2 * k, 2 * n)
    if name in ("left transposed", "both transposed"):
        left = left[::-1]
    if name in ("right transposed", "both transposed"):
        right = right[::-1]
    return random(left, dtype, 1), random(right, dtype, 2)


def seen(name: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two matrices that a variant multiplies."""
    taken: list[np.ndarray] = []

    class Spy(np.ndarray):
        def __matmul__(self, other: Any) -> Any:
            taken.extend((np.asarray(self), np.asarray(other)))

    VARIANTS[name](x.view(Spy), y.view(Spy))
    return taken[0], taken[1]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_remainder_and_layout(name: str) -> None:
    for sizes in SIZES:
        x, y = stored(name, *sizes)
        assert_product(compiled(name)(x, y), *seen(name, x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["plain", "right transposed"])
def test_every_element_type(name: str, dtype: DType) -> None:
    for sizes in [(1, 3, 5), (3, BLOCK + 1, 70), (TILE.rows + 1, 9, TILE.panel), (140, 2 * BLOCK, 33)]:
        x, y = stored(name, *sizes, dtype)
        assert_product(compiled(name)(x, y), *seen(name, x, y))


@pytest.mark.parametrize(("m", "n"), [(1, 10), (1, 64), (5, 64), (6, 70), (7, 128), (40, 200), (132, 64), (133, 64)])
def test_packed_and_copied_operands_give_the_same_bits(m: int, n: int) -> None:
    """Constants are packed ahead, arguments copied by the task or read without a copy; sizes may be known or not.

    The product of one row that is known is a reduction of columns, whose sums come in another order.
    """
    x, w, t = random((m, 2 * BLOCK + 7)), random((2 * BLOCK + 7, n), seed=3), None
    t = np.ascontiguousarray(w.T)
    expected = compiled("plain")(x, w)
    assert_product(expected, x, w)
    assert np.array_equal(compiled("right transposed")(x, t), expected)
    assert np.array_equal(zenith.jit(lambda x: x @ w)(x), expected)
    assert np.array_equal(zenith.jit(lambda x: x @ t.T)(x), expected)
    of_known = zenith.jit(lambda w: x @ w)(w)
    assert_product(of_known, x, w)
    assert m == 1 or np.array_equal(of_known, expected)


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    x, w = random((ROWS + 9, BLOCK + 1)), random((BLOCK + 1, 96), seed=4)
    together = compiled("plain")(x, w)
    for rows in (1, 2, 5, 6, 7, 50, ROWS):
        assert np.array_equal(compiled("plain")(x[:rows], w), together[:rows])


@pytest.fixture
def one_thread_then_all() -> Iterator[Callable[[int], None]]:
    yield set_num_threads
    set_num_threads(default_num_threads())


@pytest.mark.parametrize("sizes", [(1, 700, 700), (64, 300, 70), (300, 600, 300)])
def test_threads_do_not_change_bits(sizes: tuple[int, int, int], one_thread_then_all: Callable[[int], None]) -> None:
    x, w = stored("plain", *sizes)
    results = []
    for count in (1, 2, 3):
        one_thread_then_all(count)
        results.append(compiled("plain")(x, w))
    assert all(np.array_equal(r, results[0]) for r in results)


def test_batches_and_views_of_them() -> None:
    """Heads of attention: operands are views of [batch, sequence, head, size], read without copies."""

    def scores(q: Any, k: Any) -> Any:
        return np.transpose(q, (0, 2, 1, 3)) @ np.transpose(k, (0, 2, 3, 1))

    def values(weights: Any, v: Any) -> Any:
        return weights @ np.transpose(v, (0, 2, 1, 3))

    compiled_scores, compiled_values = zenith.jit(scores), zenith.jit(values)
    for b, s, t, h, d in [(2, 5, 7, 3, 16), (1, 1, 130, 2, 64), (3, 70, 1, 1, 8), (0, 2, 2, 2, 2), (2, 66, 67, 2, 33)]:
        q, k = random((b, s, h, d), seed=5), random((b, t, h, d), seed=6)
        result = compiled_scores(q, k)
        assert_product(result, q.transpose(0, 2, 1, 3), k.transpose(0, 2, 3, 1))
        v = random((b, t, h, d), seed=7)
        assert_product(compiled_values(result, v), result, v.transpose(0, 2, 1, 3))


def test_a_matrix_for_every_batch() -> None:
    x, w = random((3, 4, 5, 33)), random((33, 17), seed=8)
    assert_product(zenith.jit(lambda x, w: x @ w)(x, w), x, w)
    assert_product(zenith.jit(lambda x: x @ w)(x), x, w)


def test_epilogues_of_the_product() -> None:
    """Bias, activation and residual, at every kind of edge; the residual may be an operand."""
    w, b = random((70, 70), seed=9), random((70,), seed=10)

    def layer(x: Any) -> Any:
        return np.tanh(x @ w + b) + x

    compiled_layer = zenith.jit(layer)
    for m in (0, 1, 6, 7, 133):
        x = random((m, 70), seed=11)
        np.testing.assert_allclose(compiled_layer(x), layer(x.astype(np.float64)), atol=1e-5)


def test_a_long_sum_is_cut_into_blocks() -> None:
    """One float32 accumulator cannot count beyond 2**24; blocks can."""
    k = 2**24 + 2 * BLOCK
    assert compiled("plain")(np.ones((1, k), np.float32), np.ones((k, 1), np.float32)) == k


def test_not_a_number_and_infinity_stay_in_their_row() -> None:
    x, w = np.ones((9, 5), np.float32), np.ones((5, 65), np.float32)
    x[3] = np.nan
    x[4, 0] = np.inf
    result = compiled("plain")(x, w)
    assert np.isnan(result[3]).all() and np.isinf(result[4]).all()
    assert (np.delete(result, (3, 4), axis=0) == 5).all()
