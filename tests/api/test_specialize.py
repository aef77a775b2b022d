"""Which program serves a call: sizes, guards, reasons of misses, the bound of the cache, threads, failures."""

import functools
import threading

import numpy as np
import pytest

import zenith
from zenith.errors import ShapeError, TraceError

reference = functools.partial(zenith.jit, backend="reference")


def rows(n, columns=3):
    return np.arange(n * columns, dtype=np.float32).reshape(n, columns)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("order", [(1, 0, 5, 64, 2), (0, 1, 3), (4, 1, 0)])
def test_every_size_is_served_by_one_program(backend, order):
    w = np.ones((3, 4), np.float32)

    @zenith.jit(backend=backend)
    def f(x, b):
        e = np.exp(x @ w + b)
        return e / np.sum(e, axis=-1, keepdims=True)

    b = np.ones(4, np.float32)
    for n in order:
        e = np.exp(rows(n) / 100 @ w + b)
        np.testing.assert_allclose(f(rows(n) / 100, b), e / e.sum(-1, keepdims=True), rtol=1e-5)
    assert f.cache_info().misses == 1 and f.cache_info().hits == len(order) - 1


def test_a_branch_on_a_size_is_an_assumption():
    @reference
    def f(x):
        return x * 2 if x.shape[0] > 4 else x + 1

    for n in (2, 3, 7, 4, 9):
        np.testing.assert_array_equal(f(rows(n)), rows(n) * 2 if n > 4 else rows(n) + 1)
    info = f.cache_info()
    assert (info.misses, info.hits, info.size) == (2, 3, 2)
    assert "x0 <= 4 is assumed at test_specialize.py:" in info.reasons[1].reason
    assert info.reasons[1].reason.endswith("which is false here")


def test_a_number_made_of_a_size_fixes_it():
    @functools.partial(reference, convert=False)
    def f(x):
        total = x[0]
        for i in range(1, x.shape[0]):
            total = total + x[i]
        return total

    for n in (3, 2, 3):
        np.testing.assert_array_equal(f(rows(n)), rows(n).sum(0))
    assert f.cache_info().misses == 2
    text = str(f.explain())
    assert "for i in range(1, x.shape[0])" in text and "a vectorised form" in text


def test_broadcasting_of_a_size_one_is_an_assumption():
    f = reference(lambda x, y: x + y)
    for a, b in ((2, 2), (5, 5), (5, 1), (1, 5), (1, 1)):
        np.testing.assert_array_equal(f(rows(a), rows(b)), rows(a) + rows(b))
    with pytest.raises(ShapeError):
        f(rows(2), rows(3))
    assert f.cache_info().misses <= 4


def test_requirements_are_checked_in_order_of_the_program():
    @reference
    def f(x, y):
        z = x.reshape(2, -1)
        return z @ y

    f(rows(4), np.ones((6, 1), np.float32))
    with pytest.raises(ShapeError, match="reshape"):
        f(rows(3), np.ones((6, 1), np.float32))
    with pytest.raises(ShapeError, match="matmul"):
        f(rows(4), np.ones((5, 1), np.float32))
    assert f.cache_info().misses == 1


def test_a_division_by_a_size_of_zero_is_no_crash():
    @reference
    def f(x):
        return x + 1 if x.shape[1] % max(x.shape[0], 1) == 0 else x

    for n in (2, 3, 0, 1):
        f(rows(n))


def test_reasons_of_misses():
    f = reference(lambda x, k=0: x + k)
    f(rows(2))
    f(rows(2).astype(np.float64))
    f(rows(2)[0])
    f([rows(2)][0], 1)
    reasons = [miss.reason for miss in f.cache_info().reasons]
    assert reasons == ["first call", "new: x: numpy f64[_, _]", "new: x: numpy f32[_]",
                       "new: x: numpy f32[_, _], k: a Python int"]  # fmt: skip
    assert "hits=0 misses=4 size=4 evicted=0" in str(f.cache_info())


def test_the_cache_is_bounded_and_drops_what_was_used_longest_ago(monkeypatch):
    monkeypatch.setattr(zenith.config, "executables", 3)
    f = reference(lambda x, k: x + k, static_argnums=1)
    for k in (0, 1, 2):
        f(rows(2), k)
    f(rows(2), 0)
    f(rows(2), 3)  # drops 1
    assert (f.cache_info().size, f.cache_info().evicted) == (3, 1)
    f(rows(2), 0), f(rows(2), 2), f(rows(2), 3)
    assert f.cache_info().misses == 4
    np.testing.assert_array_equal(f(rows(2), 1), rows(2) + 1)
    assert "had been dropped: at most 3 are cached" in f.cache_info().reasons[-1].reason


def test_the_bound_holds_within_one_key(monkeypatch):
    monkeypatch.setattr(zenith.config, "executables", 2)
    f = reference(lambda x: x * int(x.shape[0]))
    for n in (1, 2, 3, 4, 1):
        np.testing.assert_array_equal(f(rows(n)), rows(n) * n)
    assert (f.cache_info().size, f.cache_info().misses) == (2, 5)


def test_eight_threads_at_the_first_call_compile_once():
    traces = []

    @reference
    def f(x):
        traces.append(threading.get_ident())
        return x + 1

    barrier, results = threading.Barrier(8), [None] * 8

    def work(i):
        barrier.wait()
        results[i] = f(rows(i + 1))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traces) == 1
    info = f.cache_info()
    assert (info.misses, info.hits) == (1, 7)
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, rows(i + 1) + 1)


def test_an_exception_in_the_function_leaves_no_state():
    fail = [True]

    @reference
    def f(x):
        if fail[0]:
            raise KeyError("mine")
        return x + 1

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            f(rows(2))
    assert f._specializer._entries == {} and f.cache_info().misses == 0
    fail[0] = False
    np.testing.assert_array_equal(f(rows(2)), rows(2) + 1)
    assert f.cache_info().misses == 1


def test_a_failure_while_other_threads_wait_is_theirs_to_retry():
    calls, barrier = [], threading.Barrier(4)

    @reference
    def f(x):
        calls.append(None)
        if len(calls) == 1:
            raise KeyError("first")
        return x + 1

    outcomes = []

    def work():
        barrier.wait()
        try:
            outcomes.append(f(rows(2)).shape)
        except KeyError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == sorted(["'first'", "(2, 3)", "(2, 3)", "(2, 3)"])
    assert f.cache_info().misses == 1


def test_endless_recursion_is_the_users_error_and_leaves_no_state():
    @reference
    def f(x):
        return f(x)

    with pytest.raises(RecursionError):
        f(rows(2))
    assert f._specializer._entries == {}
    np.testing.assert_array_equal(reference(lambda x: x + 1)(rows(2)), rows(2) + 1)


def test_a_tracer_that_escapes():
    leaked = []
    reference(lambda x: leaked.append(x) or x)(rows(2))
    with pytest.raises(TraceError):
        leaked[0] + 1
