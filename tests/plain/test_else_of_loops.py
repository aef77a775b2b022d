"""``for ... else`` and ``while ... else``: names that ``break`` sets, or the ``else``."""

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_as_in_python
from zenith.errors import TraceError


def first_above(x):
    for i in range(len(x)):
        if x[i] > 2:
            found = i
            break
    else:
        found = -1
    return found


def two_names(x):
    for i, v in enumerate(x):
        if v > 2:
            at, value = i, 2.0 * v
            break
    else:
        at = -1
        value = 0.5
    return at, value


def leaves_the_function(x):
    for v in x:
        if v > 2:
            found = v
            break
    else:
        return -1.0
    return found * 2


def raises(x):
    for v in x:
        if v > 2:
            found = v
            break
    else:
        raise LookupError("nothing above 2")
    return found


def goes_on_with_the_outer_loop(x):
    total = 0
    for i in range(len(x)):
        for j in range(i, len(x)):
            if x[j] - x[i] > 3:
                width = j - i
                break
        else:
            continue
        total += width
    return total


def in_a_loop(x):
    total = 0
    for i in range(len(x)):
        for j in range(i, len(x)):
            if x[j] - x[i] > 3:
                width = j - i
                break
        else:
            width = 100
        total += width
    return total


def while_else(x):
    i = 0
    while i < len(x):
        if x[i] > 2:
            value = x[i]
            break
        i += 1
    else:
        value = 0.25
    return value


def number_or_none(x):
    for v in x:
        if v > 2:
            found = v
            break
    else:
        found = None
    return found


def arrays(x):
    for v in x:
        if v > 2:
            found = x * v
            break
    else:
        found = np.zeros(len(x))
    return found


def another_type_before(x):
    found = "nothing yet"
    for v in x:
        if v > 2:
            found = v
            break
    else:
        found = 0.0
    return found


FUNCTIONS = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_it_is_as_in_python(function, backend):
    check_as_in_python(function, backend)


def test_a_name_that_a_break_may_leave_unset_is_an_error():
    def program(x):
        for v in x:
            if v > 2:
                if v > 3:
                    found = v
                break
        else:
            found = 0.0
        return found

    with pytest.raises(TraceError, match="found is read, and nothing has set it"):
        zenith.jit(program)(np.ones(12))


def test_a_name_that_is_read_before_the_break_sets_it_is_an_error():
    def program(x):
        for i in range(len(x)):
            if i > 2:
                x[i] = found  # noqa: F821
            if x[i] > 2:
                found = x[i]
                break
        else:
            found = 0.0
        return found

    with pytest.raises(TraceError, match="found is read, and only one side of this branch sets it"):
        zenith.jit(program)(np.ones(12))
