"""Checks of values when a program runs: what raises, with which words and line, and what does not."""

import linecache
import re

import numpy as np
import pytest

import zenith
from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, plan_of
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.weights import WeightTable
from zenith.errors import ArgumentError, CheckError, OutOfBoundsError
from zenith.ir.text import parse

NEGATIVE = "a root of a negative number"


def roots(x):
    return np.sqrt(zenith.error_if(x, x < 0, NEGATIVE))


def total(x):
    """Two checks and an index in one kernel: elementwise, of the whole array, and of an index."""
    x = zenith.error_if(x, x > 100, "an element is too large")
    sums = np.sum(np.exp(x) * 2, axis=-1)
    sums = zenith.error_if(sums, np.sum(x) > 150, "all of them are too large")
    return sums + x[:, 0]


@pytest.mark.parametrize("function", [roots, zenith.jit(roots), zenith.vmap(roots), zenith.jit(zenith.vmap(roots))])
def test_what_holds_changes_nothing_and_what_does_not_raises(function):
    good, bad = np.array([4.0, 9.0]), np.array([4.0, -9.0])
    np.testing.assert_array_equal(function(good), [2, 3])
    with pytest.raises(CheckError, match=NEGATIVE) as error:
        function(bad)
    assert isinstance(error.value, RuntimeError) and "error_if" in linecache.getline(__file__, error.value.where.line)
    np.testing.assert_array_equal(function(good), [2, 3])
    assert function(np.zeros(0)).shape == (0,)


def test_each_check_of_a_kernel_has_its_words_and_line():
    jitted = zenith.jit(total)
    np.testing.assert_allclose(jitted(np.zeros((2, 3))), total(np.zeros((2, 3))))
    for value, why in ((101, "an element is too large"), (99, "all of them are too large")):
        with pytest.raises(CheckError, match=why) as error:
            jitted(np.full((2, 3), float(value)))
        assert why in linecache.getline(__file__, error.value.where.line)


def test_an_index_next_to_a_check_is_still_an_index():
    jitted = zenith.jit(lambda x, i: zenith.error_if(x, x < 0, NEGATIVE)[i])
    assert jitted(np.array([1.0, 2.0]), np.array([1])).tolist() == [2]
    with pytest.raises(OutOfBoundsError):
        jitted(np.array([1.0, 2.0]), np.array([2]))
    with pytest.raises(CheckError, match=NEGATIVE):
        jitted(np.array([1.0, -2.0]), np.array([1]))


def test_a_condition_of_another_shape_is_checked_as_a_whole():
    jitted = zenith.jit(lambda x, wrong: zenith.error_if((x, x.sum()), wrong, "wrong"))
    assert jitted(np.ones(2), np.zeros((3, 1), bool))[1] == 2
    with pytest.raises(CheckError, match="wrong"):
        jitted(np.ones(2), np.array([[False], [True], [False]]))


def test_derivatives_pass_through_and_check():
    slope = zenith.jit(zenith.grad(lambda x: np.sum(roots(x))))
    np.testing.assert_allclose(slope(np.array([4.0, 16.0])), [0.25, 0.125])
    _, tangent = zenith.jvp(roots, (np.array([4.0]),), (np.array([2.0]),))
    assert tangent.tolist() == [0.5]
    with pytest.raises(CheckError, match=NEGATIVE):
        slope(np.array([4.0, -16.0]))


def test_in_branches_and_loops_what_runs_is_checked():
    @zenith.jit
    def chosen(which, x):
        return zenith.cond(which, roots, lambda x: x, x)

    assert chosen(False, np.array([-1.0])).tolist() == [-1]
    with pytest.raises(CheckError, match=NEGATIVE):
        chosen(True, np.array([-1.0]))

    @zenith.jit
    def down(x, n):
        return zenith.fori_loop(0, n, lambda _, x: zenith.error_if(x, x < 0, NEGATIVE) - 1, x)

    assert down(np.array([2.0]), np.int64(3)).tolist() == [-1]
    with pytest.raises(CheckError, match=NEGATIVE):
        down(np.array([2.0]), np.int64(4))


def test_a_condition_known_when_traced_is_checked_when_it_runs():
    assert zenith.jit(lambda x: zenith.error_if(x, False, "no"))(np.ones(2)).tolist() == [1, 1]
    never = zenith.jit(lambda x: zenith.error_if(x, True, "no"))
    with pytest.raises(CheckError, match="no"):
        never(np.ones(2))


@pytest.mark.parametrize("dtype", ["bool", "u1", "i8", "f2", "f4", "c8"])
def test_elements_of_every_kind(dtype):
    jitted = zenith.jit(lambda x: zenith.error_if(x, x != 1, "an element is not 1"))
    x = np.ones(5, dtype)
    assert jitted(x).tobytes() == x.tobytes()
    x[3] = 0
    with pytest.raises(CheckError, match="not 1"):
        jitted(x)


def test_saved_programs_check_with_the_words_and_the_line(tmp_path):
    jitted = zenith.jit(total)
    jitted(np.zeros((2, 3)))
    jitted.save(tmp_path / "total")
    with pytest.raises(CheckError, match=re.escape("all of them are too large") + r"[\s\S]*test_checks\.py"):
        zenith.load(tmp_path / "total")(np.full((2, 3), 99.0))


GRAPH = """def f(x: f32[n], i: i64[m]) -> (f32[m]):
    v1 = literal(value=0.0, dtype=f32)
    v2 = broadcast(v1, shape=(n,), axes=())
    v3 = lt(x, v2)
    v4 = error_if(x, v3, why="a number is negative")
    v5 = take(v4, i, axis=0)
    return (v5,)"""


def test_what_is_known_when_traced_raises_only_where_it_runs():
    never = zenith.jit(lambda p, x: zenith.cond(p, lambda x: x + zenith.error_if(1.0, True, "no"), lambda x: x, x))
    assert never(False, np.ones(2)).tolist() == [1, 1]
    with pytest.raises(CheckError, match="no"):
        never(True, np.ones(2))


def test_a_condition_for_all_elements_is_not_asked_where_there_are_none():
    jitted = zenith.jit(lambda x, w: np.sum(zenith.error_if(np.ones((3, x.shape[0])), w, "wrong"), axis=1))
    assert jitted(np.zeros(0), True).tolist() == [0, 0, 0]
    with pytest.raises(CheckError, match="wrong"):
        jitted(np.zeros(1), True)


def test_checks_that_say_the_same_name_all_their_lines():
    @zenith.jit
    def both(x, y):
        x = zenith.error_if(x, x < 0, NEGATIVE)
        y = zenith.error_if(y, y < 0, NEGATIVE)
        return x + y

    with pytest.raises(CheckError) as error:
        both(np.ones(2), -np.ones(2))
    first = both.__wrapped__.__code__.co_firstlineno + 2
    assert error.value.where.line == first and f"may also be test_checks.py:{first + 1}" in str(error.value)


@pytest.mark.parametrize("why", ["", " ", 5, None])
def test_a_check_says_why(why):
    with pytest.raises(ArgumentError, match="why is"):
        zenith.error_if(np.ones(2), False, why)


def test_a_check_is_part_of_the_loop_around_it():
    jitted = zenith.jit(lambda x: np.sqrt(zenith.error_if(np.exp(x) + 1, np.exp(x) < 0, NEGATIVE)) * 2)
    jitted(np.ones(5))
    assert jitted.show("kernels").count("def ") == 1


ROW = """def f(x: f32[4, 64]) -> (f32[4]):
    v1 = literal(value=0.0, dtype=f32)
    v2 = broadcast(v1, shape=(4, 64), axes=())
    v3 = lt(x, v2)
    v4 = error_if(x, v3, why="a number is negative")
    v5 = reduce_sum(v4, axes=(1,))
    v6 = broadcast(v5, shape=(4, 64), axes=(0,))
    v7 = sub(v4, v6)
    v8 = exp(v7)
    v9 = reduce_sum(v8, axes=(1,))
    return (v9,)"""


def test_rows_that_stay_in_registers_are_checked():
    graph = parse(ROW)
    program = GridExecutable(plan_of(graph, cuda_target()), WeightTable.of(graph))
    x = np.ones((4, 64), np.float32)
    call(program, graph, [x])
    x[2, 5] = -1
    with pytest.raises(CheckError, match="a number is negative"):
        call(program, graph, [x])


@pytest.mark.parametrize("executable", [GridExecutable, lambda plan, table: LanesExecutable(plan, {}, table)])
def test_kernels_of_other_backends_say_what_failed(executable):
    graph = parse(GRAPH)
    program = executable(plan_of(graph, cuda_target() if executable is GridExecutable else None), WeightTable.of(graph))
    x = np.arange(4, dtype=np.float32)
    (found,) = call(program, graph, [x, np.array([3])])
    assert found.tolist() == [3]
    with pytest.raises(OutOfBoundsError):
        call(program, graph, [x, np.array([4])])
    with pytest.raises(CheckError, match="a number is negative"):
        call(program, graph, [x - 1, np.array([0])])
