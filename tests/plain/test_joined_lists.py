"""Lists and tuples joined by + and repeated by *: also where the program has stacked one of them."""

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_alike
from zenith.errors import TraceError

X = np.array([3.0, 0.2, 5.0, 1.0])
LONG = np.arange(12.0)


def _growing(x):
    w = [1] + [0] * len(x)
    for a in range(1, len(x) + 1):
        w[a] += w[a - 1] + 2
    return w, sum([1] + [2] * len(x)), max([7] + [0] * len(x))


def _between_cuts(x):
    cuts = [0] + [i for i in range(len(x)) if x[i] > 0.5] + [len(x)]  # noqa: RUF005
    return [cuts[k + 1] - cuts[k] for k in range(len(cuts) - 1)]


def _selected(x):
    found = []
    for i in range(len(x)):
        if x[i] > 0.5:
            found.append(i)
    return len([9] + found), ([9] + found)[1]  # noqa: RUF005


def _on_one_side(x):
    b, a = [1.0, 2.0], [v for v in x]  # noqa: C416
    b = b + a if len(x) > 2 else b
    return len(b), b[2]


def _pascal(x):
    row = [1]
    for _ in range(len(x)):
        row = [1] + [row[j] + row[j + 1] for j in range(len(row) - 1)] + [1]  # noqa: RUF005
    return row


def _twice(x):
    a = [v for v in x]  # noqa: C416
    c = a + a
    a[0] = x[1]
    return c, a


def _lists_of_lists(x):
    a = [[v] for v in x]
    c = a + [[1.0]]  # noqa: RUF005
    a[0][0] = 100.0
    return c[0][0], c[len(x)][0]


def _second_of_two(x):
    a, b = [], []
    for i in range(len(x)):
        a.append([x[i], 1.0])
        b.append([x[i], 2.0])
    both = a + b
    b[0][0] = 7.0
    return both[len(x)][0], len(both)


def _arrays(x):
    a = np.zeros(3)
    c = [a] + [np.ones(3) * k for k in range(len(x))]  # noqa: RUF005
    a[0] = 5
    return c[0], c[3]


def _counted(x):
    n = 0
    for _ in [1] + [v for v in x]:  # noqa: C416, RUF005
        n += 1
    return n, len([0] + list(x)), len([0.0] + x.tolist()), bool([] + [0] * len(x))  # noqa: RUF005


def _as_arrays(x):
    return np.array([x[0]] + [v * 2 for v in x]), [1.0] * 3 + x[:3], x[:2] * (1.0, 2.0), [1.0, 2.0] * x[:2]  # noqa: RUF005


CASES = [value for name, value in list(globals().items())
         if name.startswith("_") and getattr(value, "__module__", None) == __name__]  # fmt: skip


@pytest.mark.parametrize("function", CASES)
def test_lists_are_joined_as_in_python(function):
    compiled = zenith.jit(function)
    for x in (X, LONG, X[1:]):
        check_alike(compiled(x.copy()), function(x.copy()))


@pytest.mark.parametrize("function", [
    lambda n: (1.5,) * n, lambda n: n * (2,), lambda n: len((0,) * n), lambda n: [1] + [0] * n,
    lambda n: np.array((1.0, 2.0) * n),
])  # fmt: skip
def test_an_argument_repeats_sequences(function):
    compiled = zenith.jit(function)
    for n in (3, 0, 12):
        check_alike(compiled(n), function(n))


@pytest.mark.parametrize("function", [lambda x: (7,) * int(x[0]), lambda x: np.int64(x[0]) * (1.0, 2.0)])
def test_how_often_values_repeat_a_tuple_is_refused(function):
    with pytest.raises(TraceError, match="Python integer"):
        zenith.jit(function)(X)
