"""Texts of traced values: those of sizes are known, those of values refused, those for people show what there is."""

import enum
import math

import numpy as np
import pytest

import zenith
from zenith.errors import TraceError

X = np.array([3.0, 0.2, 5.0, 1.0])


@pytest.mark.parametrize("function", [
    lambda n: len(str(n)), lambda n: str(n) == str(n)[::-1], lambda n: {"6": 1.0}.get(str(n), 0.0),
    lambda n: len(f"{n}"), lambda n: len("%s" % n), lambda n: len("{}".format(n)), lambda n: len(repr([n])),  # noqa: UP031, UP032
    lambda n: sum(int(d) for d in str(n)), lambda n: len(",".join(map(str, [n, n]))), lambda n: len(format(n)),
])  # fmt: skip
def test_values_have_no_text(function):
    with pytest.raises(TraceError, match="the text of a traced value") as caught:
        zenith.jit(function)(6)
    assert caught.value.where.file == __file__
    assert zenith.jit(function, static_argnums=0)(6) == function(6)


def _lengths(x):
    return len(str(len(x))), len(f"{len(x)}"), len("%d" % len(x)), len("{}".format(len(x)))  # noqa: UP031, UP032


def _palindromes(x):
    return [k for k in range(1, len(x) * 8) if str(k) == str(k)[::-1]]


def _named(x):
    rows = {"w%d" % i: x * i for i in range(12)}  # noqa: UP031
    total = 0.0
    for i in range(12):
        total = total + rows[f"w{i}"]
    return total


@pytest.mark.parametrize("function", [_lengths, _palindromes, _named])
def test_what_is_known_has_its_text(function):
    compiled = zenith.jit(function)
    for x in (X, np.arange(11.0)):
        found, expected = compiled(x), function(x)
        assert type(found) is type(expected)
        np.testing.assert_allclose(found, expected)


def test_what_is_printed_shows_what_stands_for_values(capsys):
    def function(x):
        print("x", x[0], f"{x[0]}", "%s" % x[0], str(x[0]))  # noqa: UP031
        return x

    np.testing.assert_array_equal(zenith.jit(function)(X), X)
    assert capsys.readouterr().out.count("Tracer<f64>") == 4


def test_messages_of_exceptions_show_values():
    def function(x):
        if x[0] > 4:
            raise ValueError(f"{x[0]} of {len(x)}")
        return x

    with pytest.raises(ValueError, match=r"^9\.0 of 4"):
        zenith.jit(function)(X + 6)


class _Color(enum.Enum):
    RED = 1
    BLUE = 2


class _Point:
    def __init__(self, x):
        self.x = x


_Point.ORIGIN = _Point(1.0)


def test_classes_that_hold_their_own_instances():
    for function in (lambda x: x + _Color.BLUE.value, lambda x: x + _Point.ORIGIN.x,
                     lambda x: x * (2 if _Color.RED is _Color.RED else 3)):  # fmt: skip
        np.testing.assert_array_equal(zenith.jit(function)(X), function(X))


def test_other_functions_called_log_print_nothing():
    with pytest.raises(TraceError, match="the text of a traced value"):
        zenith.jit(lambda n: math.log(len(str(n))))(6)
    assert zenith.jit(lambda x: np.log(len(f"{len(x)}")))(X) == 0.0
    assert zenith.jit(lambda x: {"4_1": 2.0}["%d_%d" % (len(x), 1)])(X) == 2.0  # noqa: UP031
