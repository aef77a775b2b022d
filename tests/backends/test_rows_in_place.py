"""Rows that a loop writes in place while it reads the same buffer: NumPy reads all of them first."""

import numpy as np
import pytest

import zenith


def repeated_positions(k):
    x = np.zeros(len(k))
    for i in range(len(k)):
        x[np.arange(i) // 2] += 1.0
    return x


def given_positions(k):
    x = np.zeros(len(k))
    for i in range(len(k)):
        x[k[:i] // 2] += 1.0
    return x


def delay_line(k):
    x = np.zeros(8)
    for i in range(len(k)):
        j = np.arange(i) % 3
        x[j + 1] = x[j]
        x[0] = i
    return x


def two_shapes(k):
    x = np.arange(120.0).reshape(12, 10) * (k[1] * 1.0)
    for i in range(10):
        x.reshape(10, 12)[1, :i] = x[1, :i] * i
    return x


def two_ranks(k):
    x = np.arange(120.0).reshape(12, 10) * (k[1] * 1.0)
    for i in range(10):
        x.reshape(-1)[:i] = x[1, :i] * 2.0
    return x


def apart(k):
    x = np.arange(len(k)) * 1.0
    for i in range(1, len(k)):
        x[:i] += x[i] * 2
    return x


@pytest.mark.parametrize("function", [repeated_positions, given_positions, delay_line, two_shapes, two_ranks, apart])
def test_what_is_read_is_what_was_there_before(function):
    k = np.arange(12)
    np.testing.assert_array_equal(zenith.jit(function)(k), function(k))
