"""Lists whose items the program sets: one program for all sizes, and never another result than Python's."""

import heapq
import math

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_as_in_python
from zenith.errors import TraceError


def filled(x):
    out = [0.0] * len(x)
    for i in range(len(x)):
        out[i] = 2 * x[i]
    return np.array(out)


def counted(x):
    counts = [0] * 5
    for v in x:
        counts[int(abs(v)) % 5] += 1
    return counts, sum(counts), max(counts)


def prefix_sums(x):
    sums = [0] * (len(x) + 1)
    for i in range(len(x)):
        sums[i + 1] = sums[i] + int(x[i])
    return sums[-1], sums


def sieve(x):
    n = 20 + len(x)
    prime = [True] * (n + 1)
    prime[0] = prime[1] = False
    p = 2
    while p * p <= n:
        if prime[p]:
            for q in range(p * p, n + 1, p):
                prime[q] = False
        p += 1
    return [i for i in range(n + 1) if prime[i]]


def shortest(x):
    distance = [math.inf] * len(x)
    distance[0] = 0.0
    for _ in range(len(x)):
        for i in range(len(x) - 1):
            if distance[i] + x[i] < distance[i + 1]:
                distance[i + 1] = distance[i] + x[i]
    return distance


def increasing(x):
    best = [1] * len(x)
    for i in range(len(x)):
        for j in range(i):
            if x[j] < x[i] and best[j] + 1 > best[i]:
                best[i] = best[j] + 1
    return max(best)


def bubbles(x):
    a = list(x)
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


def union_find(x):
    parent = list(range(len(x)))
    for i in range(len(x) - 1):
        a, b = i, i + 1
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        if x[i] > 0:
            parent[a] = b
    return [parent[i] for i in range(len(x))]


def heap(x):
    items, size = [0.0] * len(x), 0
    for v in x:
        items[size] = v
        k = size
        size += 1
        while k > 0 and items[(k - 1) // 2] > items[k]:
            items[k], items[(k - 1) // 2] = items[(k - 1) // 2], items[k]
            k = (k - 1) // 2
    return items


def common_subsequence(x):
    n = len(x)
    table = [[0] * (n + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            if x[i - 1] == x[n - j]:
                table[i][j] = table[i - 1][j - 1] + 1
            else:
                table[i][j] = max(table[i - 1][j], table[i][j - 1])
    return table[n][n], table


def named_rows(x):
    n = len(x)
    table = [[0.0] * n for _ in range(n)]
    for i in range(n):
        row = table[i]
        for j in range(n):
            row[j] = x[i] - x[j]
        row[0] = 1.0
    return table


def cubes(x):
    n = len(x)
    table = [[[0] * n for _ in range(n)] for _ in range(n)]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                table[i][j][k] = i * j + k
    return table


def edit_distance(x):
    n = len(x)
    before = list(range(n + 1))
    for i in range(1, n + 1):
        row = [i] * (n + 1)
        for j in range(1, n + 1):
            cost = 0 if x[i - 1] == x[n - j] else 1
            row[j] = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + cost)
        before = row
    return before[n]


def best_candidate(x):
    n = len(x)
    best, candidate, low = [0.0] * n, [0.0] * n, 1e9
    for t in range(n):
        for j in range(n):
            candidate[j] = x[(j + t) % n]
        cost = 2 * candidate[0] + candidate[1]
        if cost < low:
            low, best = cost, candidate[:]
    return best, low


def by_a_function(x):
    def bump(items, i):
        items[i] += 1

    counts = [0] * len(x)
    for i in range(len(x)):
        bump(counts, i * i % len(x))
    return counts


def histories(x):
    state, history = [0] * len(x), []
    for i in range(len(x)):
        state[i] = 1
        history.append(list(state))
    return history


ONE_PROGRAM = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__]


def swapped(x):
    n = len(x)
    a, b = [0.0] * n, [1.0] * n
    for i in range(n):
        for j in range(n):
            b[j] = a[j] + x[i]
        a, b = b, a
    return a, b


def one_list_twice(x):
    row = [0.0] * len(x)
    rows = [row, row]
    for i in range(len(x)):
        rows[0][i] = x[i]
    return rows[1], row


def a_row_that_has_a_name(x):
    row, rows = [0.0] * len(x), []
    for _ in range(len(x)):
        rows.append([0.0] * len(x))
    rows[0] = row
    for i in range(len(x)):
        rows[0][i] = x[i]
    return row


def a_row_that_is_replaced(x):
    n = len(x)
    rows = [[0.0] * n for _ in range(n)]
    first = rows[0]
    rows[0] = [1.0] * n
    for i in range(n):
        first[i] = x[i]
    return rows, first


def rows_in_two_lists(x):
    n = len(x)
    rows = [[0.0] * n for _ in range(n)]
    some, others = rows[:2], []
    for i in range(n):
        others.append(rows[i])
    for i in range(n):
        rows[i][0] = x[i]
    return some, others


def one_state_in_a_history(x):
    state, history = [0] * len(x), []
    for i in range(len(x)):
        state[i] = 1
        history.append(state)
    return history


def chosen_then_set(x):
    a = [1.0] * len(x)
    if x[0] > 0.75:
        a = [2.0] * len(x)
    a[0] = 4.0
    return a


def chosen_and_read(x):
    a, b = [1.0, 2.0], [3.0, 4.0]
    if x[0] > 0.75:
        a, b = b, a
    tables = {"low": 1.0} if x[0] > 0.75 else {"low": 2.0}
    return a, b, tables["low"]


def moved_along(x):
    last = [0.0, 1.0, 2.0]
    for v in x:
        last = [last[1], last[2], last[0] + v]
    last.append(3.0)
    return last


def set_while_it_is_read(x):
    a = [1.0] * 20
    for v in a:
        for i in range(len(a)):
            a[i] = v + 1
    return a[0]


def read_later(x):
    a = [1.0] * 20
    ones = (1 for v in a)
    for i in range(20):
        a[i] = 5.0
    return sum(ones)


def what_c_code_does(x):
    a = [0] * 12
    for i in range(12):
        a[i] = i * 3 % 7
    list.append(a, 5)
    heapq.heapify(a)
    return a, len(f"{a}"), len(repr(a))


def a_truth_as_an_index(x):
    a = [0] * 12
    for i in range(12):
        a[i] = i * 3
    a[True] = 30
    return a[True], a[x.ndim]


def changed_and_replaced(x):
    row = [0.0] * 3
    keep = row
    for v in x:
        row[1] = 7.0
        row = [v] * 3
    return keep, row


def maps(x):
    doubled = map(lambda v: v * 2, x)
    total = 0.0
    for v in doubled:
        total += v
    for _ in doubled:
        total += 100
    return total, sum(map(lambda v: v * 2 if v > 0 else 0.0, filter(lambda v: v > 1, x)), 0.0)


def truths(x):
    return (x > 0).tolist(), (x.sum() > 0).item(), (x > 0).any().item()


def longer_lists_of_python(x):
    return [*[1, 2, 3] * 2, *2 * [1.5], *[x[0]] * 2]


def found_and_set(x):
    for v in x:
        if v > 1:
            row = [1.0, 2.0, v]
            break
    else:
        row = [0.0, 0.0, 0.0]
    row[1] = 9.0
    return row


def the_best_and_set(x):
    best, state = [-5.0, 0.0], {"value": 0.0, "count": 0}
    for i, v in enumerate(x):
        if v > best[0]:
            best = [v, 2 * v]
            state = {"value": v, "count": i}
    best[1], state["count"] = 1.0, 8
    return best, state


def stepped_until_and_set(x):
    row, t = [0.0, 0.0, 0.0], x[0]
    while True:
        if t > 3:
            break
        row, t = [t, 1.0, 2.0], t + 1
        row[2] = 7.0
    row[1] = 5.0
    return row


def chosen_in_two_loops_and_set(x):
    for v in x:
        row = [1.0, 2.0, 3.0]
        for w in x:
            if w > v:
                row = [v, w, 3.0]
                row[2] = 0.0
        row[0] += 1
    row[1] = 9.0
    return row


FUNCTIONS = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_it_is_as_in_python(function, backend):
    check_as_in_python(function, backend)


@pytest.mark.parametrize("function", ONE_PROGRAM)
def test_one_program_has_all_sizes(function):
    compiled, rng = zenith.jit(function), np.random.default_rng(0)
    for n in (9, 12, 17):
        compiled(rng.integers(-3, 4, n) * 1.0)
    assert compiled.cache_info().misses == 1, str(compiled.cache_info())


def _set_behind_a_choice(x):
    a = [1.0] * len(x)
    b = a
    if x[0] > 2:
        b = [2.0] * len(x)
    a[0] = 4.0
    return b


def _set_where_another_name_may_have_it(x):
    a, b = [1.0, 2.0], [3.0, 4.0]
    if x[0] > 2:
        a = b
    b[0] = 9.0
    return a


def _set_what_has_two_names_after_a_loop(x):
    last = [0.0, 1.0]
    for v in x:
        row = [last[1], last[0] + v]
        last = row
    row[0] = 7.0
    return last, row


def _set_behind_a_loop_with_another_name(x):
    best = [0.0, 0.0]
    first = best
    for v in x:
        if v > best[0]:
            best = [v, 2 * v]
    best[0] = 1.0
    return first


def _set_in_a_loop_with_another_name(x):
    row, seen, t = [0.0, 0.0], [], x[0]
    seen.append(row)
    while t < 3:
        row, t = [t, 1.0], t + 1
    row[1] = 5.0
    return seen[0]


def _a_dict_of_two(x):
    a, b = {"low": 1.0}, {"low": 2.0}
    chosen = a if x[0] > 2 else b
    a["low"] = 5.0
    return chosen["low"]


@pytest.mark.parametrize(
    "function",
    [
        _set_behind_a_choice,
        _set_where_another_name_may_have_it,
        _set_what_has_two_names_after_a_loop,
        _set_behind_a_loop_with_another_name,
        _set_in_a_loop_with_another_name,
        _a_dict_of_two,
    ],
)
def test_what_values_choose_does_not_change_under_another_name(function):
    with pytest.raises(TraceError, match="changes, and values decide whether it is the"):
        zenith.jit(function)(np.ones(12))


def _two_names_in_a_loop(x):
    a, i, s = [0.0] * 3, 0, 0.0
    b = a
    while i < len(x):
        a[1] = 7.0
        s += b[1]
        a = [x[i]] * 3
        b = a
        i += 1 + (x[i] > 100)
    return s


def _a_dict_in_a_loop(x):
    d, i = {"a": 0.0}, 0
    keep = d
    while i < len(x):
        d["a"] = 7.0
        d = {"a": x[i]}
        i += 1 + (x[i] > 100)
    return keep, d


def _longer_while_it_is_read(x):
    a, s = [], 0.0
    for v in x:
        if v > 0:
            a.append(v)
    for v in a:
        s += v
        if len(a) < len(x):
            a.append(v)
    return s


def _set_by_values_while_it_is_read(x):
    a, total = [1.0] * 20, 0.0
    for v in a:
        total += v
        if x.sum() > 0:
            a[19] = 5.0
    return total


def _goes_on_with_a_generator(x):
    doubled = (v * 2 for v in x)
    return any(v > 5 for v in doubled), sum(doubled)


def _maps_that_have_a_name(x):
    doubled = map(lambda v: v * 2, x)
    return any(v > 5 for v in doubled), sum(doubled)


def _filters_that_have_a_name(x):
    large = filter(lambda v: v > 0, x)
    return sum(large), sum(large)


@pytest.mark.parametrize(
    "function",
    [
        _maps_that_have_a_name,
        _filters_that_have_a_name,
        _two_names_in_a_loop,
        _a_dict_in_a_loop,
        _longer_while_it_is_read,
        _set_by_values_while_it_is_read,
        _goes_on_with_a_generator,
    ],
)
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_it_is_refused(function, backend):
    with pytest.raises(TraceError):
        zenith.jit(function, backend=backend)(np.arange(1.0, 13.0))


def test_they_have_derivatives_and_batches():
    def total(x):
        out = [0.0] * len(x)
        for i in range(1, len(x)):
            out[i] = out[i - 1] + x[i] * x[i]
        return out[len(x) - 1]

    x = np.arange(1.0, 13.0)
    np.testing.assert_array_equal(zenith.grad(zenith.jit(total))(x), [0, *2 * x[1:]])
    rows = np.stack([x, 2 * x])
    np.testing.assert_array_equal(zenith.vmap(zenith.jit(total))(rows), [total(row) for row in rows])


def test_an_index_behind_the_end_is_an_error():
    def program(x):
        out = [0.0] * len(x)
        for i in range(len(x)):
            out[i + int(x[0])] = 1.0
        return out

    compiled = zenith.jit(program)
    assert compiled(np.zeros(12)) == [1.0] * 12
    with pytest.raises(IndexError):
        compiled(np.ones(12))


def _reversed_then_longer(x):
    a = [0.0] * len(x)
    for i in range(len(x)):
        a[i] = x[i]
        a.reverse()
    if x[0] > 3:
        a.insert(0, 1.0)
    return a


def test_an_error_of_a_list_of_pythons_names_the_line_that_makes_it_one():
    with pytest.raises(TraceError, match="changes a list of Python's") as caught:
        zenith.jit(_reversed_then_longer)(np.ones(12))
    assert "a.reverse()" in caught.value.__notes__[0]


def _row_of_either_kind(x):
    row, t = np.zeros(3), x[0]
    while t < 3:
        row, t = [t, 1.0, 2.0], t + 1
    return row


def _returned_with_what_is_not_set(x):
    small = np.arange(3, dtype=np.uint8)
    k = 300
    if x[0] > 3:
        k = small[1]
    if x[1] > 3:
        return x, k
    return x, 5


def test_types_that_do_not_fit_are_named():
    with pytest.raises(TraceError, match=r"row is f64\[3\] before .* and \[f64, f64, f64\] after it"):
        zenith.jit(_row_of_either_kind)(np.ones(12))
    with pytest.raises(TraceError, match="k is in it, and one side of this branch makes it u8, and the other i64"):
        zenith.jit(_returned_with_what_is_not_set)(np.ones(12))
