"""Writing into arrays that the traced function made: each program does to traced arrays what it does to NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zenith
from tests.backends.running import call, compiled
from tests.numpy.comparison import run_traced, specs_for, values
from zenith.errors import TraceError
from zenith.ir.interpret import interpret
from zenith.passes.pipeline import run
from zenith.trace import trace

F4 = np.dtype(np.float32)


def slices(x, y, i):
    a = np.zeros_like(x)
    a[1:] += x[:-1]
    a[::3] = x[1::2]
    a[0, 1:] = y[1:3]
    a[..., -1] *= 2
    a[::-1][0] = 7
    a[1] = a[2] = y[:3]
    return a


def overlapping(x, y, i):
    a = x * 1
    a[1:] = a[:-1]
    a[:, 1:] += a[:, :-1]
    a[:2], a[2:4] = a[2:4], a[:2].copy()
    return a


def views(x, y, i):
    a = x + 0
    row, column, transposed, flat, grown = a[1], a[:, 0], a.T, a.reshape(-1), a[None]
    row += 10
    column[:] = -1
    transposed[2] *= 3
    flat[5:9] = 0
    grown[0, -1] -= 1
    block = transposed[1:3][:, ::-1]
    block[...] = block + 100
    return a, row, column, transposed, flat, grown, block


def names(x, y, i):
    a = x * 2
    b = a
    c = a.copy()
    d = np.asanyarray(a, like=a)
    a -= 1
    d[0] = 0
    e = np.positive(a)
    a /= 2
    return a, b, c, d, e


def numbers(x, y, i):
    total = x.sum()
    first = total
    total += y
    element = x[0, 0]
    a = x.copy()
    seen = a[0, 0]
    boxed = a[0, 0, ...]
    a[0, 0] = 50
    count = 0
    for k in range(3):
        count += y[k]
    cell = np.zeros((), x.dtype, like=x)
    other = cell
    cell += y[0]
    return total, first, element, seen, boxed, count, cell, other


def masks(x, y, i):
    a = x * 1
    a[a > 1] = 0
    a[y > 0, 1:2] = 5
    a[:, y[:3] > 0] = np.arange(5, dtype=x.dtype)[:, None]
    a[np.array([True, False, True, False, True])] += 1
    a[1][a[1] < 0] = 9
    a[y < 0] = y[:3]
    return a


def scatters(x, y, i):
    a = x * 1
    a[i] = y[:3]
    a[[0, -1], [1, 2]] = [70, 80]
    a[:, [2, 0]] += 1
    a[1:4, i % 3] = y[: i.shape[0]]
    a[i, None, 1] = y[0]
    a[[3, 3, 3]] = np.arange(9, dtype=x.dtype).reshape(3, 3)
    return a


def traced_integers(x, y, i):
    a = x * 1
    row = a[i[0]]
    row += 1
    a[i[1], 1:] = 0
    a[i[2], i[0] % 3] -= 5
    a[:, i[1] % 3] *= 2
    column = a[:, i[0] % 3]
    column[0] = 33
    return a, row, column


def functions(x, y, i):
    a, c = x * 1, np.zeros_like(y)
    np.add.at(a, i, y[:3])
    np.subtract.at(a, (i, 1), 2)
    np.maximum.at(a, (slice(None), [0, 0]), 1)
    np.minimum.at(a, a > 5, 3)
    np.multiply.at(a, (np.array([1, 1]), np.array([2, 2])), 3)
    np.put(a, [0, -1, 4], [1, 2])
    np.putmask(a, a < 0, y[:2])
    np.place(a, a == 1, [8, 9])
    np.copyto(c, y, where=y > 0)
    np.fill_diagonal(a, y[:3])
    np.put_along_axis(a, i[[0, 1, 2, 0, 1], None], 6, axis=1)
    c.sort()
    return a, c


def results(x, y, i):
    a, b, c = np.zeros_like(x), np.empty_like(y), x * 1
    np.add(x, y[:3], out=a)
    np.multiply(a, 2, out=a, where=a > 0)
    np.sum(x, axis=1, out=b)
    c.clip(-1, 1, out=c)
    np.clip(c, 0, 1, c)
    a[1:] @= np.eye(3, dtype=x.dtype)
    np.nan_to_num(c, copy=False)
    b.fill(np.float32(2))
    quotient, rest = np.empty_like(y), np.empty_like(y)
    np.divmod(y, 2, quotient, rest)
    return a, b, c, quotient, rest


def kinds(x, y, i):
    a, b = i * 1, np.zeros(3, like=x)
    a[0] = y[0]
    a[1:] = 2.9
    b[:] = i
    b += i
    flags = a > 1
    flags[0] = True
    flags |= a < 0
    np.add.at(flags, [1, 1], False)
    return a, b, flags


def not_views(x, y, i):
    """What NumPy copies is not written with its source."""
    a = x * 1
    copies = [a.flatten(), a[[0, 1]], a[i], a.astype(x.dtype), np.array(a, like=a), a + 0, np.where(True, a, a)]
    shown = [np.broadcast_to(a, (2, *a.shape)), np.atleast_2d(a), np.squeeze(a), np.moveaxis(a, 0, 1), np.flip(a)]
    a[0] = 99
    return *copies, *shown, a


def python_numbers(x, y, i):
    a = np.zeros_like(x, dtype=np.uint8)
    np.add.at(a, (i, 0), 1)
    np.maximum.at(a, (slice(None), 1), 7)
    np.copyto(a, 3, where=x > 1)
    return a


def components(x, y, i):
    a = x + 1j * x[::-1]
    a.real = y[:3]
    a.imag = a.imag * 2
    b = x.copy()
    b.real = 5
    b.partition(1, axis=0)
    return a, b


def component_views(x, y, i):
    a = x + 1j * x[::-1]
    real, rows = a.real, a.imag[1:]
    real[...] = y[:3]
    rows *= 2
    a.real[0] += 1
    a.imag -= 3
    a *= 1j
    return a, real, rows, a.real, np.imag(a).copy()


def loops_that_write(x, y, i):
    a, b = x * 1, y[:4] * 1
    for row in a[:3]:
        row += a[0]
    for k, element in enumerate(b):
        b[(k + 1) % 4] += element
    c = np.multiply.outer(b, y[:2])
    size = int(c.size)
    for k, element in enumerate(c.T.flat):
        c.T.flat[(k + 1) % size] += element
    return a, b, c, c.flat == c.ravel()[0], c.flat != 0


def flat(x, y, i):
    a, b, c = x.copy(), x.T.copy(), x.copy()
    a.flat[2] = 7
    a.flat[i] = y[:2]
    b.flat[1:4] = y[0]
    c.flat = y[:4]
    a.flat[a.ravel() > 1] = 5
    return a, b, c, a.flat[3:5], a.T.flat[1] + 0, c.flat.copy()


def copies_in_rows(x, y, i):
    a, b = x.T.copy(), x * 1
    flat, other = a.reshape(-1), b.view()
    flat[0] = 9
    other[1] = 8
    return a, b, b.view(x.dtype)


FUNCTIONS = [loops_that_write, slices, overlapping, python_numbers, components, component_views, flat, copies_in_rows,
             views, names, numbers, masks, scatters, traced_integers, functions, results, kinds, not_views]  # fmt: skip
ARGUMENTS = values(F4, (5, 3), 1), values(F4, (5,), 2), np.array([2, 0, 2])


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_programs_mean_what_numpy_does(function, symbolic):
    expected = function(*(a.copy() for a in ARGUMENTS))
    found = run_traced(function, *ARGUMENTS, symbolic=symbolic)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for number, (a, e) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(a, e, err_msg=f"result {number}")
        assert np.asarray(a).dtype == np.asarray(e).dtype


# --- random programs ----------------------------------------------------------------------------------------------


class Walk:
    """A program as a list of numbers: steps that make arrays, views of them, and writes into them.

    ``refused`` are the steps that the traced program refused, which NumPy then leaves out, too.
    """

    def __init__(self, arrays, refused=None):
        self.arrays = list(arrays)
        self.refused = set() if refused is None else refused
        self.decides = refused is None

    def run(self, steps):
        for number, (kind, *choices) in enumerate(steps):
            if number in self.refused:
                continue
            try:
                self.step(MAKERS[kind % len(MAKERS)], *choices)
            except TraceError as error:
                assert self.decides and any(text in error.what for text in OPEN_QUESTIONS), error
                self.refused.add(number)
        return self

    def step(self, maker, first, second, third):
        x, y = (self.arrays[c % len(self.arrays)] for c in (first, second))
        made = maker(x, y, third)
        if made is not None:
            self.arrays.append(made)

    def results(self):
        """Each array at the end, in a copy; None for those that a write has left open."""
        found = []
        for x in self.arrays:
            try:
                found.append(np.array(x, like=x))
            except TraceError as error:
                assert "is left open" in error.what
                found.append(None)
        return found


OPEN_QUESTIONS = ("is the argument", "a view of", "is left open", "read-only")


def _basic_index(x, choice):
    """An index of ints, slices, None and Ellipsis."""
    index = []
    for n in x.shape:
        choice, kind = divmod(choice, 7)
        low = choice % n if n else 0
        index.append([slice(None), slice(low, None), slice(None, None, 2), slice(None, None, -1), slice(low, low + 2),
                      low if n else slice(None), slice(None, None, -2)][kind])  # fmt: skip
    return (*index[: choice % 3], ..., *index[choice % 3 :]) if choice % 2 and x.ndim < 3 else tuple(index[: x.ndim])


def _slice(x, choice):
    found = x[_basic_index(x, choice)]
    return found if found.ndim else None


def _reshaped(x, choice):
    return [x.reshape(-1), x.reshape(x.shape[::-1]), np.ravel(x), np.expand_dims(x, 0), np.squeeze(x)][choice % 5]


def _value(x, y, choice):
    """What fits everywhere in x: a number, or one row of it if it is as long."""
    fitting = x.ndim and y.ndim and y.shape[-1:] == x.shape[-1:] and y.size and choice % 2
    return y[(0,) * (y.ndim - 1)] if fitting else float(choice % 11)


def _write(x, y, choice):
    x[_basic_index(x, choice // 3)] = float(choice % 13)


def _write_rows(x, y, choice):
    x[...] = _value(x, y, choice)


def _add_to(x, y, choice):
    x += _value(x, y, choice)


def _scale_slice(x, y, choice):
    x[_basic_index(x, choice)] *= 2


def _write_at_indices(x, y, choice):
    if x.ndim and x.shape[0]:
        x[[choice % x.shape[0], -1, choice // 5 % x.shape[0]]] = _value(x[:1], y, choice)


def _add_at(x, y, choice):
    if x.ndim > 1 and x.size:
        np.add.at(x, (slice(None), [choice % x.shape[1], 0, choice % x.shape[1]]), 1.5)


def _mask(x, y, choice):
    x[x > choice % 5] = -1


def _out(x, y, choice):
    if x.shape == y.shape:
        np.subtract(x, y, out=x, where=y > 0)


MAKERS = [
    lambda x, y, c: x * 1, lambda x, y, c: np.zeros_like(x),
    lambda x, y, c: _slice(x, c), lambda x, y, c: _slice(x, c), lambda x, y, c: x.T, lambda x, y, c: _reshaped(x, c),
    lambda x, y, c: np.flip(x), lambda x, y, c: x.copy(),
    _write, _write, _write_rows, _add_to, _add_to, _scale_slice, _write_at_indices, _add_at, _mask, _out,
]  # fmt: skip
STEPS = st.lists(st.tuples(*[st.integers(0, 2**12)] * 4), min_size=4, max_size=14)
START = np.arange(12.0).reshape(4, 3), np.linspace(-3, 3, 3)


def check_program(steps, run):
    """``run(graph, arrays)`` gives NumPy's results, except for arrays that the traced program leaves open."""
    walks, known = [], []

    def program(*arrays):
        walks.append(Walk([a * 1 for a in arrays] + list(arrays)).run(steps))
        found = walks[-1].results()
        known[:] = [i for i, x in enumerate(found) if x is not None]
        return [found[i] for i in known]

    graph = trace(program, specs_for(START, False), "f").graph
    arrays = [a.copy() for a in START]
    plain = Walk([a * 1 for a in arrays] + arrays, walks[0].refused).run(steps).results()
    for number, found in zip(known, run(graph, START), strict=True):
        np.testing.assert_array_equal(found, plain[number], err_msg=f"array {number}")
    return len(steps) - len(walks[0].refused), len(plain) - len(known)


@settings(max_examples=120, deadline=None)
@given(STEPS)
def test_random_programs_do_what_numpy_does(steps):
    check_program(steps, lambda graph, arrays: interpret(graph, *arrays))


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_random_programs_do_so_after_all_passes(steps):
    check_program(steps, lambda graph, arrays: interpret(run(graph)[0], *arrays))


@settings(max_examples=10, deadline=None)
@given(STEPS)
def test_random_programs_do_so_on_lanes(steps):
    check_program(steps, lambda graph, arrays: call(compiled(graph, "lanes"), graph, list(arrays)))


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_many_random_programs_do_so_in_every_way(steps):
    check_program(steps, lambda graph, arrays: interpret(run(graph)[0], *arrays))
    check_program(steps, lambda graph, arrays: call(compiled(graph, "lanes"), graph, list(arrays)))


@pytest.mark.parametrize("dtype", ["u1", "u4", "i2", "i8", "f4"])
def test_numbers_subtracted_at_indices(dtype):
    def subtract(x, v):
        np.subtract.at(x, [1, 2, 1], 1)
        np.subtract.at(x, [0, 3, 3], v)
        np.subtract.at(x, x > 100, 2)

    own, plain = np.arange(5).astype(dtype), np.arange(5).astype(dtype)
    for function, x in ((zenith.jit(subtract), own), (subtract, plain)):
        function(x, np.array([1, 2, 3], dtype))
    np.testing.assert_array_equal(own, plain)
