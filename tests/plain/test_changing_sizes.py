"""Arrays whose sizes differ between the sides of a branch, or from turn to turn of a loop; what a branch selects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import zenith
from zenith.errors import TraceError
from zenith.trace.size_relations import VaryingSize

STEP = 1e-6


def rows(x):
    if x[0] > 0:
        y = x[x > 0.3]
    else:
        y = x * 2
    return (y**2).sum(), y


def early(x):
    if x[0] > 0:
        return x[x > 0]
    return x[1:]


def chosen(x):
    where = np.nonzero(x > 0)[0] if x[0] > 0 else np.nonzero(x < 0)[0]
    return x[where].sum(), len(where)


def thinned(x):
    y = x
    for k in range(12):
        y = y[y > -2 + 0.1 * k] * 1.1
    return y.sum(), y


def until_few(x):
    turns = 0
    while len(x) > 2:
        x = x[x >= x.mean()]
        x = x + 0.1 * x[::-1]
        turns += 1
    return x, turns


def several_of_one_size(x):
    y, z, at = x, 2 * x, np.arange(len(x))
    while len(y) > 3:
        keep = y + z > 3 * y.mean()
        y, z, at = y[keep], z[keep], at[keep]
    return y, z, at


def two_sizes(x):
    a, b = x, x
    for k in range(len(x)):
        a = a[a > -1 + 0.05 * k]
        b = b[b < 1 - 0.05 * k]
    return np.concatenate([a, b]), len(a) - len(b)


def appended(x):
    found = np.array([1.0])
    for k in range(len(x)):
        if x[k] > 0:
            found = np.append(found, x[k] ** 2 * found[-1])
    return found


def appended_pairs(x):
    found = np.zeros(0)
    for v in x:
        found = np.concatenate([found, [v, 2 * v]])
    return found


def last_of_each(x):
    total = 0.0
    y = x
    while len(y) > 2:
        y = y[y > y[:2].min()]
        if not len(y) < 2:
            total += y[1] * y.min()
    return total


def rows_of_a_matrix(x):
    a = np.outer(x, x)
    while a.shape[0] > 1:
        a = a[a[:, 0] > a[:, 0].mean() - 0.1 * a.shape[0]]
        a = a[:-1]
    return a.shape[0], a.sum()


def columns(x):
    a = np.outer(x, x)
    for _ in range(10):
        a = a[:, a[0] > a[0].min()] if a.shape[1] > 1 else a
    return a


def halves(x):
    while x.size > 1:
        middle = x.size // 2
        x = x[middle:] if x[middle] < 0.2 else x[:middle]
    return x[0]


def nested(x):
    total = 0.0
    for k in range(len(x)):
        y = x[x > x[k]]
        while len(y) > 1:
            y = y[y > y.mean()]
        total += y.sum()
    return total


def few_of_them(x):
    y = x[x > 0]
    count = len(y)
    return count in (0, 2, 3, 5), count not in (1, 4), np.r_[y, x[0]], np.c_[y, y]


def every_second(x):
    y = x[x > -1]
    while len(y) > 2:
        y = y[::2]
    for k in range(len(y)):
        y = np.append(y, x[k])
    return y


def returned_from_a_loop(x):
    for k in range(len(x)):
        if x[k] > 0.5:
            return x[x > x[k]]
    return x


def returned_from_a_while(x):
    k = 0
    while k < len(x):
        if x[k] > 0.9:
            y = x[x > 0]
            return y * 2
        k += 1
    return x[1:]


def left_by_a_loop(x):
    for k in range(3, len(x)):
        y = x[x > x[k]]
        z = y * 2
    return z.sum() + len(y), y


def left_by_a_while(x):
    k = 0
    while True:
        y = x[x > 0.1 * k]
        k += 1
        if len(y) < 4:
            break
    return y, k


def written_in_a_branch(x):
    y = x[x > -1]
    if x[0] > 0:
        y[0] = 9.0 * x[1]
        y *= 2
    return y.sum(), y


def written_in_a_loop(x):
    y = x[x > -1]
    z = y
    for k in range(len(y)):
        if x[k] > 0:
            y[k] *= 2
            z[0] -= x[k]
    return y, z


def selected_from_a_selection(x):
    y = x[x > -1]
    if x[0] > 0:
        y[y > 0.5] = 1.0
        y = y[y != 1.0]
    return y


def sorted_in_a_branch(x):
    y = x[x > -1]
    other = y.copy()
    if x[0] > 0:
        y.sort()
        if x[1] > 0:
            other[0] = 7.0
    return y, other


PROGRAMS = [
    rows, early, chosen, thinned, until_few, several_of_one_size, two_sizes, appended, appended_pairs, last_of_each,
    rows_of_a_matrix, columns, halves, nested, few_of_them, every_second, returned_from_a_loop, returned_from_a_while,
    left_by_a_loop, left_by_a_while, written_in_a_branch, written_in_a_loop, selected_from_a_selection,
    sorted_in_a_branch,
]  # fmt: skip


def samples(n):
    """Two arrays, of which the first begins with a positive number, and the second with a negative one."""
    found = np.random.default_rng(n).standard_normal((2, n))
    found[:, 0] = np.abs(found[:, 0]) * [1, -1]
    return found


def same(found, expected):
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for one, other in pairs:
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, 1e-12, 1e-12)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_one_program_has_all_sizes(function, backend):
    compiled = zenith.jit(function, backend=backend)
    for n in (9, 12, 17, 17, 17, 17):
        for x in samples(n):
            given = x.copy()
            same(compiled(given), function(x.copy()))
            np.testing.assert_array_equal(given, x)
    assert compiled.cache_info().misses == 1, str(compiled.cache_info())


def total(function):
    def loss(x):
        found = function(x)
        leaves = found if isinstance(found, tuple) else (found,)
        return sum(np.sum(np.sin(leaf)) for leaf in leaves)

    return loss


ENDLESS = (
    until_few, several_of_one_size, rows_of_a_matrix, halves, nested, last_of_each, every_second, returned_from_a_loop,
    returned_from_a_while, left_by_a_while,
)  # fmt: skip
COUNTED = [f for f in PROGRAMS if f not in ENDLESS]


@pytest.mark.parametrize("function", COUNTED)
def test_derivatives_are_those_of_finite_differences(function):
    loss = total(function)
    for x in samples(8):
        found = zenith.grad(zenith.jit(loss))(x)
        step = np.random.default_rng(0).standard_normal(8)
        expected = (loss(x + STEP * step) - loss(x - STEP * step)) / (2 * STEP)
        np.testing.assert_allclose(found @ step, expected, 1e-4, 1e-6)


@pytest.mark.parametrize("function", PROGRAMS)
def test_examples_have_sizes_of_their_own(function):
    loss, x = total(function), samples(9)
    np.testing.assert_allclose(zenith.jit(zenith.vmap(loss))(x), [loss(row.copy()) for row in x], 1e-12)


def checked_by_its_condition(x):
    y = x
    total = np.zeros(40)
    while len(y) > 11:
        total[len(y) - 12] += y[11]
        y = y[4:]
        y = y[y > -0.5]
    return total


def emptied(x):
    y, total = x, 0.0
    while len(y) > 0:
        total += y.max() + y[0] + y[len(y) // 2]
        y = y[1:]
        y = y[y > 0.2]
    return total


@pytest.mark.parametrize("function", [checked_by_its_condition, emptied])
def test_what_a_condition_says_holds_for_each_example(function):
    """An example that has ended is not computed any more: nothing in a turn is checked that the condition says."""
    x = np.random.default_rng(0).standard_normal((8, 40))
    x[::2], x[1::2] = -np.abs(x[::2]) - 1, np.abs(x[1::2])
    np.testing.assert_allclose(zenith.jit(zenith.vmap(function))(x), [function(row) for row in x], 1e-12)


def in_a_tuple(x):
    for k in range(len(x)):
        y = x[x > x[k]]
        if y.sum() > 1.7:
            return y, k
    return x, -1


def of_two(x):
    if x[0] > 0:
        pair = (x[x > 0], x[x < 0])
    else:
        pair = (x[x < 0], x[x > 0])
    return pair[0].sum(), pair[1]


def named(x):
    if x[0] > 0:
        found = {"kept": x[x > 0.5], "of": 1}
    else:
        found = {"kept": x, "of": 0}
    return found["kept"], found["of"]


@pytest.mark.parametrize("function", [in_a_tuple, of_two, named])
def test_selections_in_tuples_and_dicts(function):
    compiled = zenith.jit(function)
    for n in (6, 9, 14):
        for x in samples(n):
            same(compiled(x), function(x))


def items_are_read_first(x):
    y, s = x.copy(), 0.0
    for a, b in itertools.combinations(y, 2):
        y[0] += 1.0
        s += a * b
    for a, b in itertools.product(y, y):
        y[-1] += 1.0
        s += a * b
    return s, y


def an_iterator_ends(x):
    n, s = len(x), 0.0
    pairs = np.ndindex(n, n)
    for i, j in pairs:
        s += x[i] * x[j]
    for i, j in pairs:
        s += 100 * x[i] * j
    return s


class Basket:
    """Methods that have the names of itertools' functions."""

    def product(self):
        return [1, 2, 3]

    def combinations(self, n=2):
        return [(n, 2), (2, 3)]


def of_other_owners(x):
    basket, s = Basket(), 0.0
    for p in basket.product():
        s += p * x[0]
    for p, q in basket.combinations(n=5):
        s += p * q * x[1]
    return s


def starred(x):
    a, s, bounds = np.outer(x, x), 0.0, (1, 4)
    for i, j in np.ndindex(*a.shape):
        s += a[i, j] * (i - 2 * j)
    for p, q in zip(*[(1, 2), (3, 4)], strict=True):
        s += p * q * x[0]
    for p in range(*bounds):
        s += p * x[1]
    for p in itertools.product(*[range(2), range(3)]):
        s += p[0] * p[1]
    for _ in itertools.product():
        s += 1
    for i, j in itertools.combinations(range(len(x)), r=2):
        s += a[i, j]
    return s


@pytest.mark.parametrize("function", [items_are_read_first, an_iterator_ends, of_other_owners, starred])
def test_iterators_of_numpy_and_itertools(function):
    for n in (5, 12):
        x = samples(n)[0]
        same(zenith.jit(function)(x), function(x))


def test_files_and_ejected_programs(tmp_path):
    compiled, (x, _) = zenith.jit(total(thinned)), samples(17)
    expected = compiled(x)
    compiled.save(tmp_path / "thinned.zenith")
    assert zenith.load(tmp_path / "thinned.zenith")(x) == expected
    compiled.eject(tmp_path / "thinned.py")
    scope = {}
    exec(compile((tmp_path / "thinned.py").read_text(), "thinned.py", "exec"), scope)
    assert scope["loss"](x) == expected


def endless(x):
    found = np.zeros(0)
    while x.sum() > 0:
        found = np.append(found, x[0])
        x = x - 1
    return found


def doubled(x):
    while x.sum() < 100:
        x = np.append(x, x)
    return x


@pytest.mark.parametrize(("function", "name"), [(endless, "found"), (doubled, "x")])
def test_a_size_without_a_bound_is_refused_by_name(function, name):
    with pytest.raises(VaryingSize, match=f"the size of {name} grows from turn to turn of a loop"):
        zenith.jit(function).lower(np.ones(40))


def test_a_branch_of_other_ranks_is_refused():
    def ranks(x):
        y = x if x[0] > 0 else x[None]
        return y.sum()

    with pytest.raises(TraceError, match="one side of this branch makes it"):
        zenith.jit(ranks)(np.ones(3))


# --- brackets and counters --------------------------------------------------------------------------------------------


def grids(x, n):
    i, j = np.mgrid[0:n, 0 : len(x)]
    return i * x, j, np.mgrid[:n] * 0.5, np.mgrid[1 : 2 * n : 2, -1:2][0], np.ogrid[0:n, 0:3][0] + x[0]


def joined(x, n):
    return np.r_[x, 0.0, x[::-1]], np.r_[0:n, 7, x], np.c_[x, 2 * x], np.r_["0,2", x, x], np.r_[-1:1:5j, n]


def triangles(x, n):
    a = np.outer(x, x)
    return a[np.tril_indices(len(x))], np.triu_indices(n, 1), np.tril_indices(n, 2), np.triu_indices(n, -1, 2 * n)


def indices(x, n):
    a, seen = np.outer(x, x), np.zeros((n, n))
    for i, j in np.ndindex(n, n):
        seen[i, j] = a[i, j] * (i - j)
    for at in np.ndindex(seen.shape):
        seen[at] += 1
    return seen


def enumerated(x, n):
    a = np.outer(x, x)
    out = np.zeros_like(a)
    for (i, j), value in np.ndenumerate(a):
        out[j, i] = value if value > n else i
    return out


def products(x, n):
    s = 0.0
    for i, j in itertools.product(range(n), range(1, len(x))):
        if i == j:
            continue
        s += x[i] * x[j]
        if s > 40:
            break
    for i, j, k in itertools.product(range(n), repeat=3):
        s += x[i] * x[j] - x[k]
    return s


def pairs(x, n):
    s = np.zeros(n)
    for i, j in itertools.combinations(range(n), 2):
        s[i] += x[j] * (j - i)
    for a, b in itertools.combinations(x, 2):
        s[0] += a * b
    return s


def powers(x, n):
    state = np.zeros(2**n)
    state[1 << (n - 2)] = x[0]
    return state, np.arange(2 ** (n - 4)) * x[0], np.mgrid[0 : 2 ** (n - 4), 0:2][0], x[: 2 ** (n - 5)], 2.0**n * x


@pytest.mark.parametrize(
    "function",
    [grids, joined, triangles, indices, enumerated, products, pairs, powers],
    ids=lambda f: f.__name__,
)
def test_numpys_brackets_and_counters_of_sizes(function):
    compiled = zenith.jit(function)
    for n in (5, 7, 8, 8, 8):
        x = np.random.default_rng(n).standard_normal(n + 2)
        found, expected = (zenith.tree.flatten(f(x.copy(), n))[0] for f in (compiled, function))
        for one, other in zip(found, expected, strict=True):
            assert np.shape(one) == np.shape(other)
            assert np.asarray(one).dtype == np.asarray(other).dtype
            np.testing.assert_allclose(one, other, 1e-12, 1e-12)
    assert compiled.cache_info().misses == 1, str(compiled.cache_info())


@pytest.mark.parametrize("k", range(-4, 6))
def test_triangles_of_every_form(k):
    compiled = zenith.jit(lambda n, m: (np.tril_indices(n, k, m), np.triu_indices(n, k, m)))
    for n, m in itertools.product(range(5), range(5)):
        for found, expected in zip(compiled(n, m), (np.tril_indices(n, k, m), np.triu_indices(n, k, m)), strict=True):
            np.testing.assert_array_equal(found, expected)
