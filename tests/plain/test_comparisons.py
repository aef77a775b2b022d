"""Tuples and lists that hold values of the program, compared as in Python."""

from typing import NamedTuple

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_alike
from zenith.errors import ValueTypeError

X = np.array([3.0, 0.2, 5.0, 1.0])


def _walk(x):
    r, c, n = 0, 0, 0
    goal = (3, 2 + int(x[0]))
    while (r, c) != goal:
        if r < 3:
            r += 1
        else:
            c += 1
        n += 1
    return n


def _names_of_tuples(x):
    position, goal = (int(x[0]), 0), (0, 0)
    while position != goal:
        position = (position[0] - 1, 0)
    return position


def _best(x):
    best = (-100.0, 0)
    for i in range(len(x)):
        if (x[i], i) > best:
            best = (x[i], i)
    return best[1]


def _max(x):
    best = (-100.0, 0)
    for i in range(len(x)):
        best = max(best, (x[i], -i))
    return best[1], max((x[0], 1), (x[1], 2))[1], min((x[0], 1), (x[0], 0))[1], max([(x[0], 1), (x[1], 2)])[0]


def _equal(x):
    a = [x[0], x[1]]
    return (
        (x[0], x[1]) == (3.0, 0.2), (x[0],) != (3.0,), ((x[0], 1), 2) == ((3.0, 1), 2), a == [3.0, 0.2],
        [x[0]] == a, (x[0], "a") == (3.0, "a"), (x, 1) == (x, 1), a != [3.0],
    )  # fmt: skip


def _ordered(x):
    return [
        1 if flag else 0
        for flag in (
            (x[0], x[1]) < (3.0, 0.1), (x[0], x[1]) <= (3.0, 0.2), (1, x[0]) < (2, x[1]), (x[0],) >= (3.0,),
            (x[0], 1) > (x[1], 5), (x[0],) < (x[0], 1), ((x[0], x[1]), 1) <= ((x[0], x[2]), 0),
        )
    ]  # fmt: skip


CASES = [value for name, value in list(globals().items())
         if name.startswith("_") and getattr(value, "__module__", None) == __name__]  # fmt: skip


@pytest.mark.parametrize("function", CASES)
def test_they_are_compared_item_by_item(function):
    compiled = zenith.jit(function)
    for x in (X, np.arange(12.0), np.array([3.0, 0.2, 7.0]), np.full(5, 2.0)):
        check_alike(compiled(x.copy()), function(x.copy()))


def test_arrays_in_tuples_have_no_truth():
    with pytest.raises(ValueTypeError, match="ambiguous"):
        zenith.jit(lambda x, y: (x, 1) == (y, 1))(X, X.copy())


class _Job(NamedTuple):
    cost: float

    def __lt__(self, other):
        return self.cost > other.cost


def test_classes_compare_as_they_say():
    def function(x):
        return 1 if _Job(x[0]) < _Job(x[1]) else 0

    assert zenith.jit(function)(X) == function(X) == 1


def test_chains():
    def function(x):
        return 1 if (0, 0) <= (int(x[0]), 1) < (9, 9) else 0

    assert zenith.jit(function)(X) == 1 and zenith.jit(function)(X + 7) == 0
