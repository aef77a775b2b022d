"""Items by numbers of the program, the first item that fits, ``match``, lists as indices, ``numpy.vectorize``."""

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_as_in_python
from zenith.errors import CheckError, TraceError

DIRECTIONS = [(0, 1), (1, 0), (0, -1), (-1, 0)]
COSTS = {-1: 0.5, 0: 1.5, 3: 2.5, 7: 4.0}


def walks(x):
    y, z, facing = 0, 0, 0
    for v in x:
        facing = (facing + int(v)) % 4
        dy, dx = DIRECTIONS[facing]
        y += dy
        z += dx
    return y, z


def costs(x):
    total = 0.0
    for v in x:
        total += COSTS[3 if v > 1 else -1]
    return total


def mixed_numbers(x):
    return [1.0, 2.5, float(x[0])][int(abs(x[1])) % 3]


def negative(x):
    total = 0
    for i in range(len(x)):
        total += (10, 20, 30)[-int(x[i] > 0) - 1]
    return total


def arrays_of_python(x):
    best = 0.0
    for v in x:
        best += (x, -x)[int(v > 0)][1]
    return best


def nested(x):
    table = [[1, 2], [3, 4], [5, 6]]
    return sum(table[i % 3][int(x[i] > 0)] for i in range(len(x)))


def dict_of_rows(x):
    rows = {0: [0.5, 1.0], 1: [2.0, 3.0]}
    low, high = rows[int(x[0] > 0.75)]
    return low + 2 * high


def in_a_table(x):
    return 3 in COSTS, int(x[0]) in COSTS, int(x[0] + 4) not in COSTS


def missing_number(x):
    return [1.0, 2.0][int(x[0])]


def first_fit(x):
    return next((i for i, v in enumerate(x) if v > 2), -1)


def first_of_range(x):
    return next((x[i] * 2 for i in range(1, len(x)) if x[i] < x[i - 1]), 0.5)


def first_pair(x):
    return next(((i, v) for i, v in enumerate(x) if v < 0), (-1, 0.5))


def first_or_error(x):
    x[0] += 1
    return next(v for v in x if v > 2.5)


def matches(x):
    total = 0
    for v in x:
        match int(v):
            case 0:
                total += 1
            case 1 | 2:
                total += 10
            case -1 as n:
                total -= n
            case n if n > 2:
                total += 100 * n
            case _:
                break
    return total


def matches_none(x):
    found = None
    if x[0] > 0.75:
        found = x[0]
    match found:
        case None:
            return x
        case _:
            return -x


def matches_texts(x):
    match "abc"[: x.ndim]:
        case "a":
            return x * 2
        case None | True:
            return x * 3
    return x


def matches_classes(x):
    found = []
    for value in (x[0], int(x[1]), x, 2.5, "text", x[2] > 0):
        match value:
            case bool() | np.bool():
                found.append(1)
            case int() as n:
                found.append(2 + n)
            case float():
                found.append(3)
            case np.ndarray():
                found.append(4)
            case _:
                found.append(5)
    return found


def matches_tuples(x):
    match x.shape:
        case (n,):
            return x * n
        case (n, m):
            return x * n * m
    return x


def indices_in_a_list(x):
    positive = []
    for i in range(len(x)):
        if x[i] > 0:
            positive.append(i)
    total = x[positive].sum()
    x[positive] = 0.5
    x[positive] += 1
    return total, x[[i for i in range(len(x)) if x[i] > 1]]


def vectorized(x):
    def clipped(v, low):
        if v > 1:
            return 1.0
        return low if v < low else v

    return np.vectorize(clipped)(x, -0.5), np.vectorize(lambda v: int(v), otypes=[np.int64])(x)


def methods(x):
    count = int(x[0] * 16)
    return count.bit_length(), count.bit_count(), x[1].is_integer(), float(x[0]).is_integer(), x.item(1), x.item(-1)


FUNCTIONS = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_it_is_as_in_python(function, backend):
    check_as_in_python(function, backend)


def test_one_program_looks_up_all():
    compiled = zenith.jit(walks)
    for n in (9, 12, 30):
        x = np.arange(n) * 1.0
        assert compiled(x) == walks(x)
    assert compiled.cache_info().misses == 1


def test_a_missing_key_is_an_error_when_it_runs():
    compiled = zenith.jit(lambda x: COSTS[int(x[0])])
    assert compiled(np.array([3.0])) == 2.5
    with pytest.raises(CheckError, match="a dict has no such key"):
        compiled(np.array([2.0]))


def test_an_index_behind_the_end_is_an_error():
    with pytest.raises(IndexError):
        zenith.jit(missing_number)(np.array([2.0]))


def test_an_item_that_values_choose_is_not_written():
    def program(x):
        rows = [x * 1, x * 2]
        rows[int(x[0])][0] = 5.0
        return rows[0]

    with pytest.raises(TraceError, match="read-only"):
        zenith.jit(program)(np.ones(3))


def test_a_list_that_values_choose_does_not_change():
    tables = [[1.0, 2.0], [3.0, 4.0]]

    def written(x):
        tables[int(x[0])][0] = 5.0
        return tables[0][0]

    def longer(x):
        tables[int(x[0])].append(5.0)
        return len(tables[0])

    for program in (written, longer):
        with pytest.raises(TraceError, match="a list changes that values choose among others"):
            zenith.jit(program)(np.zeros(3))
    assert tables == [[1.0, 2.0], [3.0, 4.0]]


def test_functions_in_a_list_are_refused():
    with pytest.raises(TraceError, match="zenith.switch"):
        zenith.jit(lambda x: [np.sin, np.cos][int(x[0])](x))(np.ones(3))


def test_what_matches_other_patterns_has_to_be_known():
    def program(x):
        match x[0]:
            case float(v):
                return v
        return 0.0

    with pytest.raises(TraceError, match="a pattern with a class and what is in it"):
        zenith.jit(program)(np.ones(3))


def test_they_have_derivatives_and_batches():
    def program(x):
        return next((v * (0.5, 3.0)[int(v > 1)] for v in x if v > 0), 0.0)

    rows = np.array([[-1.0, 2, 3], [-1, -1, 0.5], [-3, -2, -1]])
    np.testing.assert_array_equal(zenith.vmap(program)(rows), [6.0, 0.25, 0.0])
    np.testing.assert_array_equal(zenith.grad(zenith.jit(program))(rows[0]), [0.0, 3.0, 0.0])
