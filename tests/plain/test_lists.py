"""Lists to which loops and branches append: stacked where that is the same, Python's own elsewhere."""

import numpy as np
import pytest

import zenith
from tests.plain import lists
from zenith.errors import TraceError
from zenith.trace.size_relations import VaryingSize

STEP = 1e-6


def samples(n):
    x = np.random.default_rng(n).standard_normal(n) * 2
    return x, np.abs(x) + 0.01, -np.abs(x) - 0.01


def same(found, expected):
    if isinstance(expected, (tuple, list)):
        assert type(found) is type(expected) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, 1e-12, 1e-12)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("function", lists.STACKED)
def test_one_program_has_all_sizes(function, backend):
    compiled = zenith.jit(function, backend=backend)
    for n in (12, 17, 20):
        for x in samples(n):
            same(compiled(x.copy()), function(x.copy()))
    assert compiled.cache_info().misses == 1, str(compiled.cache_info())


@pytest.mark.parametrize("function", lists.OF_PYTHON)
def test_else_lists_are_pythons(function):
    compiled = zenith.jit(function)
    for n in (0, 10, 13) if function is lists.of_no_turns else (10, 13):
        for x in samples(n):
            same(compiled(x.copy()), function(x.copy()))


SMOOTH = [
    lists.squares, lists.comprehension, lists.positive_comprehension, lists.recurrence, lists.time_steps,
    lists.nested, lists.triangle, lists.windows, lists.copies, lists.one_after_another,
]  # fmt: skip


@pytest.mark.parametrize("function", SMOOTH)
def test_derivatives_are_those_of_finite_differences(function):
    def loss(x):
        found = function(x)
        leaves = found if isinstance(found, tuple) else (found,)
        return sum(np.sum(np.sin(np.array(leaf))) for leaf in leaves)

    for x in samples(12):
        found = zenith.grad(zenith.jit(loss))(x)
        step = np.random.default_rng(0).standard_normal(12)
        expected = (loss(x + STEP * step) - loss(x - STEP * step)) / (2 * STEP)
        np.testing.assert_allclose(found @ step, expected, 1e-4, 1e-5)


@pytest.mark.parametrize("function", [lists.squares, lists.recurrence, lists.positive, lists.nested, lists.capped])
def test_examples_have_lists_of_their_own(function):
    def total(x):
        found = function(x)
        leaves = found if isinstance(found, tuple) else (found,)
        return sum(np.sum(np.array(leaf)) for leaf in leaves)

    x = np.stack(samples(12))
    np.testing.assert_allclose(zenith.jit(zenith.vmap(total))(x), [total(row.copy()) for row in x], 1e-12, 1e-12)


def test_it_is_a_list_to_python():
    @zenith.jit
    def asked(x):
        items = []
        assert isinstance(items, list) and not items and items == []
        items.append(x)
        items.extend([x, x + 1])
        items.insert(0, 2 * x)
        first = items.pop()
        return [*items, first], len(items), items.index(items[0])

    (a, b, c, d), length, index = asked(np.ones(2))
    assert (length, index) == (3, 0)
    np.testing.assert_array_equal([a, b, c, d], [[2, 2], [1, 1], [1, 1], [2, 2]])


def test_a_loop_that_appends_is_one_loop_of_the_program():
    compiled = zenith.jit(lists.squares)
    compiled(np.arange(9.0))
    text = str(compiled.explain())
    assert "scan" in text and "unrolled" not in text


def test_numbers_of_turns_are_no_part_of_the_program():
    def many(x, n):
        out = []
        for i in range(n):
            out.append(x * i)
        return np.array(out)

    compiled = zenith.jit(many)
    for n in (9, 30, 20_000):
        np.testing.assert_array_equal(compiled(2.0, n), np.arange(n) * 2.0)
    assert compiled.cache_info().misses == 1


def test_no_items_are_an_empty_array():
    compiled = zenith.jit(lists.positive_comprehension)
    total, at, kept = compiled(-np.ones(12))
    assert (total, at.shape, kept.shape) == (0, (0,), (0,))


def endless(x):
    out = []
    while x.sum() > 0:
        out.append(x.sum())
        x = x - 0.5
    return np.array(out)


def hardly_bounded(x):
    out = []
    k = 0
    while k < 10**12 and x.sum() > 0:
        out.append(x.sum())
        x = x - 0.5
        k += 1
    return np.array(out)


@pytest.mark.parametrize("function", [endless, hardly_bounded])
def test_a_list_without_a_bound_is_refused(function):
    with pytest.raises(VaryingSize, match="the size of a list grows from turn to turn"):
        zenith.jit(function)(np.ones(12))


def of_a_condition(x):
    out = []

    def more(v):
        out.append(v)
        return v < 3

    k = 0
    while more(x[k]) and k < len(x) - 1:
        k += 1
    return np.array(out)


def standing_still(x):
    out, k, i = [], 0, -5
    while i < len(x) and k < 20_000:
        out.append(k)
        i = i + 1 + max(min(i, 0), -1)
        k += 1
    return np.array(out)[-1], len(out), np.array(out).sum()


def stopped_by_another(x):
    out, j = [0.0], -3000
    while min(len(out), len(out) + j) < len(x) and out[-1] < 2000:
        if x[0] < 90:
            out.append(out[-1] + 1)
        j += 1 if x[1] > 90 else 0
    return np.array(out)


def bounded_by_less(x):
    out, j = [0.0], -3000
    while len(out) + min(j, 0) < len(x) and out[-1] < 20_000:
        if x[0] < 90:
            out.append(out[-1] + 1)
        j += 1 if x[1] > 90 else 0
    return np.array(out)


@pytest.mark.parametrize("function", [standing_still, stopped_by_another, bounded_by_less])
def test_numbers_that_loops_carry_may_be_negative(function):
    """Formulas take symbols for sizes; what is below 0 would bound a list by too little."""
    x = np.ones(6)
    try:
        same(zenith.jit(function)(x), function(x))
    except VaryingSize as error:
        assert "grows from turn to turn" in str(error)


def test_a_condition_that_appends_is_refused():
    with pytest.raises(TraceError, match="changes a list of Python's"):
        zenith.jit(of_a_condition)(np.ones(12))


def test_saving_a_program_that_returns_a_list(tmp_path):
    compiled = zenith.jit(lists.returned)
    compiled(np.ones(12))
    with pytest.raises(TraceError, match="which a loop has made cannot be saved"):
        compiled.save(tmp_path / "program.zenith")
    compiled = zenith.jit(lists.squares)
    compiled(np.ones(12))
    compiled.save(tmp_path / "program.zenith")
    x = np.arange(15.0)
    np.testing.assert_array_equal(zenith.load(tmp_path / "program.zenith")(x), lists.squares(x))
