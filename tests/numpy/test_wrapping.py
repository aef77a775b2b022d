"""Integers wrap: NumPy's results where sums, differences and products are beyond what their type holds."""

import itertools
import random

import numpy as np
import pytest

import zenith

MOST, LEAST = 2**63 - 1, -(2**63)
TYPES = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]


def counted(x):
    c = 0
    for k in range(len(x)):
        s = x[k] + 1
        if s < x[k]:
            c += 1
    return np.int64(c)


def saturated(x, y):
    out = np.zeros(len(x), np.int64)
    for k in range(len(x)):
        s = x[k] + y[k]
        out[k] = MOST if y[k] > 0 and s < x[k] else s
    return out


CASES = [
    ("sums compared", lambda x, y: (x + y < x, x + 1 > x, x + 5 < x, x + 7 < y + 7)),
    ("differences compared", lambda x, y: (x - y > 0, x - 1 < x, np.abs(x - y) >= 0)),
    ("products compared", lambda x, y: (x * x < 0, x * 2 >= 0, x * 4 == y * 4, x * 6 == 0, x**2 < 0)),
    ("products divided", lambda x, y: (x * 5 // 5, x * 8 // 8, x * 10 % 10, x * y // y)),
    ("bounds", lambda x, y: (np.maximum(x + 1, x), np.minimum(x - 1, x), np.clip(x + 100, x, None))),
    ("choices", lambda x, y: np.where((y > 0) & (x + y < x), MOST, x + y)),
    ("prefixes", lambda x, y: (np.diff(np.cumsum(x)) < 0, np.cumprod(x) // x)),
    ("prefixes of columns", lambda x, y: np.cumsum(x[:, None], axis=0) < x[:, None]),
    ("sums", lambda x, y: (np.sum(x) < x, np.dot(x, y) < x, np.prod(x) // x)),
    ("written at indices", lambda x, y: np.add.at(y, [0, 0, 1], x[:3]) or y < x),
    ("a loop", lambda x, y: counted(x)),
    ("another loop", saturated),
    ("a scan", lambda x, y: zenith.scan(lambda c, a: (c + a, (c + a) < c), np.int64(2**62), x)[1]),
]  # fmt: skip


@pytest.mark.parametrize("function", [function for _, function in CASES], ids=[name for name, _ in CASES])
@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_int64_wraps(function, backend):
    x = np.array([MOST, 2**62, 2**62 + 1, LEAST, LEAST, 3037000500, 5, 2**61])
    y = np.array([3, 4, -10, 1, -1, 7, LEAST, MOST])
    with np.errstate(all="ignore"):
        expected = function(x.copy(), y.copy())
    found = zenith.jit(function, backend=backend)(x.copy(), y.copy())
    for a, b in zip(*((v if isinstance(v, tuple) else (v,)) for v in (found, expected)), strict=True):
        np.testing.assert_array_equal(a, b)


def drawn(draw, depth, x, y):
    """A random expression of integers."""
    kind = x.dtype.type
    info = np.iinfo(kind)
    if not depth:
        return draw.choice([x, y, kind(draw.choice([0, 1, 2, 3, 7, info.max, info.min, info.max - 1]))])
    a, b = drawn(draw, depth - 1, x, y), drawn(draw, depth - 1, x, y)
    forms = [
        lambda: a + b, lambda: a - b, lambda: a * b, lambda: a + kind(3), lambda: a * kind(3), lambda: a // b,
        lambda: a % b, lambda: -a, lambda: np.abs(a), lambda: np.maximum(a, b), lambda: np.minimum(a, b),
        lambda: a & b, lambda: a ^ b, lambda: ~a, lambda: a << kind(1), lambda: a >> kind(info.bits - 1),
        lambda: np.where(a < b, a, b), lambda: np.where(a == b, a, ~b), lambda: np.where(a * kind(3) > b, a, b),
        lambda: a ** kind(2), lambda: np.clip(a, kind(1), b), lambda: a.astype(np.int64).astype(kind),
    ]  # fmt: skip
    return draw.choice(forms)()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_random_expressions_at_the_ends_of_a_type(kind, seed):
    info = np.iinfo(kind)
    ends = [0, 1, 2, 3, 7, info.max, info.min, info.max - 1, info.min + 1, info.max // 2]
    x, y = (np.array(column, kind) for column in zip(*itertools.product(ends, ends), strict=True))

    seeds = [f"{kind} {seed} {number}" for number in range(12)]

    def program(x, y):
        found = []
        for text in seeds:
            draw = random.Random(text)
            found.append(np.broadcast_to(np.asarray(drawn(draw, 3, x, y), kind), x.shape))
        return found

    with np.errstate(all="ignore"):
        expected, found = program(x, y), zenith.jit(program)(x, y)
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


FACTOR = 2**61 + 1


def written_at_quotients(x):
    c, k = 0.0, np.int64(0)
    while k < len(x):
        x[k * np.int64(FACTOR) // np.int64(FACTOR + 1)] = c + 7
        c, k = c + 1, k + np.int64(1)
    return c


def read_at_quotients(x):
    y, c = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        k = np.int64(i) * np.int64(FACTOR)
        y[i] = x[k // np.int64(FACTOR + 1)] + 0 * c
        c = y[i]
    return y


def hashed(x):
    y, c = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        k = np.int64(i) * np.int64(0x5851F42D4C957F2D)
        y[i] = x[k // np.int64(2**60)] + 0 * c
        c = y[i]
    return y


@pytest.mark.parametrize("function", [written_at_quotients, read_at_quotients, hashed])
def test_indices_that_have_wrapped_are_checked(function):
    """What is in front of an array and behind it stays."""
    own, plain = (np.arange(40.0) + 100 for _ in range(2))
    with np.errstate(all="ignore"):
        expected = function(plain[16:25])
    np.testing.assert_array_equal(zenith.jit(function)(own[16:25]), expected)
    np.testing.assert_array_equal(own, plain)
