"""Python's numbers are Python's in programs: bools that are counted, powers, ``round``, ``is True``, ``item``."""

import math

import numpy as np
import pytest

import zenith
from zenith import tree
from zenith.errors import CheckError, TraceError


@pytest.mark.parametrize(("function", "args"), [
    (lambda i: (i > 1) + (i > 2) + (i > 3), (5,)),
    (lambda a, b: (a > 0) - (b < 0), (3, -2.5)),
    (lambda a: (-(a > 0), +(a > 0), (a > 0) * 3, (a > 0) + 1.5, (a > 0) // True, (a > 0) % 2, 2 ** (a > 0)), (3,)),
    (lambda a, b: (a > 0) & (b > 0), (3, 2)),
    (lambda x, y: (x[0] > 0) + (y[0] > 0), (np.ones(2), np.ones(2))),  # of NumPy's, True
    (lambda x: ((not x[0] > 0) + (not x[1] > 5), bool(x[0]) + bool(x[1] > 5) + bool(x[2])), (np.arange(3.0),)),
    (lambda x: (any(x > 0) + all(x > -9), (x[0] in (0, 2)) + (x[1] in (1, 2)) + (x[0] in x)), (np.arange(3.0),)),
    (lambda i, j: ((not i) + (not j) * 2, (i and j) + 1, (i or j) + (not i)), (0, 3)),
    (lambda n: sum(2**-k for k in range(n)), (12,)),
    (lambda n: [10**-i for i in range(1, n)], (9,)),
    (lambda x, k: x * 2**k, (3.0, 4)),
    (lambda n: (2**n, 2 ** (n - 1), sum(2**k for k in range(n))), (12,)),
    (lambda x: x * 2**-3, (np.ones(2),)),
    (lambda x: (round(x, 2), round(x, 1), round(x)), (2.675,)),
    (lambda x: (round(x), round(x, 2)), (-0.015,)),
    (lambda x: (round(x[0]), round(x[1], 2), int(round(x[2]))), (np.array([2.5, 2.675, -3.5]),)),
    (lambda x: (x[0].item(), x.sum().item(), round(x.mean().item(), 1), x.tolist()), (np.array([2.5, 2.675, -3.5]),)),
    (lambda x: (math.hypot(x[0], x[1], x[2]), math.gcd(int(x[0]), 4), math.lcm(int(x[0]), 3)), (np.arange(2.0, 5.0),)),
])  # fmt: skip
def test_it_is_as_in_python(function, args):
    def same(found, expected):
        if isinstance(expected, (tuple, list)):
            assert type(found) is type(expected) and len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                same(a, b)
        else:
            assert np.asarray(found).dtype == np.asarray(expected).dtype
            np.testing.assert_allclose(found, expected, 1e-15, 0)

    same(zenith.jit(function)(*args), function(*args))


def test_round_is_exact():
    rng = np.random.default_rng(5)
    numbers = [*rng.integers(-(10**6), 10**6, 300) / 1000.0, *rng.integers(-(10**4), 10**4, 300) / 2000.0]
    numbers += [*rng.standard_normal(200) * 10.0 ** rng.integers(-8, 8, 200), 0.5, -0.0, 0.125, 1e22, 1e300, 2.0**52]
    for digits in (0, 1, 2, 5):
        compiled = zenith.jit(lambda x, digits=digits: round(x, digits), static_argnames="digits")
        for number in map(float, numbers):
            found, expected = float(compiled(number)), round(number, digits)
            assert str(found) == str(expected), (number, digits)


def test_a_negative_power_of_an_integer_whose_sign_is_open_is_an_error():
    compiled = zenith.jit(lambda x, k: x * 2**k)
    assert compiled(3.0, 2) == 12
    with pytest.raises(CheckError, match="a negative power of a Python integer is a float"):
        compiled(3.0, -2)


def test_a_truth_is_true():
    def rises(x):
        n, up = 0, False
        for v in x:
            if up is False and v > 0:
                n, up = n + 1, True
            elif v < 0 and up is not False:
                up = False
        return n

    x = np.array([1.0, 2, -1, 3, -2, 1, 1, -1, 2, -3, 1, -1])
    assert zenith.jit(rises)(x) == rises(x) == 5


def _text(x):
    state, n = "low", 0
    for v in x:
        if state == "low" and v > 0:
            state = "high"
            n += 1
        elif state == "high" and v < 0:
            state = "low"
    return n


def _function(x):
    n, f = 0.0, np.sin
    for v in x:
        n += f(v)
        if v > 0:
            f = np.cos
    return n


def _list(x):
    run, n, i = [], 0, 0
    while i < len(x):
        if x[i] > 0 and not run:
            run = [1]
            n += 1
        elif x[i] <= 0:
            run = []
        i += 1
    return n


@pytest.mark.parametrize("function", [_text, _function, _list])
@pytest.mark.parametrize("n", [5, 12, 40])
def test_a_name_of_an_object_that_values_choose_is_no_constant(function, n):
    """What a branch has put into a name is not what the loop began with: the program has it, or is refused."""
    x = np.resize([1.0, 2, -1, 3, -2, 1, 1, -1, 2, -3, 1, -1], n)
    try:
        found = zenith.jit(function)(x)
    except TraceError as error:
        assert "is read, and one side of this branch makes it" in str(error)
    else:
        np.testing.assert_allclose(found, function(x))


def _definite(a):
    try:
        np.linalg.cholesky(a)
        return True
    except np.linalg.LinAlgError:
        return False


def _inverse(a):
    try:
        return np.linalg.inv(a)
    except Exception:
        return np.linalg.pinv(a)


def _until_the_end(a):
    total, i = 0.0, 0
    while True:
        try:
            total += a[i, 0]
        except IndexError:
            break
        i += 1
    return total


def _quotient(a):
    try:
        return 1.0 / a.sum().item()
    except ZeroDivisionError:
        return 0.0


def _logarithm(a):
    try:
        return math.log(a[0, 0])
    except ValueError:
        return 0.0


@pytest.mark.parametrize(("function", "n"), [
    (_definite, 3), (_definite, 12), (_inverse, 2), (_inverse, 12), (_until_the_end, 12), (_quotient, 3),
    (_logarithm, 3),
])  # fmt: skip
def test_handlers_of_what_the_program_cannot_raise_are_refused(function, n):
    with pytest.raises(TraceError, match=r"what is inside of try computes \w+, which may raise"):
        zenith.jit(function)(np.eye(n))


def test_handlers_of_what_tracing_raises_stay():
    def program(x):
        try:
            scale = {"a": 1.0}["b"]
        except KeyError:
            scale = 2.0
        try:
            n = len(x[0])
        except TypeError:
            n = 1
        try:
            last = x[7]
        except IndexError:
            last = 0.0
        return scale * x.sum() / n + last

    for n in (3, 9):
        assert zenith.jit(program)(np.arange(float(n))) == program(np.arange(float(n)))


def test_a_list_that_is_a_default_does_not_grow():
    def counted(v, seen=[]):  # noqa: B006
        seen.append(v)
        return len(seen)

    for _ in range(2):
        with pytest.raises(TraceError, match="changes the default of an argument"):
            zenith.jit(counted)(3.0)
    assert counted.__defaults__ == ([],)


def test_traced_values_are_no_keys():
    for function in (lambda x: {0.5: 1, 1.5: 5}[x[0]], lambda x: len({x[0], x[1]})):
        with pytest.raises(TraceError, match="being an item of a set or the key of a dict"):
            zenith.jit(function)(np.arange(4.0))


def test_a_text_that_values_choose_is_no_key():
    def program(x):
        if x[0] > 0:
            name = "up"
        else:
            name = "down"
        return {"up": 1, "down": 2}[name] * x

    with pytest.raises(TraceError, match="name is read, and one side of this branch makes it str"):
        zenith.jit(program)(np.arange(4.0))


def test_numpys_functions_make_arrays_of_lists():
    def program(x):
        return (
            np.max([x[0], x[1]]), np.argmax((x[1], x[0], x[2])), np.mean([x[0], 2.0]), np.where([x[0] > 1, True], 1, 0),
            np.log([x[0], x[1]]), np.sum([[x[0], x[1]], [x[2], 1]], axis=0), np.maximum([x[0], 1], [2, x[1]]),
            np.linalg.norm([x[0], x[1]]), np.dot([x[0], x[1]], [1, 2]), np.any([x[0] > 5, x[1] > 0]),
            np.concatenate([[x[0]], [x[1], 2]]), np.hstack([x[0], x[1:3]]), np.outer([x[0], 1], [1, x[1]]),
            np.reshape(x, [len(x), 1]), np.clip([x[0], x[1]], 0, 1),
        )  # fmt: skip

    x = np.array([1.0, 2.0, 3.0])
    for found, expected in zip(zenith.jit(program)(x), program(x), strict=True):
        assert found.dtype == expected.dtype and type(found) is type(expected)
        np.testing.assert_allclose(found, expected)


def _congruential(x):
    state, found = np.uint32(int(x[0])), []
    for _ in range(4):
        state = state * np.uint32(1664525) + np.uint32(1013904223)
        found.append(state)
    return found


def _narrow(x):
    n = int(x[0])
    return np.uint8(n), np.int16(n), np.int32(n), np.uint64(n), np.float16(n), np.bool_(n)


@pytest.mark.parametrize("function", [_congruential, _narrow])
def test_integers_of_python_become_numpys(function):
    compiled = zenith.jit(function)
    for x in (np.array([3.0]), np.array([77.0])):
        with np.errstate(over="ignore"):
            expected = function(x)
        for a, b in zip(compiled(x), expected, strict=True):
            assert type(a) is type(b) and a == b
    with pytest.raises(CheckError, match="out of bounds for uint8"):
        zenith.jit(_narrow)(np.array([300.0]))


def _of_a_size(x, n):
    halves = np.zeros(n)
    for i in range(0, n, 2):
        halves[i] = n
    return (
        x[:n] / n, np.zeros(n, np.float32) + n, n, n + 1, n // 2, n % 2, n / 2, n * 0.5, x[: n + 1] * (n - 1),
        x[:n] ** n, x.reshape(n, -1), np.full(n, n), n * np.float32(2), 7 - n, halves, np.sqrt(n), len(x[:n]),
    )  # fmt: skip


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8, np.int16, np.uint32], ids=lambda k: k.__name__)
def test_integers_of_numpys_that_are_sizes_keep_their_types(kind):
    compiled, x = zenith.jit(_of_a_size), np.arange(1, 13, dtype=np.float32)
    for n in (3, 4, 6):
        for found, expected in zip(compiled(x, kind(n)), _of_a_size(x, kind(n)), strict=True):
            assert type(found) is type(expected) and np.result_type(found) == np.result_type(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert compiled.cache_info().misses == 1
    assert type(zenith.jit(lambda x, n: (x[:n], n & 1))(x, kind(3))[1]) is kind


def _of_python_again(x, n):
    turns = 0
    for i in range(n, 300):
        turns += 1
    for i in range(300, n):
        turns += 1000
    for i in range(0, n, 2):
        turns += x[0] * i
    for i, v in enumerate(x[:n], n):
        turns += v * i
    return turns, x[:n] * 2**n, x * round(n)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64, np.int32, np.uint16], ids=lambda k: k.__name__)
def test_what_python_makes_of_numpys_integers_is_pythons(kind):
    compiled, x = zenith.jit(_of_python_again), np.arange(1, 7, dtype=np.float32)
    for n in (3, 4):
        flat = zip(tree.flatten(compiled(x, kind(n)))[0], tree.flatten(_of_python_again(x, kind(n)))[0], strict=True)
        for found, expected in flat:
            assert np.result_type(found) == np.result_type(expected)
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def _without_items(x):
    found = [k for k in range(len(x)) if x[k] > 2]
    if not found:
        return -1
    return len(found)


def test_a_list_that_values_fill_is_asked_whether_it_is_empty():
    compiled = zenith.jit(_without_items)
    assert [compiled(np.array([1.0, 2.0])), compiled(np.array([3.0, 4.0]))] == [-1, 2]


def test_names_of_functions_inside_are_their_own():
    """A parameter that has the name of a view in a loop does not keep the loop from being one of the program."""

    def function(n):
        def turned(y):
            return -y

        rows = np.ones((n + 1, 2))
        for i in range(n):
            y = rows[i]
            rows[i + 1] = y + 0.1 * turned(y)
        return rows

    compiled = zenith.jit(function)
    np.testing.assert_allclose(compiled(20), function(20))
    assert "scan" in str(compiled.lower(20).as_text())
