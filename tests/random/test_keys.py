"""Keys and bits: the published known answers, jax's bits, every way to run, and what is refused."""

import re

import numpy as np
import pytest

import zenith
from tests.random.compare import chi_squared, jax_key, jax_random, under_jit
from zenith import random
from zenith.errors import DTypeError, NumberError, ShapeError, TraceError
from zenith.ir.ops.reference import threefry2x32
from zenith.random.keys import words_of
from zenith.trace.bind import b

SHAPES = [(), (5,), (3, 4), (2, 3, 7), (0, 3), (1000,)]
# Key, counter, result: the file kat_vectors of Random123 (Salmon et al.), threefry2x32 with 20 rounds.
KNOWN_ANSWERS = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def word(pair):
    return np.array(pair[0] << 32 | pair[1], np.uint64).astype(np.int64)


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN_ANSWERS)
def test_known_answers(key, counter, expected):
    assert threefry2x32(word(key), word(counter)) == word(expected)
    assert zenith.jit(lambda k, c: b.threefry2x32(k, c))(word(key), word(counter)) == word(expected)


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 12345])
def test_keys_are_those_of_jax(seed):
    key = random.key(seed)
    assert key.tolist() == jax_random("key_data", key).tolist()
    jax = pytest.importorskip("jax")
    assert np.array_equal(key, jax.random.key_data(jax.random.key(seed)))


@pytest.mark.parametrize("seed", [2**63 + 5, -1, 2**40 + 3])
def test_seeds_of_64_bits(seed):
    assert random.key(seed).tolist() == [seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF]


def test_seeds_and_data_as_arrays():
    for seed in (np.int64(-1), np.int64(2**40 + 3)):
        assert random.key(seed).tolist() == random.key(int(seed)).tolist() == zenith.jit(random.key)(seed).tolist()
    assert random.key(np.int32(-1)).tolist() == random.key(np.uint32(2**32 - 1)).tolist() == [0, 2**32 - 1]
    key = random.key(5)
    folded = random.fold_in(key, 7)
    assert np.array_equal(folded, random.fold_in(key, np.int64(7 + 2**32)))
    assert np.array_equal(folded, zenith.jit(random.fold_in)(key, 7))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_are_those_of_jax(shape):
    for seed in (0, 1, 987654321):
        key = random.key(seed)
        found = random.bits(key, shape)
        assert found.dtype == np.uint32 and np.array_equal(found, jax_random("bits", key, shape))
        assert np.array_equal(under_jit(lambda k: random.bits(k, shape), key), found)


@pytest.mark.parametrize("num", [1, 2, 3, (2, 3), (), (0,)], ids=str)
def test_split_is_that_of_jax(num):
    key = random.key(42)
    jax = pytest.importorskip("jax")
    expected = jax.random.key_data(jax.random.split(jax_key(key), num))
    assert np.array_equal(random.split(key, num), expected)
    assert np.array_equal(under_jit(lambda k: random.split(k, num), key), expected)


@pytest.mark.parametrize("data", [0, 1, 2**32 - 1])
def test_fold_in_is_that_of_jax(data):
    key = random.key(42)
    jax = pytest.importorskip("jax")
    expected = jax.random.key_data(jax.random.fold_in(jax_key(key), data))
    assert np.array_equal(random.fold_in(key, data), expected)
    assert np.array_equal(under_jit(lambda k: random.fold_in(k, data), key), expected)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint64])
def test_bits_of_other_widths_are_those_of_jax(dtype):
    jax = pytest.importorskip("jax")
    key = random.key(2**40 + 7)
    found = random.bits(key, (3, 50), dtype)
    with jax.enable_x64(True):
        assert found.dtype == dtype and np.array_equal(found, jax_random("bits", key, (3, 50), dtype))
    assert np.array_equal(under_jit(lambda k: random.bits(k, (3, 50), dtype), key), found)


def test_seeds_of_every_integer_type():
    assert np.array_equal(random.key(np.uint64(2**63 + 5)), random.key(2**63 + 5))
    assert np.array_equal(random.key(np.int8(-1)), random.key(np.int32(-1)))
    assert np.array_equal(random.fold_in(random.key(0), np.uint8(3)), random.fold_in(random.key(0), 3))


def test_counters_go_beyond_32_bits():
    key, counters = word((5, 6)), np.arange(2**32 - 20, 2**32 + 20)
    expected = [threefry2x32(key, word(divmod(int(i), 2**32))) for i in counters]
    assert np.array_equal(threefry2x32(np.broadcast_to(key, 40), counters), expected)
    compiled = zenith.jit(lambda k, start: b.threefry2x32(np.broadcast_to(k, (40,)), np.arange(40) + start))
    assert np.array_equal(compiled(key, counters[0]), expected)


def test_one_program_for_all_sizes():
    draw = zenith.jit(lambda key, x: random.bits(key, (x.shape[0] * 2, *x.shape)))
    for n, m in ((3, 4), (1, 1), (0, 3), (50, 2)):
        key = random.key(n)
        assert np.array_equal(draw(key, np.zeros((n, m))), random.bits(key, (2 * n, n, m)))
    assert draw.cache_info().misses == 1


def test_a_fixed_key_inside_a_traced_function_makes_no_constant():
    key = random.key(1)
    draw = zenith.jit(lambda x: x + random.bits(key, (500, 400)))
    x = np.zeros((500, 400), np.uint32)
    assert np.array_equal(draw(x), random.bits(key, (500, 400)))
    constants = re.findall(r"constant\(.*shape=(\S+)\)", draw.lower(x).as_text("graph"))
    assert set(constants) == {"(2,)"}


def test_bits_fuse_into_their_reader():
    total = zenith.jit(lambda key, x: (x * random.uniform(key, x.shape)).sum(-1))
    key, x = random.key(1), np.ones((3, 5), np.float32)
    np.testing.assert_allclose(total(key, x), random.uniform(key, (3, 5)).sum(-1), rtol=1e-6)
    assert total.lower(key, x).as_text("plan").count(" launch ") == 2  # the key's word, and the rows


def test_every_bit_is_fair_and_independent_of_its_neighbours():
    found = random.bits(random.key(11), (20_000,))
    digits = (found[:, None] >> np.arange(32, dtype=np.uint32) & 1).astype(np.int64)
    deviation = (digits.sum(0) - 10_000) / np.sqrt(5_000)
    assert np.abs(deviation).max() < 4
    together = np.cov(digits, rowvar=False) * 4
    assert np.abs(together - np.diag(np.diag(together))).max() < 5 / np.sqrt(20_000)
    pairs = np.bincount((found[:-1] >> 29) * 8 + (found[1:] >> 29), minlength=64)
    assert abs(chi_squared(pairs, np.full(64, 19_999 / 64))) < 4


def test_split_keys_differ_from_their_parent_and_each_other():
    keys = random.split(random.key(0), 100)
    assert len({tuple(k) for k in keys.tolist()}) == 100
    first, second = (random.bits(k, (1000,)) for k in keys[:2])
    assert not np.intersect1d(first, second).size


def test_words_of_one_element_are_the_block_function():
    assert words_of(word((1, 2)), ()) == threefry2x32(word((1, 2)), np.int64(0))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: random.bits(np.zeros(2), (3,)), DTypeError, r"bits: a key is a uint32 array\n.*float64\[2\]"),
        (lambda: random.bits(5, (3,)), DTypeError, r"make keys with zenith\.random\.key"),
        (lambda: random.split(np.zeros(3, np.uint32)), ShapeError, r"split: a key has two words: 3 == 2 does not"),
        (lambda: random.bits(random.split(random.key(0)), 3), ShapeError, r"bits takes one key(.|\n)*key\[i\]"),
        (lambda: random.bits(np.uint32(1), 3), ShapeError, r"bits takes one key"),
        (lambda: random.bits(random.key(0), (2, -1)), ShapeError, r"negative size: \(2, -1\)"),
        (lambda: random.bits(random.key(0), 1.5), TraceError, "bits: a size must be an integer, not float"),
        (lambda: random.bits(random.key(0), 3, np.int32), DTypeError, "bits gives unsigned integers, not int32"),
        (lambda: random.key(2**64), NumberError, "more than 64 bits"),
        (lambda: random.key(1.0), DTypeError, "the seed must be an integer, not float64"),
        (lambda: random.key(np.arange(3)), ShapeError, "the seed must be one number"),
        (lambda: random.fold_in(random.key(0), -1), NumberError, "fold_in: -1 is no unsigned number of 32 bits"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_negative_size_of_a_traced_shape_is_refused():
    draw = zenith.jit(lambda key, x: random.bits(key, (x.shape[0] - 3,)))
    assert draw(random.key(0), np.zeros(5)).shape == (2,)
    with pytest.raises(ShapeError, match=r"a shape has a negative size"):
        draw(random.key(0), np.zeros(2))
