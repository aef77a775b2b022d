"""Python's functions of sequences, on arrays, ranges and lists of the program's: one program for all sizes."""

import numpy as np
import pytest

import zenith


def truths(x):
    return any(v > 2 for v in x), all(v > -2 for v in x), any(x > 1), all([True, x[0] > 5])


def truths_with_conditions(x):
    return all(v > 0 for v in x if v != 0), any(v > 0 for v in x if v != 0 if v < 1)


def truths_that_stop_early(x):
    n = len(x)
    return all(x[i] <= x[i + 1] for i in range(n - 1)), any(x[i] == x[j] for i, j in [(0, 1), (1, 2)])


def truth_in_a_condition(x):
    while any(abs(v) > 1 for v in x):
        x = x / 2
    return x


def primes(x):
    def is_prime(n):
        return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))

    return [is_prime(k) for k in range(len(x) * 5)]


def in_order(x):
    return sorted(x)


def in_reverse(x):
    return sorted((v for v in x if v > 0), reverse=True)


def numbers_by_a_key(x):
    return sorted(range(len(x)), key=lambda i: x[i]), sorted(range(len(x)), key=lambda i: abs(x[i]), reverse=True)


def pairs(x):
    return sorted([(v * v % 3, v) for v in x])


def pairs_by_a_key(x):
    return sorted(zip(x, 2 * x[::-1]), key=lambda pair: pair[0] + pair[1], reverse=True)


def loop_in_order(x):
    total = 0.0
    for i, v in sorted(enumerate(x), key=lambda item: -item[1]):
        total = total * 0.5 + i * v
    return total


def few(x):
    a, b, c = sorted([x[0], x[1], x[2]])
    return a, b, c, sorted([x[0], x[1], x[2]], key=lambda v: -v)


def sorted_in_place(x):
    points = [(x[i], x[-i]) for i in range(len(x))]
    points.sort(key=lambda point: point[1])
    return points


def best(x):
    return max(x, key=lambda v: -v), min(x, key=lambda v: abs(v - 1.2)), max(range(len(x)), key=lambda i: abs(x[i]))


def best_pair(x):
    return max([(v, i) for i, v in enumerate(x)]), min((v, -i) for i, v in enumerate(x))


def pivots(x):
    a = np.outer(x, x[::-1]) + np.eye(len(x)) * 9
    for k in range(len(x)):
        p = max(range(k, len(x)), key=lambda i: abs(a[i, k]))
        a[[k, p]] = a[[p, k]]
        for i in range(k + 1, len(x)):
            a[i] -= a[k] * (a[i, k] / a[k, k])
    return np.prod(np.diag(a))


def mapped(x):
    return sum(map(lambda v: v * 2, x)), list(map(abs, x)), list(filter(lambda v: v > 0, x))


def of_ranges(x):
    return sum(range(len(x))), list(range(len(x))), max(range(1, len(x)))


FUNCTIONS = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__]


def _same(found, expected):
    if isinstance(expected, (tuple, list)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            _same(a, b)
    else:
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, 1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_is_as_in_python(function):
    compiled, rng = zenith.jit(function), np.random.default_rng(3)
    for n in (4, 7, 3, 5):
        x = rng.integers(-4, 5, n) * 0.5
        _same(compiled(x.copy()), function(x.copy()))
    assert compiled.cache_info().misses == 1


def test_what_tracing_knows_stays_pythons():
    def known(x, names):
        order = sorted(names, key=len)
        assert list(map(str.upper, order)) == ["AB", "ABC"] and max(order, key=len) == "abc"
        assert any(name == "ab" for name in order) and max((1, 2), key=lambda v: -v) == 1
        return x * len(order[0])

    np.testing.assert_array_equal(zenith.jit(known, static_argnums=1)(np.ones(2), ("abc", "ab")), [2.0, 2.0])


def test_lists_that_are_pythons():
    def popped(x):
        kept = [v for v in x]  # noqa: C416
        kept.pop()
        n = len(x)
        order = sorted(range(n), key=lambda i: -x[i])
        return sorted(kept), order, sorted(zip(x, x[::-1]), reverse=True), any(v > 1 for v in x), list(map(abs, x))

    x = np.array([1.0, -3, 2, 0.5, 1, 7, -2, 3, 4, 5, 1])
    _same(zenith.jit(popped)(x), popped(x))


def test_nothing_has_no_best_item():
    def first(x):
        return max(range(len(x)), key=lambda i: x[i])

    def kept(x):
        return min([v for v in x if v > 0], key=lambda v: -v)

    with pytest.raises(ValueError, match=r"max\(\) arg is an empty sequence"):
        zenith.jit(first)(np.zeros(0))
    compiled = zenith.jit(kept)
    assert compiled(np.array([-1.0, 2.0, 3.0])) == 3.0
    with pytest.raises(ValueError, match=r"min\(\) arg is an empty sequence"):
        compiled(np.array([-1.0]))


def test_derivatives_and_batches():
    def lowest(x):
        a, b = sorted(x)[:2]
        return a * a * b + max(x, key=lambda v: -abs(v))

    x = np.array([3.0, -1.0, 2.0, 0.5])
    np.testing.assert_allclose(zenith.grad(lowest)(x), [0, -1.0, 0, 2.0])
    rows = np.stack([x, x[::-1] + 1])
    np.testing.assert_allclose(zenith.vmap(lowest)(rows), [lowest(row) for row in rows])


def test_a_name_of_the_users_own_is_the_users():
    def sorted(x, key):  # noqa: A001
        return x + key

    def own(x):
        return sorted(x, key=1)

    np.testing.assert_array_equal(zenith.jit(own)(np.ones(2)), [2.0, 2.0])
