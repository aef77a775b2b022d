"""Functions that write into arrays of their own, derived, batched, inlined, and in the bodies of loops and branches."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith.errors import TraceError

RNG = np.random.default_rng(3)
X, Y = RNG.uniform(0.5, 2.0, (4, 3)), RNG.uniform(0.5, 2.0, 4)


def slices(x, y):
    a = np.zeros_like(x)
    a[1:] += x[:-1] * 2
    a[:, 1] = y
    a[a > 3] = 1
    a[::2] *= x[::2]
    return (a**2).sum()


def indices(x, y):
    a = x * 1
    a[[2, 0, 2]] = x[[1, 1, 3]] * 3
    np.add.at(a, ([1, 1, 1], [0, 0, 2]), y[:3])
    np.multiply.at(a, ([0, 0, 3], [0, 0, 1]), y[1:])
    np.maximum.at(a, ([3, 3], [1, 2]), y[:2] * 2)
    np.minimum.at(a, [2], x[:1])
    return (a * np.arange(12.0).reshape(4, 3)).sum()


def views(x, y):
    a = x.copy()
    flat, transposed = a.reshape(-1), a.T
    flat[2:5] = y[:3]
    transposed[0] += y * flat[:4]
    a[1, ::-1] *= np.sin(a[0])
    return (a * a).sum() + flat[3]


FUNCTIONS = [slices, indices, views]


def differences(function, x, y):
    """The gradient with respect to x by central differences, each of a call of NumPy's function."""
    found, step = np.zeros_like(x), 1e-6
    for index in np.ndindex(*x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        found[index] = (function(moved[0], y) - function(moved[1], y)) / (2 * step)
    return found


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_are_those_of_the_values_that_stay(function):
    expected = differences(function, X, Y), differences(lambda y, x: function(x, y), Y, X)
    for found, wanted in zip(zenith.grad(function, (0, 1))(X, Y), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    _, tangent = zenith.jvp(function, (X, Y), (X * 0.3, Y * 0.2))
    np.testing.assert_allclose(tangent, (expected[0] * X * 0.3).sum() + (expected[1] * Y * 0.2).sum(), rtol=1e-6)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_batches_are_one_after_the_other(function):
    xs, ys = RNG.uniform(0.5, 2.0, (3, 4, 3)), RNG.uniform(0.5, 2.0, (3, 4))
    expected = [function(x, y) for x, y in zip(xs, ys, strict=True)]
    np.testing.assert_allclose(zenith.vmap(function)(xs, ys), expected, rtol=1e-12)
    np.testing.assert_allclose(zenith.vmap(function, (None, 0))(X, ys), [function(X, y) for y in ys], rtol=1e-12)


def test_of_repeated_indices_the_last_has_the_derivative():
    def last(u):
        a = np.zeros_like(u)
        a[[1, 1, 0, 1]] = u
        return a @ np.arange(1.0, 5.0)

    np.testing.assert_array_equal(zenith.grad(last)(Y), [0, 0, 1, 2])


def test_factors_that_are_zero():
    """The product of the others, where one factor of an element is 0, and where several are."""

    def product(u):
        a = np.ones(3, like=u)
        np.multiply.at(a, [0, 0, 0, 1, 1, 1, 2], u)
        return a @ np.array([1.0, 2.0, 3.0])

    u = np.array([2.0, 0.0, 5.0, 0.0, 3.0, 0.0, 0.0])
    np.testing.assert_array_equal(zenith.grad(product)(u), [0, 10, 0, 0, 0, 0, 3])


def test_further_derivatives_of_factors_that_are_zero():
    """The product of an element's factors is linear in each: its derivatives are products of the other ones."""

    def product(u):
        a = u[4:] * 1
        np.multiply.at(a, [0, 0, 0, 1], u[:4])
        return a[0] + 2 * a[1]

    def written_out(u):
        return u[0] * u[1] * u[2] * u[4] + 2 * u[3] * u[5]

    us = np.array(
        [[2.0, 3, 5, 7, 1, 4], [0, 3, 5, 7, 1, 4], [0, 0, 5, 7, 1, 0], [0, 3, 5, 0, 0, 0], [0, 0, 0, 7, 0, 0]]
    )
    for derivative in (zenith.grad, zenith.hessian, lambda f: zenith.jacfwd(zenith.hessian(f))):
        found, wanted = (zenith.vmap(derivative(f))(us) for f in (product, written_out))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_an_inner_function_writes_into_what_it_is_given():
    """As in NumPy: a jitted function that is called while another is traced is inlined into it."""

    @zenith.jit
    def fill(a, value):
        a[1:3] = value
        return a.sum()

    def outer(x):
        a, b = x * 1, x * 2
        total = fill(a, 5.0) + fill(b[::-1], x[0])
        return a, b, total

    for found, wanted in zip(zenith.jit(outer, backend="reference")(Y), outer_in_numpy(Y), strict=True):
        np.testing.assert_allclose(found, wanted)


def outer_in_numpy(x):
    a, b = x * 1, x * 2
    a[1:3] = 5
    b[::-1][1:3] = x[0]
    return a, b, a.sum() + b.sum()


def running(x):
    """The sums of rows so far, by a buffer that the loop carries."""

    def step(i, rows):
        rows = rows.copy()
        rows[i] = x[i] + np.where(i > 0, rows[i - 1], 0)
        rows[i, 0] += 1
        return rows

    return zenith.fori_loop(0, x.shape[0], step, znp.zeros(x.shape))


def test_a_loop_fills_a_copy_of_what_it_carries():
    expected = np.cumsum(X + np.array([1, 0, 0]), axis=0)
    np.testing.assert_allclose(zenith.jit(running, backend="reference")(X), expected)
    cotangent = zenith.grad(lambda x: (running(x) ** 2).sum())(X)
    np.testing.assert_allclose(cotangent, np.cumsum(2 * expected[::-1], axis=0)[::-1])


def test_branches_write_into_what_they_make():
    def choose(flag, x):
        def first(v):
            v = v * 2
            v[0] = -1
            return v

        return zenith.cond(flag, first, lambda v: v, x)

    jitted = zenith.jit(choose, backend="reference")
    np.testing.assert_array_equal(jitted(True, Y), [-1, *(2 * Y[1:])])
    np.testing.assert_array_equal(jitted(False, Y), Y)


def captured_by_scan(x):
    a = x * 2

    def step(c, v):
        a[0] = v
        return c, v

    return zenith.scan(step, 0.0, x)[1] + a


def captured_by_while(x):
    a = x * 2

    def body(i):
        np.add.at(a, [0], i)
        return i + 1

    return zenith.while_loop(lambda i: i < 3, body, 0) + a


def captured_by_branch(x):
    a = x * 2

    def write():
        a.fill(0)
        return x

    return zenith.cond(x[0] > 0, write, lambda: x) + a


def captured_by_gradient(x):
    a = x * 2

    def loss(y):
        a[1:] += y[1:]
        return (a * y).sum()

    return zenith.grad(loss)(x) + a


def captured_by_batch(x):
    a = x * 2

    def write(y):
        np.copyto(a, y)
        return y

    return zenith.vmap(write)(x) + a


def viewed_by_scan(x):
    a = x * 2

    def step(carry, y):
        tail = a[1:]
        tail[0] = y
        return carry + a.sum(), y

    return zenith.scan(step, 0.0, x)[0]


def viewed_by_gradient(x):
    a = np.outer(x, x)

    def loss(y):
        transposed = a.T
        transposed += y
        return a.sum()

    return zenith.grad(loss)(x)


def viewed_by_batch(x):
    a = np.outer(x, x)

    def write(y):
        row = a[0, ...][1, ...]
        np.copyto(row, y)
        return y + a[0, 1]

    return zenith.vmap(write)(x)


def perhaps_viewed_by_gradient(x):
    a = np.outer(x, x)

    def loss(y):
        row = a.T.ravel()
        row[0] = y[0]
        return a.sum() * y[0]

    return zenith.grad(loss)(x)


OUTSIDE = [
    viewed_by_scan,
    viewed_by_gradient,
    viewed_by_batch,
    perhaps_viewed_by_gradient,
    captured_by_scan,
    captured_by_while,
    captured_by_branch,
    captured_by_gradient,
    captured_by_batch,
]


@pytest.mark.parametrize("function", OUTSIDE, ids=lambda f: f.__name__)
def test_what_was_made_outside_is_not_written(function):
    with pytest.raises(TraceError, match=r"made outside of \w+, which is traced on its own") as found:
        zenith.make_graph(function)(Y)
    assert found.value.where.function == "write" or found.value.where.function in ("step", "body", "loss")


def test_copies_of_what_was_made_outside_are_written():
    def function(x):
        a = x * 2
        square = np.outer(x, x)

        def step(carry, y):
            whole, tail, number = a.copy(), a[1:].copy(), a[0]
            whole += y
            tail[0] = y
            number += y
            picked = a[np.array([0, 2])]
            picked *= y
            transposed = square.T.copy()
            transposed[0] = y
            return carry + whole.sum() + tail.sum() + number + picked.sum() + transposed.sum(), a[0]

        return step, a

    def traced(x):
        return zenith.scan(function(x)[0], 0.0, x)

    step, a = function(Y)
    total = 0.0
    for y in Y:
        total, _ = step(total, y)
    np.testing.assert_allclose(zenith.jit(traced, backend="reference")(Y)[0], total)
    np.testing.assert_array_equal(zenith.jit(traced, backend="reference")(Y)[1], [a[0]] * len(Y))


@pytest.mark.parametrize("transform", [zenith.grad, zenith.vmap, zenith.jit, zenith.checkpoint])
def test_arguments_are_the_callers(transform):
    def double(x):
        x *= 2
        return x.sum()

    with pytest.raises(TraceError, match=r"is (the|an) argument.*the caller's"):
        inner = transform(double) if transform is not zenith.jit else double
        zenith.jit(lambda x: inner(x), backend="reference", convert=False)(np.ones((2, 3)))


def doubled(x):
    x *= 2
    return (x * x).sum()


def doubled_in_a_loop(x):
    for i in range(len(x)):
        x[i] = x[i] * 2
    return (x * x).sum()


@pytest.mark.parametrize("function", [doubled, doubled_in_a_loop])
def test_derivatives_and_batches_leave_the_callers_array_alone(function):
    """The value is what counts, whether the call is in a program or not."""
    x, rows = np.arange(1.0, 4), np.arange(1.0, 7).reshape(2, 3)
    for around in (lambda f: f, zenith.jit):
        np.testing.assert_allclose(around(lambda x: zenith.grad(function)(x))(x), 8 * np.arange(1.0, 4))
        np.testing.assert_allclose(around(lambda x: zenith.vmap(function)(x))(rows), [56.0, 308.0])
        np.testing.assert_array_equal(x, np.arange(1.0, 4))
        np.testing.assert_array_equal(rows, np.arange(1.0, 7).reshape(2, 3))


@pytest.mark.parametrize("function", [doubled, doubled_in_a_loop, zenith.jit(doubled)])
def test_writes_that_the_caller_would_miss_are_refused(function):
    """Functions that are called as they are, but traced on their own: outside of programs the array changes."""
    with_rule = zenith.custom_jvp(function)
    with_rule.defjvp(lambda args, tangents: (function(*args), tangents[0].sum()))
    for called in (zenith.checkpoint(function), with_rule):
        x = np.ones(3)
        assert called(x) == 12.0 and (x == 2).all()
        with pytest.raises(TraceError, match="the caller's"):
            zenith.jit(lambda x, called=called: called(x))(np.ones(3))


def test_numbers_are_computed_anew():
    """Arguments without axes are numbers, as in NumPy: operators in place give new ones."""

    def count(x, total):
        before = total
        for k in range(3):
            total += x[k]
        total *= 2
        return before, total

    before, total = zenith.jit(count, backend="reference")(Y, 1.0)
    assert (before, total) == (1.0, count(Y, 1.0)[1])
