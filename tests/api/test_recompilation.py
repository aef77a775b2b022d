"""Refusing to compile, and what to do so that nothing compiles again."""

import contextvars
import threading

import numpy as np
import pytest

import zenith
from zenith.api.recompilation import AHEAD
from zenith.errors import RecompilationError


def rows(n, dtype=np.float32):
    return np.arange(3 * n, dtype=dtype).reshape(n, 3)


def jit(function, **options):
    return zenith.jit(function, backend="reference", **options)


def branch(x, k=1):
    return x * k if x.shape[0] > 4 else x + k


def test_what_is_compiled_runs_and_what_is_not_raises():
    f = jit(branch)
    f(rows(2))
    with zenith.forbid_recompile():
        np.testing.assert_array_equal(f(rows(3)), rows(3) + 1)
        with pytest.raises(
            RecompilationError, match=r"branch would be compiled for \(x: numpy f32.*x0 <= 4 is assumed"
        ):
            f(rows(7))
    assert f.cache_info().misses == 1
    f(rows(7))
    assert f.cache_info().misses == 2


def test_a_first_call_raises_unless_it_was_compiled_ahead():
    f = jit(branch)
    with zenith.forbid_recompile(), pytest.raises(RecompilationError, match="it has not been compiled yet") as caught:
        f(rows(2))
    assert caught.value.fix == AHEAD and "test_recompilation.py" in caught.value.where.file
    lowered = f.lower(rows(2))
    with zenith.forbid_recompile(), pytest.raises(RecompilationError):
        lowered.compile()
    compiled = lowered.compile()
    with zenith.forbid_recompile():
        np.testing.assert_array_equal(f(rows(4)), compiled(rows(4)))


def test_nothing_is_traced_and_no_state_stays():
    traces = []
    f = jit(lambda x: traces.append(None) or x + 1)
    with zenith.forbid_recompile(), pytest.raises(RecompilationError):
        f(rows(2))
    assert not traces and f._specializer._entries == {}
    np.testing.assert_array_equal(f(rows(2)), rows(2) + 1)
    assert f.cache_info().reasons[0].reason == "first call"


def test_blocks_nest_and_end_with_an_exception():
    f = jit(branch)
    with pytest.raises(KeyError), zenith.forbid_recompile():
        with zenith.forbid_recompile():
            pass
        with pytest.raises(RecompilationError):
            f(rows(2))
        raise KeyError
    f(rows(2))


def test_other_threads_may_compile():
    f = jit(branch)
    with zenith.forbid_recompile():
        plain = threading.Thread(target=f, args=(rows(2),))
        plain.start()
        plain.join()
        assert f.cache_info().misses == 1
        context = contextvars.copy_context()
    with pytest.raises(RecompilationError):
        context.run(f, rows(9))


def test_functions_inlined_into_another_count_as_that():
    inner = jit(branch)
    outer = jit(lambda x: inner(x) + 1)
    outer(rows(2))
    with zenith.forbid_recompile():
        outer(rows(3))
    assert inner.cache_info().misses == 0


def test_the_bound_on_compilations_lists_all_reasons():
    f = jit(branch, max_compilations=2)
    f(rows(2)), f(rows(9)), f(rows(3))
    with pytest.raises(RecompilationError) as caught:
        f(rows(2, np.float64))
    message = str(caught.value)
    first, second, third = ("compilation 0: (x: numpy f32[_, _]): first call",
                            "compilation 1: (x: numpy f32[_, _]): x0 <= 4", "compilation 2: (x: numpy f64")  # fmt: skip
    for text in ("branch would be compiled once more", "max_compilations is 2", first, second, third):
        assert text in message
    np.testing.assert_array_equal(f(rows(4)), rows(4) + 1)


def test_a_bound_of_nothing_allows_nothing():
    f = jit(branch, max_compilations=0)
    with pytest.raises(RecompilationError, match="max_compilations is 0"):
        f(rows(2))


def test_each_instance_of_a_class_has_the_bound():
    class Model:
        @zenith.jit(backend="reference", max_compilations=1)
        def step(self, x):
            return x + 1

    one, two = Model(), Model()
    one.step(rows(2)), two.step(rows(2))
    with pytest.raises(RecompilationError):
        one.step(rows(2, np.float64))


def size_as_number(x):
    return x * np.zeros(x.shape[0]).size


CASES = {
    "a branch": (branch, (rows(2),), (rows(9),), {}, "choose between arrays instead of branching on a size at"),
    "a fixed size": (size_as_number, (rows(3),), (rows(5),), {"convert": False}, "write zenith.numpy.zeros"),
    "a type": (branch, (rows(2),), (rows(2, np.float64),), {}, "convert the arguments to types"),
    "a static value": (branch, (rows(2), 1), (rows(2), 2), {"static_argnames": "k"}, "do not declare k static"),
}


@pytest.mark.parametrize("case", CASES)
def test_every_reason_says_how_to_avoid_it(case):
    function, first, second, options, advice = CASES[case]
    f = jit(function, **options)
    f(*first)
    with zenith.forbid_recompile(), pytest.raises(RecompilationError) as caught:
        f(*second)
    assert advice in caught.value.fix
    f(*second)
    assert f.cache_info().reasons[-1].fix == caught.value.fix
    assert "to avoid it" in str(f.explain())


def test_programs_that_were_dropped_say_so(monkeypatch):
    monkeypatch.setattr(zenith.config, "executables", 1)
    f = jit(branch)
    f(rows(2)), f(rows(2, np.float64))
    for _ in range(2):
        with zenith.forbid_recompile(), pytest.raises(RecompilationError, match=r"at most 1 (.|\n)*ZENITH_EXECUTABLES"):
            f(rows(2))
    f.cache_clear()
    with zenith.forbid_recompile(), pytest.raises(RecompilationError, match=r"cache_clear\(\) was called"):
        f(rows(2, np.float64))


def length(x):
    return x[0] * len(x)


def loop(x):
    total = 0
    for row in x:
        total = total + row
    return total


def unpacked(x):
    first, *rest = x
    return first + sum(rest)


@pytest.mark.parametrize(
    ("function", "advice"), [(length, "stays a symbol"), (loop, "zenith.scan"), (unpacked, "first, *rest = x")]
)
def test_lengths_loops_over_rows_and_unpacking_are_listed_with_what_to_write(function, advice):
    f = zenith.jit(function, backend="reference", convert=False)
    for n in (2, 3, 2):
        assert f(np.ones((n, 2))).tolist() == [n, n]
    assert f.cache_info().misses == 2 and advice in str(f.explain())
