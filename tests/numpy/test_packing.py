"""Bits in bytes, against NumPy."""

import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import check
from zenith.errors import ArgumentError, DTypeError


@pytest.mark.parametrize("size", [0, 1, 7, 8, 17])
def test_bits_are_packed_and_taken_apart(size):
    rng = np.random.default_rng(size)
    x, y = rng.integers(-1, 2, (3, size)), rng.integers(0, 256, (3, size)).astype(np.uint8)
    check(lambda xp, x: [xp.packbits(x), xp.packbits(x, -1), xp.packbits(x, 0, "little")], x)
    check(lambda xp, x: xp.packbits(x, axis=1, bitorder="little"), x.astype(bool))
    check(lambda xp, y: [xp.unpackbits(y), xp.unpackbits(y, 1, bitorder="little")], y)
    if size:
        check(lambda xp, y: [xp.unpackbits(y, 0, 20), xp.unpackbits(y, 1, 5), xp.unpackbits(y, count=-3)], y)


def test_what_has_no_bits_is_refused():
    with pytest.raises(DTypeError, match="packbits takes integers and bools, not float64"):
        znp.packbits(np.ones(3))
    with pytest.raises(DTypeError, match="unpackbits takes uint8, not int64"):
        znp.unpackbits(np.ones(3, int))
    with pytest.raises(ArgumentError, match="'up' is no bitorder"):
        znp.packbits(np.ones(3, int), bitorder="up")
    with pytest.raises(ArgumentError, match="leaves out more than the 8 bits"):
        znp.unpackbits(np.ones(1, np.uint8), count=-9)
