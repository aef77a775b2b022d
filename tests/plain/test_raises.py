"""Exceptions that values decide: the call raises what Python raises, and has changed what Python has changed."""

import copy
import functools

import numpy as np
import pytest

import zenith
from tests.plain.raising import BAD, CASES, X, root
from zenith.errors import CheckError, TraceError, UnsupportedError


def _ended(function, args):
    """What a call returned or raised, and its arguments after it."""
    args = copy.deepcopy(args)
    try:
        return function(*args), None, args
    except Exception as error:
        told = {name: value for name, value in vars(error).items() if name != "__notes__"}
        return None, (type(error), error.args, told, repr(error.__cause__)), args


@pytest.mark.parametrize(("function", "args"), [pytest.param(f, args, id=f"{f.__name__}-{k}")
                                                for k, (f, args) in enumerate(CASES)])  # fmt: skip
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_it_is_as_in_python(function, args, backend):
    static = [k for k, arg in enumerate(args) if callable(arg)]
    found = _ended(zenith.jit(function, backend=backend, static_argnums=static), args)
    expected = _ended(function, args)
    assert found[1] == expected[1]
    for a, b in zip((found[0], *found[2]), (expected[0], *expected[2]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_one_program_raises_and_returns():
    compiled = zenith.jit(root)
    for _ in range(40):  # also once calls are answered natively
        assert compiled(9.0) == 3.0
        with pytest.raises(ValueError, match="root of -9.0"):
            compiled(-9.0)
    assert compiled.cache_info().misses == 1


def test_an_exception_names_the_line():
    with pytest.raises(ValueError, match="root") as caught:
        zenith.jit(root)(-9.0)
    (note,) = caught.value.__notes__
    assert "raising.py" in note and 'raise ValueError(f"root of {v}")' in note


@pytest.mark.parametrize(("transformed", "good", "bad"), [
    (zenith.grad(root), 4.0, -4.0), (zenith.jit(zenith.grad(root)), 4.0, -4.0),
    (zenith.value_and_grad(root), 4.0, -4.0), (lambda v: zenith.jvp(root, (v,), (v,)), 4.0, -4.0),
    (zenith.vmap(root), X, BAD), (zenith.jit(zenith.vmap(root)), X, BAD),
])  # fmt: skip
def test_transforms_raise_a_check_error(transformed, good, bad):
    transformed(good)
    with pytest.raises(CheckError, match=r"ValueError: root of \?") as caught:
        transformed(bad)
    assert caught.value.where.function == "root"


def test_inside_of_try_it_is_refused():
    def swallowing(x):
        try:
            x = x * root(x[0])
        except Exception:
            return x * 0
        return x

    def raising(x):
        try:
            if x[0] > 0:
                raise ValueError("no")
        except ValueError:
            x = x * 0
        return x

    for function in (swallowing, raising):
        with pytest.raises(TraceError, match="a raise inside of try depends on values"):
            zenith.jit(function)(X)


def test_a_try_whose_exceptions_tracing_meets_stays():
    def shaped(x):
        try:
            if x.ndim != 2:
                raise ValueError("no matrix")
        except ValueError:
            x = x[None]
        if x.sum() < 0:
            raise ValueError("negative")
        return x

    assert zenith.jit(shaped)(X).shape == (1, 4)
    with pytest.raises(ValueError, match="negative"):
        zenith.jit(shaped)(-X)


def test_arrays_in_a_message_are_shown_by_their_type():
    def refused(x):
        assert x.min() > 0, f"{x} {x.shape}"
        return x

    with pytest.raises(AssertionError, match=r"<f64\[x0\]> \(4,\)"):
        zenith.jit(refused)(BAD)


def test_a_raise_in_a_loop_leaves_its_turns_parallel_or_fast():
    """A check of what is known while tracing does not end a loop."""

    def doubled(x):
        for i in range(len(x)):
            if x.ndim != 1:
                raise ValueError("one axis, please")
            x[i] = 2 * x[i]
        return x

    compiled = zenith.jit(doubled)
    np.testing.assert_array_equal(compiled(X.copy()), 2 * X)
    (loop,) = compiled._specializer.latest.origin.loops
    assert loop.kind == "scan"


def test_saving_and_ejecting_are_refused(tmp_path):
    compiled = zenith.jit(root)
    compiled(4.0)
    with pytest.raises(UnsupportedError, match="raises exceptions that values decide"):
        compiled.save(tmp_path / "saved")
    with pytest.raises(UnsupportedError, match="raises exceptions that values decide"):
        compiled.eject(tmp_path / "ejected")


def _strict(x):
    if x[0] < 0:
        raise ValueError("negative")
    return x * 2


def _second(y):
    if y[0] < 1:
        raise KeyError("small")
    return y


def _positive(function):
    @functools.wraps(function)
    def wrapper(x):
        if x[0] < 0:
            raise ValueError("negative")
        return function(x)

    return wrapper


@_positive
def _double(x):
    return x * 2


def _quiet(x):
    return x * 2


def _made(check):
    def function(x, out):
        y = check(x)
        out[0] = 1
        return y

    return function


def _nested(x, out):
    return _second(_strict(x))


def _decorated(x, out):
    y = _double(x)
    out[0] = 1
    return y


def _in_a_condition(x, out):
    if x[1] > 5 or _strict(x)[0] > 1:
        out[0] = 1
        return 3.0
    elif _second(x)[0] > 5:
        out[1] = 7
    else:
        out[1] = 2
    return 4.0


def _in_the_condition_of_a_loop(x, out):
    i = 0
    while _strict(x)[0] - i > 0 and i < 5:
        out[0] += 1
        i += 1
        x -= 0.3
    out[1] = 2


@pytest.mark.parametrize(
    "function", [_nested, _decorated, _in_a_condition, _in_the_condition_of_a_loop, _made(_strict)]
)
def test_nothing_happens_after_the_first_exception(function):
    zenith.jit(_made(_quiet))(np.ones(2), np.zeros(2))  # whose code is that of _made(_strict), and raises nothing
    compiled = zenith.jit(function)
    for x in (-np.ones(2), np.full(2, 0.2), np.ones(2)):
        ends = []
        for called in (function, compiled):
            own, out = x.copy(), np.zeros(2)
            try:
                result = np.asarray(called(own, out)).tolist()
            except (ValueError, KeyError) as error:
                result = type(error), error.args
            ends.append((result, out.tolist()))
        assert ends[0] == ends[1]
