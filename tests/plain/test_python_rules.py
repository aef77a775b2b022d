"""Rules of Python's that programs rest on: scopes, order of evaluation, identity, iterators, what bodies may change."""

import contextlib
import heapq
import itertools
import math
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_as_in_python
from zenith.errors import TraceError

LOG = []


class Counter:
    total = 0


class Slotted:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


# --- as in Python --------------------------------------------------------------------------------------------------


def in_ranges(x):
    k = int(x[0])
    return k in range(10, 0, -1), k in range(9, -10, -4), k in range(3, 3), k in range(len(x))


def distances(x):
    return math.dist((x[0],), (x[1],)), math.hypot(x[0] - x[1])


def sorted_with_arrays(x):
    return sorted([(x[0], x + 1), (x[1], x * 2)], key=lambda p: p[0])[0][1]


def keys_are_computed_once(x):
    calls = []

    def key(v):
        calls.append(v)
        return -v

    return sorted([3.0, 1.0, 2.0], key=key), min([3.0, 1.0, 2.0], key=key), len(calls), max([x[0], x[1]], key=None)


def captured_by_match(x):
    a, length = (0.0, 0)
    for p in ((1.0, 2.0), (3.0, 4.0), [5.0, 6.0, 7.0], {"a": 2.0, "b": 1.0}):
        match p:
            case [a, b]:
                pass
            case [first, *others]:
                length = first + len(others)
            case {"a": value, **rest}:
                length += value + len(rest)
    return a * x[0] + b + length


def jumps_over_the_else_of_try(x):
    s = 0.0
    for k in range(3):
        try:
            if k == 1:
                continue
        except ValueError:
            s = -1.0
        else:
            s += x[k]
    return s


def returns_from_try(x):
    try:
        if x.ndim == 1:
            return x[0]
    except ValueError:
        pass
    else:
        return x[1]
    return x[2]


def nonlocal_in_a_branch(x):
    hit, best = 0.0, -9.0

    def look(v):
        nonlocal hit, best
        if v > 1:
            hit = 1.0
        for w in x:
            if w > best:
                best = w

    look(x[0])
    return hit, best


def names_twice_in_brackets(x):
    rows = [(1.0, 2.0, x[0]), (x[1], 4.0, 5.0)]
    return [b for _, _, b in rows], [_ for _, _ in zip(x, x[::-1], strict=True)][0]


def generators_read_names_late(x):
    return [list(g) for g in [(k * v for v in (1.0, 2.0)) for k in (x[0], x[1])]]


def queues(x):
    queue, count = deque(), Slotted()
    for i in range(20):
        queue.append(i)
        count.count += 1
    return len(queue) + 0 * x[0], count.count


def of_the_module(x):
    LOG.clear()
    Counter.total = 0
    for _ in x:
        if x.ndim == 1:
            LOG.append(1)
        Counter.total += 1
    return len(LOG) + 0 * x[0], Counter.total


def stepped(x):
    steps = iter(range(30))
    for _ in range(20):
        next(steps)
    return next(steps) + 0 * x[0]


def array_put_into_a_list(x):
    rows, c = [np.zeros(2) for _ in x], np.ones(2)
    for i in range(len(x)):
        rows[i] = c
    c[0] = 7.0
    return rows[0][0]


def goes_on_with_an_iterator(x):
    it = iter(x)
    first, s = next(it), 0.0
    for i, v in enumerate(it):
        s += i * v
    return s, first


class Doubling:
    calls = 0

    def __call__(self, v):
        Doubling.calls += 1
        return 2 * v


layer = Doubling()


class Running:
    def __init__(self, x):
        self.total = x[0]

    def step(self):
        self.total = 5.0
        return 1.0

    def go(self):
        self.total += self.step()
        return self.total


class Checker:
    def check(self, x):
        if x[1] < 0:
            raise LookupError("negative")


checker = Checker()


def attributes_before_the_call(x):
    return Running(x).go()


def checked_by_a_method(x):
    checker.check(x)
    x[0] = 7.0
    if x[1] < 1:
        raise KeyError("small")
    return x[2]


def leaves_two_loops(x):
    found = -1
    for i in range(len(x)):
        for j in range(len(x)):
            if x[j] > 100 + i:
                found = j
                break
        else:
            continue
        break
    return found


def leaves_the_outer_loop(x):
    last = 1.0
    for i in range(len(x)):
        for j in range(len(x)):
            if x[j] > 3 + i:
                last = x[j]
                break
        else:
            break
    return last


def returns_from_match(x):
    match x.shape:
        case (n,):
            if x[0] > 0:
                return x * n
    return -x


def jumps_out_of_match(x):
    s = 0.0
    for k in range(4):
        match (k, 1):
            case (0, b):
                continue
            case (2, b):
                break
            case (a, b):
                s += x[0] + a
    return s


def reads_before_the_call(x):
    a = x.copy()

    def g():
        a[0] = 10.0
        return 1.0

    a[0] += g()
    return a[0]


def map_is_lazy(x):
    s = np.zeros(1)
    for y in map(lambda v: v + s[0], x):
        s[0] = y
    return s[0]


def map_of_an_iterator(x):
    it = iter([1.0, 2.0, 3.0])
    for a in map(abs, it):
        break
    return x[0] * next(it, 0.0)


def narrow_bounds(x):
    y = x.astype(np.uint8)
    n = 0
    for i in range(y[0], y[1]):
        n += i * i
    return n


def counters_are_pythons(x):
    y = x.astype(np.int64)
    acc = np.zeros(1, np.float32)[0]
    z = np.ones(30, np.float32)
    for i in range(y[0], y[1]):
        acc += z[i] * i
    return acc


def longer_while_it_is_enumerated(x):
    q, t = list(x), 0.0
    for i, v in enumerate(q):
        t += v
        if i < 3:
            q.append(v * 2)
    return t


def counted_by_a_class(x):
    Doubling.calls, t = 0, 0.0
    for v in x:
        t += layer(v)
    return t + Doubling.calls


def counted_by_a_function(x):
    def step(v):
        step.n += 1
        return v * step.n

    step.n = 0
    t = 0.0
    for v in x:
        t += step(v)
    return t


def messages_are_made_once(x):
    m = ["a", "b"]
    if x.ndim == 1:
        raise LookupError(m.pop())
    return x


def floor_of_an_integer(x):
    return math.floor(int(x[0]) + 1)


FUNCTIONS = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__
             and not isinstance(value, (type, Doubling, Checker))]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_is_as_in_python(function):
    check_as_in_python(function, "cpu")


def _root(v):
    if v < 0:
        raise ValueError("negative")
    return np.sqrt(v)


def _scaled_by_a_root(x):
    x[0] *= _root(x[1])


def _unpacked_with_a_root(x):
    x[0], b = _root(x[1]), 1.0
    return b


@pytest.mark.parametrize("function", [_scaled_by_a_root, _unpacked_with_a_root])
def test_what_a_function_returns_that_raises_is_not_stored(function):
    x = np.array([3.0, -1.0])
    with pytest.raises(ValueError, match="negative"):
        zenith.jit(function)(x)
    np.testing.assert_array_equal(x, [3.0, -1.0])


# --- refused: values would have to decide, when the program runs ----------------------------------------------------


def _slice_of_an_empty_list(x):
    a = []
    if x[0] > 0:
        a[:] = [1.0]
    return len(a)


def _pushed_by_c_code(x):
    a = []
    if x[0] > 0:
        heapq.heappush(a, 1.0)
    return len(a)


def _deque_in_a_branch(x):
    a = deque()
    if x[0] > 0:
        a.append(1.0)
    return len(a)


def _slots_in_a_branch(x):
    a = Slotted()
    if x[0] > 0:
        a.count = 1
    return a.count


def _class_in_a_branch(x):
    Counter.total = 0
    if x[0] > 0:
        Counter.total = 1
    return Counter.total


def _method_in_a_branch(x):
    found = set()
    add = found.add
    if x[0] > 0:
        add(1)
    return len(found)


def _iterator_in_a_branch(x):
    it = iter([1.0, 2.0, 3.0])
    if x[0] > 0:
        next(it)
    return next(it)


def _generator_in_a_loop(x):
    steps = (k for k in range(30))
    for _ in range(20):
        next(steps)
    return next(steps)


def _pairs_in_a_loop(x):
    pairs = enumerate([5.0] * 30)
    for _ in range(20):
        next(pairs)
    return next(pairs)[0]


def _list_in_a_tuple(x):
    a, b = [1.0], [2.0]
    p = (a,) if x[0] > 0 else (b,)
    a[0] = 5.0
    return p[0][0]


def _tuple_of_a_list_with_two_names(x):
    p = ([1.0],)
    q = p
    if x[0] > 2:
        p = ([2.0],)
    p[0][0] = 5.0
    return q[0][0]


def _array_taken_from_a_tuple(x):
    a, b = np.zeros(2), np.ones(2)
    r = (a, b)[int(x[0] > 0)]
    b[0] = 5.0
    return r[0]


def _order_of_keys(x):
    d = {"a": x[0], "b": x[1]} if x[0] > 0 else {"b": x[1], "a": x[0]}
    return [d[k] for k in d]


@dataclass
class _Point:
    v: float = 0.0


def _equal_objects(x):
    a, b = _Point(), _Point()
    q = a if x[0] > 0 else b
    q.v = 1.0
    return a.v


def _identity_of_arrays(x):
    y = x
    if x[0] > 0:
        y = x.copy()
    return y is x


def _quotient_of_numbers(x):
    try:
        return 1.0 / float(x[0])
    except Exception:
        return 0.0


def _key_error_of_a_branch(x):
    try:
        return {"a": 1.0}["b"] if x[0] > 0 else 2.0
    except KeyError:
        return 3.0


def _iterator_that_a_loop_leaves(x):
    it = iter([1.0, 2.0, 3.0, 4.0])
    for i, _ in enumerate(it):
        if x[i] > 0:
            break
    return next(it, -1.0)


def _cycle_in_a_loop(x):
    s, t = itertools.cycle([1.0, -1.0]), 0.0
    for v in x:
        t += v * next(s)
    return t


def _count_in_a_branch(x):
    c = itertools.count()
    if x[0] > 0:
        next(c)
    return next(c)


def _generator_with_a_state(x):
    def g():
        s = 1.0
        while True:
            yield s
            s = -s

    it = g()
    next(it)
    t = 0.0
    for v in x:
        t += v * next(it)
    return t


def _iter_of_an_iterator(x):
    it = iter([1.0, 2.0, 3.0, 4.0])
    for a in iter(it):
        if a > x[0]:
            break
    return next(it, -1.0)


def _generator_that_writes(x):
    def gen(a):
        for k in range(6):
            a[0] += 1
            yield k

    a = np.zeros(1)
    for k in gen(a):
        if k >= x[0]:
            break
    return a[0]


def _class_of_what_may_be_none(x):
    best = None
    for v in x:
        if v > 0:
            best = v
    return 1.0 if isinstance(best, float) else 0.0


def _suppressed(x):
    y = x[0]
    with contextlib.suppress(ValueError):
        if x[0] < 0:
            raise ValueError("no")
        y = 2 * y
    return y


def _large_array_of_numpys(x):
    t = np.repeat(0.0, 30000)
    if x[0] > 0:
        t[0] = 1.0
    return t[0] + 0 * x[0]


def _one_row_several_times(x):
    dp, k = [[0.0] * len(x)] * 3, int(x[0])
    dp[k][0] = 5.0
    return dp[0][0]


REFUSED = [value for name, value in list(globals().items())
           if name.startswith("_") and getattr(value, "__module__", None) == __name__
           and value not in (_root, _scaled_by_a_root, _unpacked_with_a_root, _Point)]  # fmt: skip


@pytest.mark.parametrize("function", REFUSED)
@pytest.mark.parametrize("transform", [zenith.jit, lambda f: zenith.vmap(lambda x: f(x) + 0 * x[0])])
def test_what_values_decide_about_objects_is_refused(function, transform):
    x = np.array([-1.0, 1.0, 2.0, 3.0] * 5)
    with pytest.raises(TraceError):
        transform(function)(x if transform is zenith.jit else x[None])


def test_a_transform_alone_checks_lists_too():
    def two_names(x):
        a = [1.0, 2.0]
        b = a
        if x[0] > 2:
            b = [2.0, 3.0]
        a[0] = 4.0
        return b[0] * x[0]

    for transformed in (zenith.value_and_grad(two_names), zenith.jit(zenith.grad(two_names))):
        with pytest.raises(TraceError, match="whether it is the list of another name"):
            transformed(np.array([1.0]))
