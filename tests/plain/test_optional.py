"""Names that hold a number or None, which values decide: one program for both, with Python's results."""

import numpy as np
import pytest

import zenith
from zenith.errors import CheckError, TraceError


def largest(x):
    best = None
    for v in x:
        if v > 0 and (best is None or v > best):
            best = v
    return best


def streak(x):
    start, longest = None, 0
    for i in range(len(x)):
        if x[i] > 0:
            if start is None:
                start = i
            if i - start + 1 > longest:
                longest = i - start + 1
        else:
            start = None
    return longest


def span(x):
    low, high = None, None
    for i, v in enumerate(x):
        if v > 0:
            if low is None:
                low = i
            high = i
    if low is None:
        return -1.0
    return x[low : high + 1].sum()


def index_of(x):
    for i in range(len(x)):
        if x[i] == 3:
            return i


def gaps(x):
    last, found = None, []
    for i in range(len(x)):
        if x[i] < 0:
            if last is not None:
                found.append(i - last)
            last = i
    return np.array(found)


def nearest(x):
    best, at = None, None
    for i in range(len(x)):
        v = abs(x[i] - 1.2)
        if best is None or v < best:
            best, at = v, i
    return best, at, x[at]


def variation(x):
    before, total = None, 0.0
    for v in x:
        if before is not None:
            total += abs(v - before)
        before = v
    return total


def of_a_while(x):
    found = None
    while found is None:
        x = x - 1
        if x[0] < 0:
            found = x.sum()
    return found


def in_a_while(x):
    i, last, rises = 0, None, 0
    while i < len(x):
        if last is None:
            if x[i] > 1:
                last = x[i]
        elif x[i] > last:
            last, rises = x[i], rises + 1
        i += 1
    return rises


def skipped(x):
    last, rises = None, 0
    for v in x:
        if v < 0:
            continue
        if last is not None and v > last:
            rises += 1
        last = v
    return rises


def of_arrays(x):
    row = None
    for k in range(12):
        if x[k % len(x)] > 2:
            row = x * k
    return x if row is None else row + 1


def compared(x):
    p = None
    for v in x:
        if v > 2:
            p = v
    return p == 3, p != None, p == None, None is p  # noqa: E711


def two_of_them(x):
    p, q = None, None
    for v in x:
        if v > 2:
            p = v
        if v < -2:
            q = v
    return p == q, p != q, (p == 3) + (q == 3), (p is None) + (q is None)


def as_an_index(x):
    p, total = None, 0.0
    for i in range(len(x)):
        if x[i] == 3 or i == 1:
            p = i
    y = x.copy()
    y[p] = 7
    y[p:] += 1
    for k in range(p):
        total += x[k]
    while p > 0:
        p, total = p - 1, total + 1
    return y, total, p


FUNCTIONS = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__]
ROWS = [[1.0, 2, -1, 3, -2, 1, 1, -1, 2, -3, 1, -1], [0.5, 3, -1, 2], [-1.0, -2, -3, -4, -5, -1, -1, -1, -1, -1]]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_it_is_as_in_python(function, backend):
    compiled = zenith.jit(function, backend=backend)
    for row in ROWS:
        found, expected = compiled(np.array(row)), function(np.array(row))
        assert isinstance(found, tuple) == isinstance(expected, tuple)
        for a, b in zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]:
            assert (a is None) == (b is None)
            np.testing.assert_array_equal(a, b)


def test_one_program_returns_numbers_and_none():
    compiled = zenith.jit(index_of)
    for _ in range(40):  # also once calls are answered natively
        assert compiled(np.array([1.0, 3.0, 2.0])) == 1 and compiled(np.array([1.0, 2.0, 2.0])) is None
    assert compiled.cache_info().misses == 1


def test_none_used_as_a_number_is_an_error_when_it_runs():
    def program(x):
        p = None
        for v in x:
            if v > 2:
                p = v
        return int(p), float(p), max(p, 1.0), np.sqrt(p), -p, 2 * p, p * p, round(p), abs(p)

    x = np.array(ROWS[0])
    np.testing.assert_array_equal(zenith.jit(program)(x), program(x))
    with pytest.raises(CheckError, match="a name holds None where a number is needed"):
        zenith.jit(program)(-np.abs(x))


def test_derivatives():
    def last_rise(x):
        p = None
        for v in x:
            if v > 2:
                p = v * v
        return 0.0 if p is None else p

    x = np.array(ROWS[0])
    np.testing.assert_array_equal(zenith.grad(last_rise)(x), np.where(x == 3, 6.0, 0.0))


def test_what_asks_in_another_way_is_refused():
    def truth(x, p):
        return 1 if p else 2

    def identity(x, p):
        q = p
        return 1 if q is x else 2

    for ask in (truth, identity):

        def program(x, ask=ask):
            p = None
            for v in x:
                if v > 2:
                    p = v
            return ask(x, p)

        with pytest.raises(TraceError, match="values decide whether a name holds a number or None"):
            zenith.jit(program)(np.array(ROWS[0]))


def test_batches_have_no_none():
    with pytest.raises(TraceError, match="a function that is batched returns a number or None"):
        zenith.vmap(index_of)(np.ones((2, 3)))
