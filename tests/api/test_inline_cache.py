"""Inline caches: a call that is like the one before is answered by native code, as Python would answer it."""

import contextvars
import gc
import os
import tracemalloc
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import zenith
from tests.threads import in_threads
from zenith.backends.cpu.executable import Executable
from zenith.backends.cpu.inline_cache import is_supported
from zenith.errors import ArgumentError, DTypeError, OutOfBoundsError

pytestmark = pytest.mark.skipif(not is_supported(), reason="native code reads no objects of this interpreter")

TIMES = 40  # calls, of which the inline cache answers the last ones


def repeated(function, *args):
    """The result of the last of many calls with copies of arguments, which the inline cache has answered."""
    for _ in range(TIMES):
        own = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
        before, found = function.cache_info().inline, function(*own)
    assert function.cache_info().inline == before + 1, "not from the inline cache"
    return found, own


def same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        same((*found.values(),), (*expected.values(),))
    elif isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif expected is not None:
        assert found.dtype == expected.dtype and np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, 1e-6)


class Both(NamedTuple):
    one: Any
    other: Any


def in_place(x, y):
    x[:] = x * 2 + y
    y[0] = 7


def changed_and_returned(x, k):
    for i in range(1, x.shape[0]):
        x[i] += x[i - 1] * k
    return x, x.sum()


def struct_of(x):
    return zenith.ShapeDtypeStruct(x.shape, x.dtype)


FUNCTIONS = {
    "an array": (lambda x, y: x + y, "ff"),
    "a number": (lambda x: np.sum(x), "f"),
    "a list": (lambda x, y: [x + y, np.sum(x)], "ff"),
    "dicts and lists": (lambda x, y: {"sum": (x + y, None), "a": [{}, y.max()]}, "ff"),
    "a tuple in a tuple": (lambda x: ((x + 1,), np.sum(x)), "f"),
    "a named tuple": (lambda x: Both(*np.linalg.slogdet(x[:, None] * x + np.eye(7))), "f"),
    "a named tuple of sizes that vary": (lambda x: Both(x[x > 0], np.sum(x)), "f"),
    "a complex number": (lambda x: np.sum(x * 1j), "f"),
    "an integer and a bool": (lambda x: (np.argmax(x), np.all(x > -9)), "f"),
    "a tuple": (lambda x: (x + 1, x.sum(), x[::2]), "f"),
    "a tuple of one": (lambda x: (x * x,), "f"),
    "narrow types": (lambda x: (x.astype(np.float32), x > 0, x.astype(np.int8)), "f"),
    "integers": (lambda x, k: x * k, "fi"),
    "floats": (lambda x, k: x * k, "fk"),
    "a scalar of NumPy": (lambda x, k: x * k, "fs"),
    "a size": (lambda x, n: np.zeros(n) + x[0], "fi"),
    "a loop": (lambda x, n: sum(x[i % 3] for i in range(n)), "fi"),
    "written arguments": (in_place, "ff"),
    "a written argument that is returned": (changed_and_returned, "fk"),
    "the argument itself": (lambda x: (x, x + 1), "f"),
    "elements of a mask": (lambda x: x[x > 0], "f"),
    "arrays of several unknown sizes": (lambda x: (x[x > 0], x.sum(), *np.nonzero(x < 0.5), x[x > 0] * 2), "f"),
    "rows of a mask": (lambda x: np.outer(x, x)[x > 0].astype(np.float32), "f"),
    "columns of a mask": (lambda x: np.outer(x, x).T[:, x > 0], "f"),
    "nothing of a mask": (lambda x: x[x > 99], "f"),
    "a call of LAPACK": (lambda x: (x * 2, np.linalg.inv(np.outer(x, x) + np.eye(7)) * 3), "f"),
    "two calls of pocketfft": (lambda x: np.fft.ifft(np.fft.fft(x) + 1), "f"),
    "a function of the user's": (lambda x: zenith.pure_callback(np.sort, struct_of(x), x) + 1, "f"),
}


def arguments(kinds, rng):
    made = {
        "f": lambda: rng.normal(size=7), "i": lambda: 5, "k": lambda: float(rng.normal()),
        "s": lambda: np.float64(rng.normal()),
    }  # fmt: skip
    return [made[kind]() for kind in kinds]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_are_those_of_numpy(name):
    function, kinds = FUNCTIONS[name]
    compiled, rng = zenith.jit(function), np.random.default_rng(0)
    repeated(compiled, *arguments(kinds, rng))
    for _ in range(3):
        args = arguments(kinds, rng)
        found, own = repeated(compiled, *args)
        same(found, function(*args))
        for a, b in zip(own, args, strict=True):
            np.testing.assert_allclose(a, b, 1e-12)
    assert compiled.cache_info().misses == 1


def test_a_returned_argument_is_the_array_that_was_passed():
    found, (x, _) = repeated(zenith.jit(changed_and_returned), np.ones(5), 0.5)
    assert found[0] is x


def test_results_share_no_memory():
    double = zenith.jit(lambda x: x * 2)
    repeated(double, np.ones(5))
    first, second = double(np.ones(5)), double(np.zeros(5))
    assert not np.shares_memory(first, second) and first.sum() == 10 and second.sum() == 0
    assert first.flags.owndata and first.flags.writeable


class Own(np.ndarray):
    """A subclass."""


OTHERS = {
    "longer": np.arange(9.0),
    "strided": np.arange(14.0)[::2],
    "a column": np.arange(14.0).reshape(7, 2)[:, 0],
    "integers": np.arange(7),
    "the other order of bytes": np.arange(7.0, dtype=">f8"),
    "narrower": np.arange(7.0, dtype=np.float32),
    "unaligned": np.arange(57, dtype=np.int8)[1:].view(float),
    "one more axis": np.ones((7, 1)),
    "a scalar": np.float64(3),
    "a number": 3,
    "empty": np.ones(0),
    "of a subclass": np.arange(7.0).view(Own),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_arguments_are_answered_as_ever(name):
    other = OTHERS[name]
    triple = zenith.jit(lambda x: x * 3)
    repeated(triple, np.ones(7))
    try:
        expected = zenith.jit(lambda x: x * 3)(other)
    except zenith.ZenithError as error:
        with pytest.raises(type(error)):
            triple(other)
    else:
        np.testing.assert_array_equal(triple(other), expected)
        assert np.asarray(triple(other)).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(triple(np.ones(7)), [3] * 7)


def test_calls_that_are_no_calls_of_positional_leaves_are_answered_as_ever():
    scale = zenith.jit(lambda x, k: x * k)
    repeated(scale, np.ones(3), 2)
    assert scale(np.ones(3), k=4).sum() == 12 and scale([np.ones(3), np.ones(3)][0], np.float32(5)).sum() == 15
    with pytest.raises(TypeError):
        scale(np.ones(3))
    with pytest.raises(DTypeError, match="fit int64"):
        scale(np.ones(3), 2**80)
    assert scale(np.ones(3), -1).sum() == -3 and scale(np.ones(3), True).sum() == 3
    with zenith.disable_jit():
        assert scale(np.ones(3), 7).sum() == 21
    assert zenith.grad(lambda x: scale(x, 3).sum())(np.ones(3)).sum() == 9


def test_an_integer_that_is_a_size_may_change():
    steps = zenith.jit(lambda x, n: sum(x[i] for i in range(n)))
    repeated(steps, np.ones(9), 4)
    assert [steps(np.ones(9), n) for n in (4, 6, 4, 0)] == [4, 6, 4, 0]


def test_arguments_that_must_not_be_written_are_refused():
    compiled, x = zenith.jit(in_place), np.ones(8)
    repeated(compiled, np.ones(4), np.ones(4))
    frozen = np.ones(4)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        compiled(frozen, np.ones(4))
    for one, other in ((x[:4], x[2:6]), (x[2:6], x[:4]), (x[:4], x[:4])):
        with pytest.raises(ArgumentError, match="memory is also that of"):
            compiled(one, other)
    np.testing.assert_array_equal(x, np.ones(8))
    compiled(x[:4], x[4:])
    assert x.tolist() == [3, 3, 3, 3, 7, 1, 1, 1]


def test_a_failing_check_is_reported_once():
    pick = zenith.jit(lambda x, i: zenith.fori_loop(0, 2, lambda k, s: s + x[i + k], 0.0))
    repeated(pick, np.ones(4), 1)
    for index in (9, -9):
        with pytest.raises(OutOfBoundsError, match="test_inline_cache"):
            pick(np.ones(4), index)
        before = pick.cache_info().inline
        assert pick(np.ones(4), 2) == 2 and pick.cache_info().inline == before + 1


def test_what_a_callback_raises_is_raised_by_its_call_alone():
    def checked(x):
        if x[0] < 0:
            raise KeyError("negative")
        return x

    function = zenith.jit(lambda x: zenith.pure_callback(checked, struct_of(x), x) * 2)
    repeated(function, np.ones(4))
    for _ in range(3):
        with pytest.raises(KeyError, match="negative"):
            function(-np.ones(4))
        found, _ = repeated(function, np.ones(4))
        assert found.tolist() == [2, 2, 2, 2]


def test_a_check_that_failed_before_a_callback_raised_is_of_its_call_alone():
    def checked(x):
        if x[0] < 0:
            raise KeyError("negative")
        return x

    function = zenith.jit(lambda x, at: zenith.pure_callback(checked, struct_of(x), x[at] + x))
    x, inside, outside = np.arange(1.0, 3.0), np.array([0, 1]), np.array([0, 99])
    repeated(function, x, inside)
    with pytest.raises(KeyError, match="negative"):
        function(-x, outside)
    assert function(x, inside).tolist() == [2, 4]


def test_a_callback_may_call_the_function_itself():
    def inner(x):
        return x if x[0] < 1 else function(x - 1)

    function = zenith.jit(lambda x: zenith.pure_callback(inner, struct_of(x), x) + 1)
    for _ in range(TIMES):
        assert function(np.full(2, 5.0)).tolist() == [6, 6]


def test_threads_get_their_own_selections():
    function = zenith.jit(lambda x: (x[x > 0], np.fft.rfft(x)))
    repeated(function, np.arange(-3.0, 61.0))
    wrong = []

    def call(k):
        own = np.arange(64.0) - k
        for _ in range(500):
            selected, spectrum = function(own)
            if selected.tolist() != list(range(1, 64 - k)) or not np.allclose(spectrum, np.fft.rfft(own)):
                wrong.append(k)

    in_threads(6, call)
    assert not wrong


def test_threads_get_their_own_results():
    function = zenith.jit(lambda x, k: (x * k, (x * k).sum()))
    repeated(function, np.arange(64.0), 1)
    wrong = []

    def call(k):
        for _ in range(2000):
            array, total = function(np.arange(64.0), k)
            if not (array == np.arange(64.0) * k).all() or total != 2016 * k:
                wrong.append(k)

    in_threads(6, call)
    assert not wrong


def test_nothing_is_kept_of_calls():
    function = zenith.jit(lambda x, k: (x * k, x.sum(), x + k))
    repeated(function, np.ones(1000), 2)
    x = np.ones(1000)
    alive = weakref.ref(x)
    tracemalloc.start()
    try:
        function(x, 3)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            function(x, 3)
        assert tracemalloc.get_traced_memory()[0] - before < 4000
    finally:
        tracemalloc.stop()
    del x
    assert alive() is None


def executables():
    gc.collect()
    return sum(type(o) is Executable for o in gc.get_objects())  # some objects' __class__ warns


def test_a_function_that_is_gone_leaves_nothing():
    before = executables()
    function = zenith.jit(lambda x: x * 2)
    repeated(function, np.ones(3))
    assert executables() == before + 1
    del function
    assert executables() == before


def test_a_call_that_repeats_is_answered_whatever_came_before():
    function, small, large = zenith.jit(lambda x: x * 2), np.ones(3), np.ones(70)
    for _ in range(8):  # a phase has its inline cache, however many there were
        for x in (small, large):
            for _ in range(TIMES):
                function(x)
            before = function.cache_info().inline
            function(x)
            assert function.cache_info().inline == before + 1


def test_calls_by_turns_are_all_answered():
    function, calls = zenith.jit(lambda x: x * 2), [(np.ones(n),) for n in (3, 4, 5)] + [(np.ones(3, np.float32),)]
    for _ in range(TIMES):
        for args in calls:
            function(*args)
    before = function.cache_info().inline
    for args in calls:
        found = function(*args)
        same(found, args[0] * 2)
    assert function.cache_info().inline == before + len(calls)
    for _ in range(TIMES):
        function(np.ones(9))  # takes the place of one of them
    before = function.cache_info().inline
    for args in calls:
        function(*args)
    assert function.cache_info().inline == before + len(calls) - 1


def test_calls_that_keep_changing_are_not_cached():
    function = zenith.jit(lambda x: x * 2)
    for i in range(40 * TIMES):
        function(np.ones(3 + i % 40))
    assert function._specializer.inline_cache.function is None and function.cache_info().inline == 0


def test_programs_that_are_forgotten_are_compiled_again():
    function = zenith.jit(lambda x: x * 2)
    repeated(function, np.ones(3))
    inline = function.cache_info().inline
    function.cache_clear()
    assert function(np.ones(3)).sum() == 6
    assert (function.cache_info().misses, function.cache_info().inline) == (2, inline)


def test_programs_of_which_there_are_too_many_are_dropped_with_the_cache(monkeypatch):
    monkeypatch.setattr(zenith.config, "executables", 1)
    function = zenith.jit(lambda x: x * 2)
    repeated(function, np.ones(3))
    repeated(function, np.ones((3, 3)))
    assert function(np.ones(3)).sum() == 6
    assert (function.cache_info().misses, function.cache_info().size) == (3, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_has_the_cache():
    function = zenith.jit(lambda x: x * 2)
    repeated(function, np.ones(3))
    child = os.fork()
    if not child:
        os._exit(0 if repeated(function, np.ones(3))[0].sum() == 6 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_context_that_was_copied_where_jit_is_disabled_stays_without_it():
    calls = []

    def noted(x):
        calls.append(type(x))
        return x + 1

    compiled = zenith.jit(noted)
    for _ in range(9):
        compiled(np.ones(3))
    before = len(calls)
    with zenith.disable_jit():
        context = contextvars.copy_context()
    context.run(compiled, np.ones(3))
    assert len(calls) == before + 1
    compiled(np.ones(3))
    assert len(calls) == before + 1
