"""Loops over scalars as one kernel: the same values as the interpreter's, in place, bounded, and interruptible."""

import itertools
import re

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith.backends.cpu.link import link_kernel
from zenith.backends.emit import Printer
from zenith.backends.kernel import Kernel, Loop, TaskLoop
from zenith.backends.lower.sequential.counters import progress
from zenith.backends.lower.sequential.dead_code import without_dead_code
from zenith.backends.lower.sequential.metering import FUEL
from zenith.ir.dims import dim

BACKENDS = ("cpu", "lanes")


def check(function, *args, backend="cpu"):
    """The function's results by a backend and by the interpreter; the loop must be one kernel."""
    jitted = zenith.jit(function, backend=backend)
    found, wanted = jitted(*args), zenith.jit(function, backend="reference")(*args)
    for a, b in zip(_list(found), _list(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    plan = jitted.lower(*args).compile().as_text("plan")
    assert "launch sequential_loop" in plan and "loop:" not in plan and "moving" not in plan, plan
    return found


def _list(value):
    return value if isinstance(value, tuple) else (value,)


def set_at(x, index, value):
    """A copy of an array with another element."""
    y = znp.array(x)
    y[index] = value
    return y


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_are_variables(backend):
    def fibonacci(n):
        return zenith.while_loop(lambda s: s[2] < n, lambda s: (s[1], s[0] + s[1], s[2] + 1), (0, 1, 0))[:2]

    assert _list(check(fibonacci, 50, backend=backend)) == (12586269025, 20365011074)


@pytest.mark.parametrize("backend", BACKENDS)
def test_complex_numbers_are_two_variables(backend):
    def orbit(c):
        return zenith.fori_loop(0, 12, lambda i, z: z * z + c, 0j)

    check(orbit, np.complex128(0.3 + 0.2j), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_arrays_change_in_place(backend):
    def sweep(u, f):
        def step(i, u):
            return set_at(u, i, 0.5 * (u[i - 1] + u[i + 1] - f[i]))

        return zenith.fori_loop(1, u.shape[0] - 1, step, u)

    u, f = np.random.default_rng(0).random((2, 23))
    before = u.copy()
    check(sweep, u, f, backend=backend)
    np.testing.assert_array_equal(u, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_and_branches_in_loops(backend):
    def shortest(d):
        n = d.shape[0]

        def relax(k, i, j, d):
            through = d[i, k] + d[k, j]
            return zenith.cond(through < d[i, j], lambda: set_at(d, (i, j), through), lambda: d)

        def row(k, i, d):
            return zenith.fori_loop(0, n, lambda j, d: relax(k, i, j, d), d)

        return zenith.fori_loop(0, n, lambda k, d: zenith.fori_loop(0, n, lambda i, d: row(k, i, d), d), d)

    check(shortest, np.random.default_rng(0).random((7, 7)), backend=backend)


def test_elements_are_exchanged():
    """Both are read ahead of the first write."""

    def rotate(x):
        def step(i, x):
            a, b = x[i], x[i + 1]
            return set_at(set_at(x, i, b), i + 1, a)

        return zenith.fori_loop(0, x.shape[0] - 1, step, x)

    np.testing.assert_array_equal(check(rotate, np.arange(9.0)), np.roll(np.arange(9.0), -1))


def test_an_array_that_is_read_as_it_was_is_the_drivers():
    def difference(x):
        def step(i, state):
            x, total = state
            y = set_at(x, i, 2 * x[i])
            return y, total + zenith.fori_loop(0, x.shape[0], lambda j, t: t + x[j] - y[j], 0.0)

        return zenith.fori_loop(0, x.shape[0], step, (x, 0.0))

    jitted = zenith.jit(difference)
    x = np.random.default_rng(0).random(8)
    y, total = jitted(x)
    np.testing.assert_allclose(y, 2 * x)
    np.testing.assert_allclose(total, -x.sum())


def test_results_of_turns_are_stacked_in_either_order():
    def sums(x, reverse):
        return zenith.scan(lambda s, v: (s + v, (s * v, s - v)), 0.0, x, reverse=reverse)

    x = np.random.default_rng(0).random(11)
    for reverse in (False, True):
        found = zenith.jit(lambda x, r=reverse: sums(x, r))(x)
        wanted = zenith.jit(lambda x, r=reverse: sums(x, r), backend="reference")(x)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
        for a, b in zip(found[1], wanted[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("turns", [0, 1, FUEL - 1, FUEL, 2 * FUEL + 3])
def test_a_kernel_that_has_used_its_fuel_goes_on(turns):
    count = zenith.jit(lambda n: zenith.fori_loop(0, n, lambda i, s: s + i % 7, 0))
    assert count(turns) == sum(range(7)) * (turns // 7) + sum(range(turns % 7))
    until = zenith.jit(lambda n: zenith.while_loop(lambda s: s[0] != n, lambda s: (s[0] + 1, s[1] ^ s[0]), (0, 0))[0])
    assert until(turns) == turns

    def nested(n):
        def row(i, s):
            return zenith.while_loop(lambda t: t[0] * t[0] < i, lambda t: (t[0] + 1, t[1] + 1), (0, s))[1]

        return zenith.fori_loop(0, n, row, 0)

    n = turns // 512
    assert zenith.jit(nested)(n) == sum(np.ceil(np.sqrt(np.arange(n))).astype(int))


def test_the_number_that_a_branch_is_chosen_by_is_clamped():
    """Also where it is that of a graph that no front end made."""
    cases = [lambda s: s + 1, lambda s: s + 2, lambda s: s + 3]
    chosen = zenith.jit(lambda k: zenith.fori_loop(0, 1, lambda i, s: zenith.switch(k, cases, s), 0.0))
    for index, expected in ((-5, 1.0), (0, 1.0), (1, 2.0), (2, 3.0), (7, 3.0)):
        assert chosen(index) == expected


def test_no_turn_gives_the_start():
    x = np.arange(3.0)
    assert check(lambda x: zenith.fori_loop(0, x.shape[0] - 3, lambda i, s: s + x[i], 1.0), x) == 1.0
    np.testing.assert_array_equal(zenith.jit(lambda x: zenith.fori_loop(5, 2, lambda i, y: set_at(y, i, 0.0), x))(x), x)


def test_an_index_outside_of_an_array_is_an_error():
    walk = zenith.jit(lambda x, n: zenith.fori_loop(0, n, lambda i, s: s + x[i], 0.0))
    assert walk(np.ones(4), 4) == 4.0
    with pytest.raises(zenith.errors.OutOfBoundsError, match="test_sequential"):
        walk(np.ones(4), 5)
    assert walk(np.ones(4), 4) == 4.0


def test_what_a_branch_does_not_run_is_not_checked():
    def last_below(x, limit):
        def going(i):
            return zenith.cond(i >= 0, lambda: x[i] > limit, lambda: np.False_)

        return zenith.while_loop(going, lambda i: i - 1, x.shape[0] - 1)

    assert zenith.jit(last_below)(np.arange(1.0, 6.0), 0.0) == -1


def _while_nodes(function, *args):
    graph = zenith.jit(function).lower(*args).compile()._program.origin.lowered.graph
    return [node for node in graph.walk() if node.primitive.name == "while_loop"]


@pytest.mark.parametrize(
    ("going", "step", "known"),
    [
        (lambda i, n: i < n, 1, True), (lambda i, n: n > i, 2, True), (lambda i, n: i >= n, -1, True),
        (lambda i, n: (i < n) & (i * i < 50), 1, True), (lambda i, n: i < n, -1, False),
        (lambda i, n: i != n, 1, False), (lambda i, n: (i < n) | (i > 100), 1, False), (lambda i, n: i > n, 1, False),
    ],
)  # fmt: skip
def test_which_loops_have_counters(going, step, known):
    def count(n):
        return zenith.while_loop(lambda i: going(i, n), lambda i: i + step, 0)

    (node,) = _while_nodes(count, np.int64(0))
    assert (progress(node) is not None) == known


def test_turns_that_the_condition_counts_are_a_counted_loop():
    def ranges(x, starts):
        def row(i, s):
            def turn(t):
                return t[0] + 1, t[1] + x[t[0]]

            stop = starts[i + 1]
            return zenith.while_loop(lambda t: t[0] < stop, turn, (starts[i], s))[1]

        return zenith.fori_loop(0, starts.shape[0] - 1, row, 0.0)

    x, starts = np.random.default_rng(0).random(20), np.array([0, 3, 3, 2, 11, 20])
    expected = sum(x[a:b].sum() for a, b in itertools.pairwise(starts))
    np.testing.assert_allclose(zenith.jit(ranges)(x, starts), expected)
    assert "while" not in _text(ranges, x, starts)


def test_random_loops_are_the_interpreters():
    rng = np.random.default_rng(7)
    for _ in range(12):
        a, b, c = (int(v) for v in rng.integers(1, 6, 3))

        def program(x, n, a=a, b=b, c=c):
            def turn(i, state):
                x, s, t = state
                j = (i * a + b) % x.shape[0]
                s = zenith.cond(x[j] > t, lambda: s + x[j] * c, lambda: s - t)
                x = set_at(x, j, x[(j + 1) % x.shape[0]] * 0.5 + s * 0.01)
                t = zenith.fori_loop(0, j, lambda k, t: t * 0.9 + x[k] * 0.1, t)
                return x, s, t

            return zenith.fori_loop(0, n, turn, (x, 0.0, 0.5))

        check(program, rng.random(9), 25)


def _text(function, *args):
    return zenith.jit(function).lower(*args).compile().as_text("kernels")


@pytest.mark.parametrize(("turns", "is_metered"), [(3, False), (60, True)])
def test_static_loops_in_each_other_are_metered_for_all_their_turns(turns, is_metered):
    def inner(x, s):
        return zenith.fori_loop(0, turns, lambda j, t: zenith.fori_loop(0, turns, lambda k, u: u * 0.5 + x[k], t), s)

    def program(x):
        return zenith.fori_loop(0, turns, lambda i, s: inner(x, s), 0.0)

    assert ("interrupted(" in _text(program, np.ones(64))) == is_metered


INSIDE = {
    "counted": lambda x: zenith.fori_loop(0, x.shape[0], lambda i, s: s + x[i], 0.0),
    "from one on": lambda x: zenith.fori_loop(1, x.shape[0], lambda i, s: s + x[i] - x[i - 1], 0.0),
    "two counters": lambda x: zenith.fori_loop(
        0, x.shape[0] - 3, lambda i, s: zenith.fori_loop(0, 4, lambda j, t: t + x[i + j], s), 0.0
    ),
    "a while loop": lambda x: zenith.while_loop(
        lambda s: s[0] < x.shape[0], lambda s: (s[0] + 1, s[1] + x[s[0]]), (0, 0.0)
    )[1],
    "a branch": lambda x: zenith.fori_loop(
        0, 2 * x.shape[0], lambda i, s: zenith.cond(i < x.shape[0], lambda: s + x[i], lambda: s), 0.0
    ),
    "a branch that does not run": lambda x: zenith.fori_loop(
        0, x.shape[0], lambda i, s: zenith.cond(i <= 2, lambda: s, lambda: s + x[i - 3]), 0.0
    ),
    "a branch of another loop's number": lambda x: zenith.fori_loop(
        0,
        x.shape[0],
        lambda i, s: zenith.fori_loop(
            0, x.shape[0], lambda j, t: zenith.cond(i + j < x.shape[0], lambda: t + x[i + j], lambda: t), s
        ),
        0.0,
    ),
    "downwards": lambda x: zenith.while_loop(
        lambda s: s[0] >= 0, lambda s: (s[0] - 1, s[1] * 0.5 + x[s[0]]), (x.shape[0] - 1, 0.0)
    )[1],
    "a triangle": lambda x: zenith.fori_loop(
        0,
        x.shape[0],
        lambda i, s: zenith.while_loop(lambda t: t[0] < i + 1, lambda t: (t[0] + 1, t[1] + x[t[0]] * x[i]), (0, s))[1],
        0.0,
    ),
}


def _halving(x):
    """Sums of pairs in the first half, differences in the second, then of the first half alone."""
    t, n, s = np.zeros_like(x), len(x), 0.0
    while n > 1:
        n = n // 2
        for i in range(n):
            t[i] = x[2 * i] + x[2 * i + 1]
            t[n + i] = x[2 * i] - x[2 * i + 1]
        for i in range(2 * n):
            x[i] = t[i]
        s += t[n]
    return s


def _neighbours(x):
    """On a circle, forwards and backwards, and any number of times around."""
    n, s = len(x), 0.0
    for i in range(n):
        s = 0.5 * s + x[(i + 1) % n] * x[(i - 1) % n] - x[7 * i % n] + x[(3 - i) % n]
    return s


INSIDE |= {"halves": _halving, "a circle": _neighbours}


@pytest.mark.parametrize("name", INSIDE)
def test_indices_that_are_proven_to_be_inside_are_not_checked(name):
    for n in (5, 9):
        x = np.random.default_rng(0).random(n)
        y = x.copy()
        found = zenith.jit(INSIDE[name])(y)
        z = x.copy()
        np.testing.assert_allclose(found, zenith.jit(INSIDE[name], backend="reference")(z), rtol=1e-12)
        np.testing.assert_array_equal(y, z)
    text = _text(INSIDE[name], x)
    assert "checked(" not in text and "wrapped(" not in text


def _moved(x, holds):
    """Down from the first element on as long as a condition holds."""

    def loop(x):
        i = 0
        while holds(i):
            i -= 1
        return i

    return zenith.jit(loop)(x)


OUTSIDE = {
    "one too far": lambda x: zenith.fori_loop(0, x.shape[0], lambda i, s: s + x[i + 1], 0.0),
    "twice as far": lambda x: zenith.fori_loop(0, x.shape[0], lambda i, s: s + x[2 * i], 0.0),
    "a while loop": lambda x: zenith.while_loop(
        lambda s: s[0] <= x.shape[0], lambda s: (s[0] + 1, s[1] + x[s[0]]), (0, 0.0)
    )[1],
    "below the start": lambda x: zenith.while_loop(
        lambda s: s[0] >= -x.shape[0] - 1, lambda s: (s[0] - 1, s[1] + x[s[0]]), (-1, 0.0)
    )[1],
    "two counters": lambda x: zenith.fori_loop(
        0, x.shape[0], lambda i, s: zenith.fori_loop(0, 2, lambda j, t: t + x[i + j], s), 0.0
    ),
    "a branch that says something else": lambda x: zenith.fori_loop(
        0, 9, lambda i, s: zenith.cond(i < 9, lambda: s + x[i], lambda: s), 0.0
    ),
    "where a branch does not run": lambda x: zenith.fori_loop(
        0, 9, lambda i, s: zenith.cond(i < x.shape[0], lambda: s, lambda: s + x[i]), 0.0
    ),
    "a condition that says something else": lambda x: _moved(x, lambda i: (i >= -9) and (x[i] > 0)),
    "the counter of a loop that has ended": lambda x: x[
        zenith.while_loop(lambda i: i < x.shape[0], lambda i: i + 1, 0)
    ],
    "its use in a loop around": lambda x: zenith.fori_loop(
        0, 2, lambda k, s: s + x[zenith.while_loop(lambda i: i < x.shape[0], lambda i: i + 1, k)], 0.0
    ),
}


def _divided(x, start, last, at):
    n, s = start, 0.0
    while n > last:
        s += x[at(n)]
        n //= 2
    return s


OUTSIDE |= {
    "a number that is divided": lambda x: _divided(x, len(x), 0, lambda n: n),
    "twice a quotient and one more": lambda x: _divided(x, len(x), 0, lambda n: 2 * (n // 2) + 1),
    "a quotient that is too large": lambda x: _divided(x, 4 * len(x), 1, lambda n: n // 2),
    "a remainder and one more": lambda x: zenith.fori_loop(0, 9, lambda i, s: s + x[i % len(x) + 1], 0.0),
    "a remainder of another number": lambda x: zenith.fori_loop(0, 9, lambda i, s: s + x[i % (len(x) + 1)], 0.0),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_indices_that_may_be_outside_are_checked(name):
    with pytest.raises(zenith.errors.OutOfBoundsError):
        zenith.jit(OUTSIDE[name])(np.ones(6))


def test_negative_indices_count_from_the_end():
    def backwards(x):
        return zenith.fori_loop(0, x.shape[0], lambda i, s: s * 0.5 + x[-1 - i], 0.0)

    x = np.random.default_rng(0).random(7)
    expected = 0.0
    for value in x[::-1]:
        expected = expected * 0.5 + value
    np.testing.assert_allclose(zenith.jit(backwards)(x), expected)


def rotated(x, w):
    """Complex elements, exchanged and written; a complex literal in a loop."""
    for i in range(len(x) // 2):
        f = 1.0 + 0j
        for _ in range(i):
            f = f * w
        x[2 * i], x[2 * i + 1] = x[2 * i + 1] * f, x[2 * i] + f
    return x[0]


def test_complex_arrays_change_in_place():
    x = np.random.default_rng(0).random(12) + 1j
    plain, w = x.copy(), 0.8 + 0.1j
    jitted = zenith.jit(rotated)
    assert jitted(x, w) == rotated(plain, w)
    np.testing.assert_allclose(x, plain, rtol=1e-12)
    plan = jitted.lower(x, w).compile().as_text("plan")
    assert "sequential_loop" in plan and "moving" not in plan


WRITES = {
    "a slice": lambda x, u, i: _written(x, np.s_[1:3, ::2], u),
    "a row": lambda x, u, i: _written(x, i[0], u[0, 0]),
    "rows": lambda x, u, i: _written(x, i, x[:2] * 2),
    "elements": lambda x, u, i: _written(x, (i, i), u[0]),
    "a slice that begins anywhere": lambda x, u, i: zenith.dynamic_update_slice(x, u, (i[0], i[1])),
    "a sum": lambda x, u, i: _added(x, (i, i), u[0]),
}


def _written(x, where, value):
    y = np.array(x)
    y[where] = value
    return y


def _added(x, where, value):
    y = np.array(x)
    np.add.at(y, where, value)
    return y


@pytest.mark.parametrize("name", WRITES)
def test_writes_into_complex_arrays(name):
    rng = np.random.default_rng(0)
    x, u = rng.random((4, 4)) + 1j * rng.random((4, 4)), rng.random((2, 2)) - 1j
    for i in (np.array([0, 2]), np.array([2, 1])):
        found = zenith.jit(WRITES[name])(x, u, i)
        np.testing.assert_allclose(found, WRITES[name](x, u, i), rtol=1e-12)
        looped = zenith.jit(lambda x, u, i: zenith.fori_loop(0, 3, lambda _, y: WRITES[name](y, u, i), x))(x, u, i)
        expected = x
        for _ in range(3):
            expected = WRITES[name](expected, u, i)
        np.testing.assert_allclose(looped, expected, rtol=1e-12)


def _recurrence(x, y):
    for i in range(1, len(x)):
        x[i] = 0.5 * x[i - 1] + y[i]


def _backwards(x, y):
    for i in range(len(x) - 2, -1, -1):
        x[i] = 0.5 * x[i + 1] + y[i]


def _one_element(x, y):
    for i in range(1, len(x)):
        x[0] = x[0] * 0.5 + x[i]


def _read_before_and_after(x, y):
    for i in range(1, len(x)):
        before = x[i - 1]
        x[i] = before + y[i]
        y[i] = x[i - 1] * x[i]


def _stored_sometimes(x, y):
    for i in range(1, len(x)):
        if y[i] > 0:
            x[i] = x[i - 1] + 1


def _read_sometimes(x, y):
    for i in range(1, len(x)):
        s = 0.25
        if y[i] > 0:
            s = x[i - 1]
        x[i] = s + 1


def _stored_twice(x, y):
    for i in range(1, len(x)):
        x[i] = x[i - 1] + y[i]
        x[i - 1] = 7.0


def _a_carried_number(x, y):
    s = 1.0
    for i in range(1, len(x)):
        s = x[i - 1] + s
        x[i] = s
        s = s * 0.5 + y[i]


def _rows(x, y):
    z = np.zeros((len(x), len(y)))
    for i in range(1, len(x)):
        for j in range(1, len(y)):
            z[i, j] = z[i - 1, j] + z[i, j - 1] * x[i] + z[i - 1, j - 1] * y[j]
    return z


def _joined(x, y):
    for i in range(1, len(x)):
        np.add.at(x, i, x[i - 1])


def _not_in_the_first_turn(x, y):
    for i in range(len(x)):
        s = 0.0
        if i > 0:
            s = np.sin(x[i - 1])
        x[i] = s + y[i]


REPLACED = (_joined, _recurrence, _backwards, _one_element, _read_before_and_after, _a_carried_number, _rows)


@pytest.mark.parametrize(
    "function",
    [*REPLACED, _stored_sometimes, _stored_twice, _not_in_the_first_turn, _read_sometimes],
    ids=lambda function: function.__name__,
)
def test_what_the_turn_before_has_stored_stays_in_a_variable(function):
    compiled = zenith.jit(function)
    for n in (1, 2, 3, 17):
        x, y = np.random.default_rng(n).normal(size=(2, n))
        plain, own = (x.copy(), y.copy()), (x.copy(), y.copy())
        expected, found = function(*plain), compiled(*own)
        for a, b in zip((*own, found), (*plain, expected), strict=True):
            if b is not None:
                np.testing.assert_allclose(a, b, 1e-12)
    assert ("last = " in _text(function, x, y)) == (function in REPLACED)


def test_indices_from_arrays_may_count_from_the_end():
    gathered = zenith.jit(lambda x, i: zenith.fori_loop(0, len(i), lambda k, s: s * 2 + x[i[k]], 0.0))
    x = np.arange(1.0, 6)
    for i in ([0, 4], [-1, -5], [3, -2, 0, -4]):
        expected = 0.0
        for k in i:
            expected = expected * 2 + x[k]
        assert gathered(x, np.array(i)) == expected
    for i in ([5], [0, -6], [2, 2**40], [-(2**62)]):
        with pytest.raises(zenith.errors.OutOfBoundsError, match="test_sequential"):
            gathered(x, np.array(i))
    text = _text(lambda x, i: zenith.fori_loop(0, len(i), lambda k, s: s * 2 + x[i[k]], 0.0), x, np.array([1]))
    assert "wrapped(" in text and "where(" not in text


def test_what_is_left_of_a_loop_is_no_number_of_turns():
    def remaining(x, starts, n):
        for r in range(len(starts)):
            i = starts[r]
            while i < n:
                x[r] += n - i
                i += 1
        return x

    def after(x, starts, n):
        for r in range(len(starts)):
            i = starts[r]
            while i < n:
                i += 1
            x[r] = n - i
        return x

    for function in (remaining, after):
        args = np.array([1, 2, 3]), 5
        np.testing.assert_array_equal(zenith.jit(function)(np.zeros(3), *args), function(np.zeros(3), *args))


def test_integers_that_are_read_twice_are_looked_at_once():
    def fibonacci(x, n):
        a, b = n, n
        for _ in (0,) * 60:
            a, b = b, a + b
        for i in range(len(x)):
            x[i] = x[i] + b
        return x

    np.testing.assert_array_equal(zenith.jit(fibonacci)(np.ones(3), 1), fibonacci(np.ones(3), 1))


def _windows(image, kernel):
    out, k = np.zeros((image.shape[0] - len(kernel) + 1, image.shape[1] - len(kernel) + 1)), len(kernel)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            piece = image[i : i + k, j : j + k]
            out[i, j] = np.sum(piece * kernel) + np.max(piece) - np.mean(piece) * piece[0, 0]
    return out


def _windows_in_place(image, kernel):
    k = len(kernel)
    for i in range(image.shape[0] - k + 1):
        for j in range(image.shape[1] - k + 1):
            image[i, j] = np.sum(image[i : i + k, j : j + k] * kernel)
    return image


@pytest.mark.parametrize(("function", "is_parallel"), [(_windows, True), (_windows_in_place, False)])
def test_windows_are_reduced_in_parallel_turns(function, is_parallel):
    rng, compiled = np.random.default_rng(0), zenith.jit(function)
    for n, k in ((9, 3), (12, 5), (7, 1), (4, 4)):
        image, kernel = rng.random((n, n + 2)), rng.random((k, k))
        expected = function(image.copy(), kernel)
        np.testing.assert_allclose(compiled(image, kernel), expected, rtol=1e-12)
    assert ("parallel_loop" in _text(function, image, kernel)) == is_parallel


def test_a_loop_of_which_nothing_is_used_compiles():
    tasks = TaskLoop("turn", dim(9), None, (), (), False)
    kernel = Kernel("kernel", "nothing", (), (), dim(9), dim(0), (tasks,))
    assert link_kernel(kernel.name, Printer().kernel(kernel)).address
    inside = Kernel("kernel", "nothing", (), (), dim(9), dim(0), (Loop("i", dim(0), dim(9), False, ()), tasks))
    assert without_dead_code(inside.body) == (tasks,)


def test_windows_that_are_written_are_the_drivers():
    def smeared(image, k):
        out = np.zeros(image.shape)
        for i in range(image.shape[0] - k):
            for j in range(image.shape[1] - k):
                out[i : i + k, j : j + k] += image[i : i + k, j : j + k] * np.sum(image[i : i + k, j : j + k])
        return out

    image, compiled = np.random.default_rng(0).random((6, 7)), zenith.jit(smeared)
    for k in (1, 2, 3):
        np.testing.assert_allclose(compiled(image, k), smeared(image, k), rtol=1e-12)


def test_what_a_branch_has_proven_holds_in_it_alone():
    def quotient(x):
        s = 0.0
        for i in range(len(x)):
            if i >= 3:
                s = 0.5 * s + x[(i - 3) // 2]
            s = 0.5 * s + x[i - 3]
        return s

    def remainder(x):
        s = 0.0
        for i in range(len(x)):
            if i >= 3:
                s = 0.5 * s + x[4 % (i - 2) % len(x)]
            s = 0.5 * s + x[i - 3]
        return s

    x = np.arange(1.0, 21.0)
    for function in (quotient, remainder):
        np.testing.assert_array_equal(zenith.jit(function)(x), function(x))


def test_counters_of_loops_in_each_other_have_names_of_their_own():
    def outer(x):
        s = 0.0
        for i in range(len(x)):
            for _ in range(1, len(x)):
                for _ in range(1, len(x)):
                    s = 0.5 * s + x[i]
        return s

    def middle(x, y):
        for i in range(len(x)):
            for j in range(2):
                for k in range(len(y)):
                    y[k] = 0.5 * y[k] + x[i] - x[j]
        return y

    x, y = np.arange(1.0, 20.0), np.arange(40.0)
    assert zenith.jit(outer)(x) == outer(x)
    np.testing.assert_array_equal(zenith.jit(middle)(x, y.copy()), middle(x, y.copy()))


def test_a_loop_in_another_pays_for_the_most_turns_before():
    def sunk(x):
        for i in range(1, len(x)):
            key, j = x[i], i - 1
            while j >= 0 and x[j] > key:
                x[j + 1] = x[j]
                j -= 1
            x[j + 1] = key
        return x

    x = np.random.default_rng(0).random(50)
    np.testing.assert_array_equal(zenith.jit(sunk)(x.copy()), np.sort(x))
    assert re.search(r"wrapping_sub\(fuel, \(?turn", _text(sunk, x)), _text(sunk, x)
