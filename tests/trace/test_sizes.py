"""Traced sizes: arithmetic, questions that become guards, specialisation, unification of equal sizes."""

import math

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import assert_same
from zenith.errors import OutOfBoundsError, ShapeError, TraceError
from zenith.ir.dims import symbol
from zenith.ir.interpret import interpret
from zenith.ir.types import float32
from zenith.trace import InputSpec, TracedSize, trace

N, M = symbol("n"), symbol("m")


def run(function, n=5, m=3):
    """Trace a function of x: f32[n] and y: f32[m]; it returns a list."""
    return trace(function, [InputSpec("x", float32, (N,), (n,)), InputSpec("y", float32, (M,), (m,))], "f")


def guards(function, n=5, m=3):
    return [str(g) for g in run(lambda x, y: (function(x.shape[0], y.shape[0]) and [x]) or [x], n, m).guards]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda n, m: n + 1, "n + 1"),
        (lambda n, m: 1 + n, "n + 1"),
        (lambda n, m: n - m, "-m + n"),
        (lambda n, m: 7 - n, "-n + 7"),
        (lambda n, m: 2 * n * m, "2*m*n"),
        (lambda n, m: n * 4 // 2, "2*n"),
        (lambda n, m: n // 2, "(n//2)"),
        (lambda n, m: n % m, "(n%m)"),
        (lambda n, m: 7 // n, "(7//n)"),
        (lambda n, m: n**2, "n*n"),
        (lambda n, m: divmod(n, 2)[1], "(n%2)"),
        (lambda n, m: -n, "-n"),
        (lambda n, m: +n, "n"),
        (lambda n, m: abs(n), "n"),
        (lambda n, m: n + np.int64(2), "n + 2"),
        (lambda n, m: n + True, "n + 1"),
    ],
)
def test_arithmetic(function, text):
    found = []
    run(lambda x, y: found.append(function(x.shape[0], y.shape[0])) or [x])
    assert isinstance(found[0], TracedSize)
    assert not isinstance(found[0], int)
    assert repr(found[0]) == text


def test_products_of_a_shape():
    found = run(lambda x, y: [np.prod((x.shape[0], 2)) + x, x.size * y, math.prod(x.shape) * x])
    assert found.specialized == ()
    assert [str(v.type) for v in found.graph.outputs] == ["f32[n]", "f32[m]", "f32[n]"]


def test_what_is_always_a_number_is_one():
    def function(x, y):
        n = x.shape[0]
        assert (type(n - n), n - n, type(n * 2 // 2 - n), n * 0) == (int, 0, int, 0)
        assert f"{n}" == "n"
        return [x]

    assert run(function).guards == ()


@pytest.mark.parametrize(
    ("question", "guard", "answer"),
    [
        (lambda n, m: n == 5, "assume(n == 5)", True),
        (lambda n, m: n == 4, "assume(n != 4)", False),
        (lambda n, m: n != m, "assume(n != m)", True),
        (lambda n, m: n > 1, "assume(n >= 2)", True),
        (lambda n, m: n < 5, "assume(n >= 5)", False),
        (lambda n, m: n >= m, "assume(n >= m)", True),
        (lambda n, m: m >= n, "assume(n >= m + 1)", False),
        (lambda n, m: n < 10, "assume(n <= 9)", True),
        (lambda n, m: n <= 4.5, "assume(n >= 5)", False),
        (lambda n, m: n > 4.5, "assume(n >= 5)", True),
        (lambda n, m: n == 5.0, "assume(n == 5)", True),
        (lambda n, m: n % 2 == 1, "assume((n%2) == 1)", True),
        (lambda n, m: bool(n), "assume(n != 0)", True),
        (lambda n, m: max(n, m) is n, "assume(n >= m)", True),
    ],
)
def test_questions_are_answered_for_this_call_and_assumed(question, guard, answer):
    answers = []
    found = run(lambda x, y: answers.append(question(x.shape[0], y.shape[0])) or [x])
    assert answers == [answer]
    assert [str(g) for g in found.guards] == [guard]
    assert found.guards[0].line is not None
    assert found.guards[0].holds({"n": 5, "m": 3})


def test_what_is_known_is_not_asked_again():
    assert guards(lambda n, m: n >= 0 and n + 1 > 0 and not n < 0 and n + m >= m) == []
    assert guards(lambda n, m: n >= 4 and n >= 4 and n > 2 and not n < 3) == ["assume(n >= 4)"]
    assert guards(lambda n, m: n == 5 and n * 2 == 10 and n < 6) == ["assume(n == 5)"]
    assert guards(lambda n, m: n % 2 == 1 and n % 2 == 1 and n % 2 != 1) == ["assume((n%2) == 1)"]
    assert guards(lambda n, m: n != 4 and (n == 4) is False) == ["assume(n != 4)"]


def test_numbers_specialise():
    def function(x, y):
        n = x.shape[0]
        total = sum(range(n)) + int(n) - n + math.sqrt(y.shape[0]) + int(y.shape[0])
        return [x * total, np.zeros((x.shape[0], 2))]

    found = run(function)
    assert [(str(size), line.function) for size, line in found.specialized] == [("n", "function"), ("m", "function")]
    assert [str(g) for g in found.guards] == ["assume(n == 5)", "assume(m == 3)"]
    assert str(found.graph.inputs[0].type) == "f32[5]"
    assert found.graph.guards == ()


def test_with_arrays_a_size_is_a_weak_int():
    def function(x, y):
        n = x.shape[0]
        return [
            x * n,
            n - x,
            x.astype(np.int32) + n,
            np.float32(2) * n,
            n / 2,
            n * 0.5,
            n**0.5,
            2.0**n,
            np.sqrt(n),
            1 / n,
        ]

    found = run(function)
    kinds = ["f32[n]", "f32[n]", "i32[n]", "f32", "f64", "f64", "f64", "f64", "f64", "f64"]
    assert [str(v.type) for v in found.graph.outputs] == kinds
    assert found.guards == ()
    for n in (5, 2):
        x = np.arange(n, dtype=np.float32)
        expected = [
            x * n,
            n - x,
            x.astype(np.int32) + n,
            np.float32(2 * n),
            n / 2,
            n * 0.5,
            n**0.5,
            2.0**n,
            np.sqrt(n),
            1 / n,
        ]
        for actual, e in zip(interpret(found.graph, x, np.zeros(1, np.float32)), expected, strict=True):
            assert_same(actual, e)


def test_equal_sizes_become_one():
    found = run(lambda x, y: [x + y, x * y, y.shape[0] - x.shape[0] + y], 3, 3)
    assert [str(g) for g in found.guards] == ["assume(n == m)"]
    assert str(found.graph).splitlines()[0] == "def f(x: f32[m], y: f32[m]) -> (f32[m], f32[m], f32[m]):"
    assert found.graph.guards == ()
    assert str(found.graph).count("broadcast") == 1  # of the number 0 that the sizes' difference is
    with pytest.raises(ShapeError, match="a size is 4, but must be m = 3"):
        interpret(found.graph, np.zeros(3, np.float32), np.zeros(4, np.float32))


def test_chains_of_equal_sizes():
    sizes = [symbol(f"s{i}") for i in range(4)]
    specs = [InputSpec(f"x{i}", float32, (s,), (3,)) for i, s in enumerate(sizes)]
    found = trace(lambda a, b, c, d: [(a + b) + (c + d)], specs, "f")
    assert len({str(v.type) for v in found.graph.inputs}) == 1
    assert len(found.guards) == 3


def test_a_size_of_one_is_assumed_only_when_broadcasting_needs_it():
    assert run(lambda x, y: [np.exp(x).sum(), y * 2], 1, 1).guards == ()
    found = run(lambda x, y: [x + y], 5, 1)
    assert [str(g) for g in found.guards] == ["assume(m == 1)"]
    assert str(found.graph).splitlines()[0] == "def f(x: f32[n], y: f32[1]) -> (f32[n]):"
    x, y = np.arange(4, dtype=np.float32), np.ones(1, np.float32)
    assert_same(interpret(found.graph, x, y)[0], x + y)


def test_a_size_of_zero_is_a_size_like_others():
    found = run(lambda x, y: [np.exp(x) * 2, x.sum(), np.concatenate([x, y])], 0, 0)
    assert found.guards == ()
    for n in (0, 1, 7):
        x = np.ones(n, np.float32)
        assert interpret(found.graph, x, x)[2].shape == (2 * n,)


def test_requirements_are_the_users_to_keep():
    found = run(lambda x, y: [x.max(), x.reshape(-1, 5), x[4]])
    assert [str(g) for g in found.guards] == ["require(n >= 1)", "require((n%5) == 0)", "require(n >= 5)"]
    with pytest.raises(OutOfBoundsError, match="index 5 is out of bounds for an axis of size n: n > 5 does not hold"):
        run(lambda x, y: [x[5]])
    with pytest.raises(ShapeError, match="max over an axis without elements has no value"):
        interpret(found.graph, np.zeros(0, np.float32), np.zeros(0, np.float32))


def test_a_requirement_that_fails_now_is_an_error_now():
    with pytest.raises(
        ShapeError, match=r"max over an axis without elements has no value: n >= 1 does not hold \(0 and 1 in"
    ):
        run(lambda x, y: [x.max()], 0)


def test_dividing_by_a_size_requires_it_positive():
    assert guards(lambda n, m: [n // m]) == ["require(m >= 1)"]
    with pytest.raises(ShapeError, match="a size is divided by a size, which must be positive"):
        guards(lambda n, m: n // m, 5, 0)
    with pytest.raises(ZeroDivisionError):
        guards(lambda n, m: n // 0)


def test_sizes_and_other_objects():
    def function(x, y):
        n = x.shape[0]
        assert (n == "n") is False
        assert n != None  # noqa: E711
        assert n != 4.5
        assert n < float("inf")
        assert not n <= -float("inf")
        assert not n == float("nan")  # noqa: SIM201
        assert divmod(7, y.shape[0])[0] * 0 == 0
        assert np.zeros_like(n).dtype == np.int64
        for operation in (lambda: n + "1", lambda: n / "1"):
            with pytest.raises(TypeError):
                operation()
        return [znp.full(n, n), n]

    found = run(function)
    assert found.outputs_weak == (False, True)


def test_a_size_cannot_come_from_values():
    with pytest.raises(TraceError, match="a size must be known before the program runs, not computed by it"):
        run(lambda x, y: [x.reshape(x.sum(), -1)])


# --- as Python has numbers ----------------------------------------------------------------------------------------

LENGTHS = (3, 1, 5, 8)
NUMBERS = {
    "keys of a dict": (lambda x: x * {1: 5.0, 3: 6.0}.get(x.shape[0], 9.0), 4),
    "a set of shapes": (lambda x: x if x.shape in {(3,), (5,)} else -x, 4),
    "float()": (lambda x: x[: int(0.8 * x.shape[0])], 4),
    "math.ceil": (lambda x: x[: math.ceil(x.shape[0] / 2)], 4),
    "round": (lambda x: x[: max(1, round(x.shape[0] / 2))], 4),
    "a condition": (lambda x: x if x.shape[0] / 2 > 1 else -x, 4),
    "item": (lambda x: x[: int((np.asarray(x.shape[0] / 2, like=x) + 1).item())], 4),
    "bit_length": (lambda x: x * (x.shape[0] - 1).bit_length(), 4),
    "bits": (lambda x: x + (x.shape[0] & 1) + (x.shape[0] ^ 1) + (x.shape[0] | 1) + (3 & x.shape[0]), 4),
    "shifts": (lambda x: x + (x.shape[0] << 1) + (x.shape[0] >> 1) + ~x.shape[0] + round(x.shape[0]), 1),
    "a shifted number": (lambda x: x + (1 << x.shape[0]), 1),
    "a format": (lambda x: x + len(f"{x.shape[0]:3d}"), 4),
    "arange": (lambda x: x * np.arange(x.shape[0]), 4),
    "arange to a formula": (lambda x: np.arange(1, x.shape[0] + 2, 2) - np.uint8(5) + x[:1], 4),
    "arange of floats": (lambda x: np.arange(0.5, x.shape[0]) + np.arange(x.shape[0], dtype=np.float32) * 1.0, 4),
    "arange within NumPy": (lambda x: x[np.diag_indices(x.shape[0])[0]] + np.mgrid[: x.shape[0]], 4),
    "an array of sizes": (lambda x: x / np.array(x.shape), 1),
    "an array with sizes": (lambda x: x[:1] + np.array([x.shape[0], 2]) + np.full(2, x.shape[0]), 1),
    "keys of their own": (lambda x: x * {x.shape[0]: 2.0}[x.shape[0]], 4),
    "negative powers": (lambda x: x * x.shape[0] ** -1 + x.shape[0] ** -0.5, 1),
    "powers of sizes": (lambda x: x * 2 ** x.shape[0] + x.shape[0] ** x.shape[0] + x.shape[0] ** 2, 1),
    "complex numbers": (
        lambda x: x * (x.shape[0] * 1j - 2j) / (1j + x.shape[0]) + 2j / x.shape[0] + x.shape[0] ** 1j,
        1,
    ),
    "equal to complex numbers": (
        lambda x: x * (x.shape[0] == 5 + 0j) + (x.shape[0] != 1j) + (x.shape[0] == 3.5 + 0j),
        2,
    ),
    "powers of less than nothing": (lambda x: x.sum() * 2 ** -x.shape[0], 1),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_sizes_are_numbers_where_python_asks(name):
    function, programs = NUMBERS[name]
    fast = zenith.jit(function, convert=False)
    for n in LENGTHS:
        x = np.arange(1.0, n + 1)
        found, expected = fast(x), function(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert fast.cache_info().misses == programs


def test_numbers_of_values_are_still_unknown():
    for function in (
        lambda x: int(x.shape[0] * x[0]), lambda x: x if 3 in x else -x, lambda x: round(x[0]), lambda x: [x.item()],
        lambda x: x if x[0] > x.shape[0] / 2 else -x,
    ):  # fmt: skip
        with pytest.raises(TraceError, match="needs the values of a traced array"):
            zenith.jit(function, convert=False)(np.ones(3))
    assert zenith.jit(lambda x: round(x[0], 1))(np.array([0.26])) == 0.3


NEGATIVE = {
    "pad": lambda x: np.pad(x, (0, x.shape[0] - 4)),
    "zeros": lambda x: znp.zeros(x.shape[0] - 4).sum(),
    "eye": lambda x: znp.eye(x.shape[0] - 4),
    "repeat": lambda x: np.repeat(x, x.shape[0] - 4),
    "indices": lambda x: znp.indices((x.shape[0] - 4,)),
    "linspace": lambda x: znp.linspace(0, 1, x.shape[0] - 4),
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_a_size_that_is_negative_in_a_later_call(name):
    fast = zenith.jit(NEGATIVE[name])
    fast(np.ones(5))
    for function in (fast, zenith.jit(NEGATIVE[name])):
        with pytest.raises(ShapeError, match=r"negative.*: (x0 >= 4|x0 - 4 >= 0) does not hold"):
            function(np.ones(2))
