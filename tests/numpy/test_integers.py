"""Where integers of different widths meet, and where a narrow one must not be trusted with a position."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import check
from zenith import tree
from zenith.errors import NumberError
from zenith.ir.types import INTEGERS

SIGNED = np.array([-(2**63), -1, 0, 5, 2**63 - 1])
UNSIGNED = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
BYTES = np.array([-128, -1, 0, 1, 127], np.int8)


@pytest.mark.parametrize("signed", [SIGNED, BYTES], ids=str)
def test_signed_and_unsigned_numbers_compare_as_numbers(signed):
    x, y = signed[:, None], UNSIGNED
    check(lambda xp, a, b: (a < b, a <= b, a == b, a != b, a > b, a >= b, b < a, b >= a), x, y)


def test_python_numbers_beyond_a_type_compare_and_clip():
    check(lambda xp, a: (a < 300, a > -200, a == 1000, a != -129, xp.clip(a, -500, 100)), BYTES)
    with pytest.raises(NumberError, match="300 is out of bounds for int8"):
        znp.add(BYTES, 300)


def test_the_ends_of_types():
    check(lambda xp, a: (-a, abs(a), ~a, xp.sign(a), a**2, a // -1, a // 0, a % 0, xp.bitwise_count(a)), BYTES)
    check(lambda xp, a: (xp.sum(a), xp.sum(a, dtype=np.int8), xp.prod(a, dtype=np.uint8), xp.mean(a)), BYTES)
    check(lambda xp, a: (xp.sum(a), xp.max(a), xp.argmin(a), xp.mean(a), a.astype(np.float32)), UNSIGNED)


def test_products_wrap_as_sums_do():
    check(lambda xp, a: (a @ a, xp.outer(a, a), xp.einsum("i,i->", a, a)), BYTES)
    found = zenith.jit(lambda a, b: a @ b)(np.full((3, 40), 100, np.uint8), np.full((40, 2), 90, np.uint8))
    assert found.dtype == np.uint8 and (found == 40 * 9000 % 256).all()


def _compared(x, k):
    all_ways = [(x < k, k >= x, x <= k, x > k, k == x, x != k), (x[0] < k, k > x[1], x[2] == k, x.max() >= k)]
    return *all_ways, np.where(k > x, 1, 0), k in x


@pytest.mark.parametrize("dtype", [t.numpy for t in INTEGERS], ids=str)
def test_python_numbers_that_are_arguments_compare_and_clip_as_numbers(dtype):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.max, 0, 1, 5, 100], dtype)
    compared, clipped = zenith.jit(_compared), zenith.jit(lambda x, k: (np.clip(x, None, k), np.clip(x, 0, k)))
    for k in (-1, 0, 5, 127, 128, 255, 256, -129, 40000, 2**31 - 1, 2**31, 2**32, -(2**31) - 1, 2**63 - 1, -(2**63)):
        for found, expected in zip(tree.flatten(compared(x, k))[0], tree.flatten(_compared(x, k))[0], strict=True):
            np.testing.assert_array_equal(found, expected)
        if k >= 0:
            np.testing.assert_array_equal(clipped(x, k)[0], np.minimum(x, min(k, limits.max)))
            np.testing.assert_array_equal(clipped(x, k)[1], np.clip(x, 0, min(k, limits.max)))


def test_bounds_of_a_clip_that_a_wider_result_holds_stay():
    clipped = zenith.jit(lambda x, n, y: (np.clip(x, n, y), np.clip(x, np.int16(-9), n), np.clip(x, n, 1e9)))
    x, y = np.array([1, 255], np.uint8), np.array([500, 1000])
    for n in (300, 5):
        for found, expected in zip(clipped(x, n, y), (np.clip(x, n, y), np.clip(x.astype(int), -9, n),
                                                      np.clip(x, float(n), 1e9)), strict=True):  # fmt: skip
            np.testing.assert_array_equal(found, expected)


def test_sizes_and_turns_of_loops_compare_as_numbers():
    def counted(x, n):
        total = 0
        for i in range(n):
            total += (x == i).sum()
        return total, (x < len(x)).sum()

    assert zenith.jit(counted)(np.arange(300).astype(np.uint8), 300) == (300, 300)


@pytest.mark.parametrize("dtype", [t.numpy for t in INTEGERS], ids=str)
def test_indices_of_every_type_reach_beyond_their_range(dtype):
    x = np.arange(300.0)
    indices = np.array([-128, -1, 0, 127] if dtype.kind == "i" else [0, 127, 255], dtype)
    check(lambda xp, a, i: (a[i], xp.take(a, i), xp.take_along_axis(a, i, 0)), x, indices)


def test_examples_of_a_batch_are_counted_beyond_the_range_of_indices():
    rows, indices = np.arange(600.0).reshape(300, 2), np.ones((300, 1), np.int8)
    np.testing.assert_array_equal(zenith.vmap(lambda x, i: x[i])(rows, indices), rows[:, 1:])


def test_a_start_beyond_int64_is_moved_inside():
    cut = zenith.jit(lambda x, start: zenith.dynamic_slice(x, [start], [2]))
    assert cut(np.arange(300), np.uint64(2**64 - 1)).tolist() == [298, 299]
    assert cut(np.arange(300), np.uint8(200)).tolist() == [200, 201]
