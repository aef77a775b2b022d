"""Indexing against NumPy: random basic and advanced indices, symbolic bounds, take and take_along_axis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import zenith.numpy as znp
from tests.numpy.comparison import assert_same, check, run_traced, specs_for, traced, values
from zenith.errors import DTypeError, OutOfBoundsError, ShapeError, TraceError
from zenith.ir.interpret import interpret
from zenith.ir.types import float32
from zenith.trace import trace

F4 = np.dtype("f4")
BOUNDS = st.one_of(st.none(), st.integers(-7, 7))
STEPS = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
SLICES = st.builds(slice, BOUNDS, BOUNDS, STEPS)


@given(st.integers(0, 5), SLICES)
def test_any_slice(size, item):
    check(lambda xp, a: a[item], np.arange(size, dtype=np.float32))


@given(st.lists(st.one_of(SLICES, st.integers(-2, 1), st.none(), st.just(Ellipsis)), max_size=4))
def test_any_basic_index(items):
    used = sum(i is not None and i is not Ellipsis for i in items)
    if used > 3 or sum(i is Ellipsis for i in items) > 1:
        return
    check(lambda xp, a: a[tuple(items)], values(F4, (2, 3, 2)))


ARRAYS = st.sampled_from(
    [np.array([0, 1, -1]), np.array([[1], [0]]), np.array(1), [0, -2], np.array([], np.int64), np.int64(-1)]
)


@given(st.lists(st.one_of(ARRAYS, ARRAYS, SLICES, st.integers(-2, 1), st.none()), min_size=1, max_size=4))
def test_any_index_with_arrays(items):
    x = values(F4, (2, 3, 2))
    try:
        x[tuple(items)]
    except IndexError:
        return
    check(lambda xp, a: a[tuple(items)], x)


def test_traced_index_arrays():
    x, i = values(F4, (4, 3)), np.array([3, 0, -1, -4], np.int32)
    check(lambda xp, a, j: a[j] if xp is np else xp.take(a, j, axis=0), x, i)
    check(lambda xp, a, j: (xp.take(a, j, axis=0), xp.take(a, j), xp.take(a, j % 3, axis=1)), x, i)
    found = run_traced(lambda a, j: [a[j, 0], a[:, j[:2] % 3], a[j[0]], a[j[1], j[2]]], x, i)
    for actual, expected in zip(found, (x[i, 0], x[:, i[:2] % 3], x[i[0]], x[i[1], i[2]]), strict=True):
        assert_same(actual, expected)


def _written(a, i):
    a = a.copy()
    a[i] = 5.0
    return a


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8"])
def test_unsigned_indices_count_from_the_end_where_they_do_in_numpy(kind):
    """Only uint64 is converted to int64 with another value: 2**64 - 1 is the last element."""
    x = values(F4, (4,))
    i = np.array([0, 2**64 - 1, 2**64 - 4, 3], kind) if kind == "u8" else np.array([0, 3, 2, 1], kind)
    functions = [
        lambda xp, a, j: a[j], lambda xp, a, j: xp.take(a, j), lambda xp, a, j: xp.take_along_axis(a, j, 0),
        lambda xp, a, j: xp.take(a, j, mode="wrap"), lambda xp, a, j: xp.take(a, j, mode="clip"),
        lambda xp, a, j: _written(a, j), lambda xp, a, j: a[i], lambda xp, a, j: xp.take(a, i),
    ]  # fmt: skip
    for function in functions:
        assert_same(run_traced(lambda a, j, f=function: f(znp, a, j), x, i)[0], function(np, x, i))
    assert_same(znp.take(x, i), np.take(x, i))
    assert_same(znp.take(x, i[1]), np.take(x, i[1]))


def test_concrete_array_indexed_by_a_traced_one():
    table, i = values(F4, (5, 3)), np.array([4, 0, -1])
    assert_same(run_traced(lambda j: znp.take(table, j, axis=0), i)[0], table[i])


def test_take_modes_and_take_along_axis():
    x = values(F4, (4, 3))
    i = np.array([[1, 0, -1], [2, 2, 1]])
    check(lambda xp, a, j: xp.take(a, j, mode="wrap") + xp.take(a, j * 9, mode="clip"), x, i)
    check(lambda xp, a, j: (xp.take_along_axis(a, j, 0), xp.take_along_axis(a, j[:, :1] * 0, axis=0)), x, i)
    check(lambda xp, a: xp.take_along_axis(a, xp.argmax(a, axis=1, keepdims=True), axis=1), x)


def test_index_arrays_of_other_forms():
    x = values(F4, (4, 3))
    check(lambda xp, a: (a[[]], a[xp.asarray([1, 2])], xp.take_along_axis(a, xp.asarray([3, 11]), None)), x)
    with pytest.raises(ShapeError, match=r"take_along_axis needs indices of 2 axes, not \(2,\)"):
        run_traced(lambda a: np.take_along_axis(a, np.zeros((2,), int), 0), x, symbolic=False)


def test_an_index_outside_is_an_error_when_the_program_runs():
    graph = traced(lambda a, j: a[j], np.zeros(3, np.float32), np.array([1])).graph
    with pytest.raises(OutOfBoundsError, match="an index is out of bounds for an axis of size 3"):
        interpret(graph, np.zeros(3, np.float32), np.array([3]))


def slice_guards(item, size=8):
    found = traced(lambda a: a[item], np.zeros(size, np.float32))
    return [str(g) for g in found.graph.guards], found.graph.outputs[0].type


@pytest.mark.parametrize(
    ("item", "guards", "shape"),
    [
        (slice(None, 5), ["assume(s0_0 >= 5)"], "f32[5]"),
        (slice(None, 9), ["assume(s0_0 <= 8)"], "f32[s0_0]"),
        (slice(1, None), ["assume(s0_0 >= 1)"], "f32[s0_0 - 1]"),
        (slice(None, -1), ["assume(s0_0 >= 1)"], "f32[s0_0 - 1]"),
        (slice(-3, None), ["assume(s0_0 >= 3)"], "f32[3]"),
        (slice(1, -1), ["assume(s0_0 >= 1)", "assume(s0_0 >= 2)"], "f32[s0_0 - 2]"),
        (slice(None, None, -1), [], "f32[s0_0]"),
        (slice(None, None, 2), [], "f32[((s0_0 + 1)//2)]"),
        (-1, ["require(s0_0 >= 1)"], "f32"),
        (3, ["require(s0_0 >= 4)"], "f32"),
    ],
    ids=str,
)
def test_guards_of_symbolic_bounds(item, guards, shape):
    found, type = slice_guards(item)
    assert (found, str(type)) == (guards, shape)


def test_one_trace_serves_every_size_that_its_guards_allow():
    x = np.arange(8, dtype=np.float32)
    graph = traced(lambda a: [a[2:-1], a[:5], a[::-2], a[-1]], x).graph
    for size in (5, 6, 11):
        y = np.arange(size, dtype=np.float32)
        for actual, expected in zip(interpret(graph, y), (y[2:-1], y[:5], y[::-2], y[-1]), strict=True):
            assert_same(actual, expected)
    with pytest.raises(ShapeError, match="does not hold"):
        interpret(graph, np.arange(4, dtype=np.float32))


def test_slices_by_traced_sizes():
    table = values(F4, (20, 2))

    def function(a):
        n = a.shape[0]
        return [
            a[: n // 2],
            a[n // 2 :],
            table[: a.shape[0]] if isinstance(a, np.ndarray) else np.add(a, 0)[:n],
            a[-n:],
        ]

    x = values(F4, (7, 2))
    check(lambda xp, a: function(a)[:2] + function(a)[3:], x)


def test_a_concrete_table_is_cut_by_a_traced_size():
    table, x = values(F4, (20, 2)), values(F4, (7, 2))
    found = trace(lambda a: [a + znp.take(table, znp.arange(a.shape[0]), axis=0)], specs_for([x], True), "f")
    assert_same(interpret(found.graph, x)[0], x + table[:7])
    assert found.graph.outputs[0].type.dtype == float32


def test_iteration_over_a_fixed_axis():
    x = values(F4, (3, 2))
    assert_same(run_traced(lambda a: sum(row * i for i, row in enumerate(a)), x, symbolic=False)[0], x[1] + x[2] * 2)
    assert len(traced(lambda a: [a * len(a)], x, symbolic=False).graph.outputs) == 1


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        (5, OutOfBoundsError, r"index 5 is out of bounds for an axis of size 3"),
        (-4, OutOfBoundsError, r"index -4 is out of bounds"),
        ((0, 0, 0), OutOfBoundsError, "too many indices: 3 for an array of 2 axes"),
        ((..., ...), OutOfBoundsError, "one ellipsis"),
        ([0, 3], OutOfBoundsError, "an index is out of bounds for an axis of size 3"),
        (np.array([1.5]), DTypeError, "an index array must hold integers, not float64"),
        (1.0, TraceError, "an index must be an integer or a slice, not a float"),
        (slice(None, None, 0), ShapeError, "the step of a slice cannot be zero"),
        (slice(None, "x"), TraceError, "a bound of a slice must be an integer, not str"),
        (np.array([True, False]), OutOfBoundsError, "a mask must have the sizes of the axes that it selects from"),
    ],
    ids=str,
)
def test_wrong_indices(index, error, text):
    with pytest.raises(error, match=text):
        run_traced(lambda a: a[index], np.zeros((3, 2)), symbolic=False)


def test_masks_whose_values_are_known():
    x = values(np.dtype("f4"), (3, 4, 2), 5)
    rows, both = np.array([True, False, True]), np.random.default_rng(0).uniform(size=(3, 4)) < 0.5
    check(lambda xp, a: (a[rows], a[..., [True, False]], a[both], a[both, 1], a[:, both[0]], a[..., both[0], :]), x)
    check(lambda xp, a: (a[both & False], a[None, rows, 1:], a[rows, [0, 1]]), x)


def test_masks_that_are_computed_name_the_alternative():
    for pick in (lambda a: a[a > 0], lambda a: a[0, a[0] > 0]):
        with pytest.raises(TraceError, match=r"boolean mask gives(.|\n)*zenith.numpy.extract\(mask, x, size=n\)"):
            run_traced(pick, np.zeros((2, 3)))
