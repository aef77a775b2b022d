"""Returns in loops: what the loop does not assign is returned behind it, and nothing is copied from turn to turn."""

import numpy as np
import pytest

import zenith


def found_or_not(x, limit):
    for i in range(len(x)):
        if x[i] > limit:
            return x * 2, True
    return x, False


def written_meanwhile(x, limit):
    for i in range(len(x)):
        x[i] += 1
        if x[i] > limit:
            return x, limit
    return x, -limit


def of_inner_loops(x, limit):
    for i in range(len(x)):
        for j in range(len(x)):
            if x[i] * x[j] > limit:
                return 1.0
            if x[i] + x[j] < -limit:
                return limit
        if x[i] == 0:
            return -1.0
    return 0.0


def behind_else(x, limit):
    k = 0
    for i in range(len(x)):
        if x[i] > limit:
            return 10
        k += 1
    else:
        k += 100
    return k


def after_break(x, limit):
    k = 0
    for i in range(len(x)):
        if x[i] > limit:
            break
        if x[i] < -limit:
            return -7
        k = i
    return k


def with_the_turn(x, limit):
    for i in range(len(x)):
        if x[i] > limit:
            return i
        if x[i] < -limit:
            return -1
    return len(x)


def endless(x, limit):
    i = 0
    while True:
        if i >= len(x):
            return limit
        if x[i] > limit:
            return -limit
        i += 1


def until(x, limit):
    i = 0
    while i < len(x):
        if x[i] > limit:
            return True
        i += 1
    return False


FUNCTIONS = (
    found_or_not, written_meanwhile, of_inner_loops, behind_else, after_break, with_the_turn, endless, until,
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_way_out_is_pythons(function):
    jitted = zenith.jit(function)
    rng = np.random.default_rng(0)
    for n in (9, 12):
        for limit in (0.01, 0.5, 0.9, 2.0, 50.0):
            for sign in (1.0, -1.0):
                x = sign * rng.random(n)
                x[n // 2] = 0.0
                own, plain = x.copy(), x.copy()
                found, expected = jitted(own, limit), function(plain, limit)
                pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
                for a, b in pairs:
                    np.testing.assert_allclose(a, b, rtol=1e-12)
                np.testing.assert_array_equal(own, plain)


def test_loops_that_python_runs_return_the_same():
    def first(items, x):
        for item in items:
            if item is None:
                return x
        return x * len(items)

    jitted = zenith.jit(first, static_argnames="items")
    for items in ((1, None), (1, 2), ()):
        np.testing.assert_array_equal(jitted(items, np.ones(3)), first(items, np.ones(3)))


def test_a_return_through_with_and_try_comes_after_these():
    log = []

    class Noted:
        def __enter__(self):
            log.append("in")

        def __exit__(self, *_):
            log.append("out")

    def noted(x):
        for _ in range(2):
            with Noted():
                return x + len(log)
        return x

    assert zenith.jit(noted)(1.0) == 2.0 and log == ["in", "out"]


def test_arrays_that_are_returned_are_not_carried():
    jitted = zenith.jit(found_or_not)
    jitted(np.ones(9), 0.5)
    assert "moving" not in jitted.show("plan")
