"""Exceptions that NumPy raises for traced values are reported like all errors; the program's own pass unchanged."""

import numpy as np
import pytest

import zenith
from zenith.errors import ArgumentError, CallError, TraceError, ZenithError

X = np.array([1.0, 2.0, 3.0])


def raised(function, *args):
    with pytest.raises(Exception) as caught:
        zenith.jit(function, convert=False)(*args or (X,))
    return caught.value


def test_the_first_error_is_the_cause():
    found = raised(lambda x: np.fft.fftfreq(x.shape[0]))
    assert type(found) is ArgumentError
    assert str(found.__cause__) == "n should be an integer"
    assert found.where.file == __file__


def test_functions_are_known_by_any_name():
    from numpy import zeros as made
    from numpy.fft import fftfreq

    assert raised(lambda x: fftfreq(x.shape[0])).what.startswith("numpy.fft.fftfreq was given the traced size")
    assert raised(lambda n: made(n), 3).what.startswith("numpy.zeros: using it as a Python integer")
    assert raised(lambda x: np.full(fill_value=0.0, shape=x)).what.startswith("numpy.full: using it as a Python")
    assert raised(np.add).what.startswith("numpy.add: add() takes from 2 to 3 positional")


def test_in_lines_and_in_functions_of_functions():
    def inner(x):
        return np.sum(
            x,
            axes=1,
        )

    found = raised(lambda x: zenith.grad(lambda y: inner(y))(x))
    assert type(found) is CallError and found.where.function == "inner"
    assert raised(lambda x: zenith.vmap(lambda y: np.zeros(y))(x)).what.startswith("numpy.zeros: using it")


def _fails(x):
    raise ValueError(f"no array of {x.ndim} axes")


def own(x):
    raise TypeError("my own")


def converts(x):
    return np.sum(x) * int("three")


def concrete(x):
    return x + np.reshape(np.ones(4), (3,))


def within(x):
    try:
        return np.fft.fftfreq(x.shape[0])
    except ValueError:
        return x


def of_a_value(x):
    return np.sum(_fails(x))


@pytest.mark.parametrize("function", [own, converts, concrete, of_a_value])
def test_errors_of_the_program_pass(function):
    with pytest.raises((TypeError, ValueError)) as expected:
        function(X)
    found = raised(function)
    assert type(found) is expected.type
    assert str(found) == str(expected.value)


def test_errors_that_the_program_catches_are_its_own():
    assert np.array_equal(zenith.jit(within, convert=False)(X), X)


def test_without_a_text_errors_are_numpys():
    space = {"np": np}
    exec("def hidden(x):\n    return np.fft.fftfreq(x.shape[0])", space)
    found = raised(space["hidden"])
    assert type(found) is ValueError and not isinstance(found, ZenithError)


def test_traced_numbers_in_tuples_are_seen():
    found = raised(lambda n: np.zeros((n, 2)), 3)
    assert isinstance(found, TraceError)
