"""``vmap``: against loops over examples and JAX, in any structure, and what it refuses."""

import numpy as np
import pytest

import zenith
from tests.transforms.compare import agree, attention, jax_and_numpy, normalised, picked
from zenith import grad, jit, vmap
from zenith.errors import ArgumentError, AxisError, ShapeError, TraceError

RNG = np.random.default_rng(2)
X, Y = RNG.standard_normal((5, 4)), RNG.standard_normal((4, 5))


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_each_example_is_as_alone(wrap):
    for function, args in ((normalised, (X,)), (picked, (X,)), (attention, RNG.standard_normal((3, 5, 2, 6, 4)))):
        found = wrap(vmap(lambda *a, f=function: f(*a, np)))(*args)
        agree(found, np.stack([function(*(a[i] for a in args), np) for i in range(5)]))


def test_axes_in_and_out():
    def pair(x, p):
        return {"sum": x + p["a"], "one": p["b"] * 2.0}

    mapped = vmap(pair, in_axes=(1, {"a": 0, "b": None}), out_axes={"sum": 1, "one": None})
    found = mapped(Y, {"a": X, "b": np.arange(3.0)})
    assert np.array_equal(found["sum"], Y + X.T) and np.array_equal(found["one"], [0, 2, 4])
    assert np.array_equal(vmap(lambda x: x, in_axes=-1, out_axes=-1)(X), X)
    assert np.array_equal(vmap(lambda x, *, y: x * y)(X, y=X), X * X)
    assert vmap(lambda: np.ones(2), axis_size=3)().shape == (3, 2)
    assert vmap(lambda x, y: y, in_axes=(0, None))(X, np.arange(2)).shape == (5, 2), "repeated for every example"


def test_nested_and_with_gradients():
    jax, jnp = jax_and_numpy()

    def outer(vmap, grad, np):
        inner = vmap(lambda a, b: np.sin(a) * b + a, (None, 0))
        return vmap(lambda a, row: grad(lambda c: np.sum(inner(c, row) ** 2))(a), (0, 0))

    agree(jit(outer(vmap, grad, np))(X[:, 0], X), outer(jax.vmap, jax.grad, jnp)(X[:, 0], X))
    per_example = vmap(grad(lambda w, x: np.tanh(x @ w)), (None, 0))
    agree(per_example(X[0], X), np.stack([grad(lambda w, x: np.tanh(x @ w))(X[0], x) for x in X]))
    whole = grad(lambda w: np.sum(vmap(lambda x: np.tanh(x @ w))(X)))
    agree(whole(X[0]), per_example(X[0], X).sum(0))


def test_one_program_for_any_number_of_examples():
    mapped = jit(vmap(lambda x: normalised(x, np)))
    for rows in (5, 1, 2):
        agree(mapped(X[:rows]), np.array([normalised(x, np) for x in X[:rows]]))
    assert mapped.cache_info().misses == 1


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: vmap(np.add)(X, Y), ShapeError, r"same number of examples, not 5 and 4"),
        (lambda: vmap(np.sin)(1.0), ShapeError, "has 0 axes"),
        (lambda: vmap(np.sin, in_axes=2)(X), ShapeError, "x has 2 axes|has 2 axes"),
        (lambda: vmap(np.add, in_axes=(0,))(X, X), TraceError, "1 entries, and the call 2"),
        (lambda: vmap(np.sin, in_axes=None)(X), TraceError, "no argument has examples"),
        (lambda: vmap(np.sin, out_axes=None)(X), ShapeError, "differs between examples"),
        (lambda: vmap(np.sin, in_axes=-3)(X), AxisError, "has 2 axes, and its examples should be on axis -3"),
        (lambda: vmap(np.sin, in_axes="a")(X), ArgumentError, "in_axes says .a. for an axis"),
        (lambda: vmap(np.sin, out_axes=4)(X), AxisError, "out_axes: axis 4 is out of bounds for an array of 2 axes"),
        (lambda: vmap(np.sin, out_axes=-3)(X), AxisError, "out_axes: axis -3 is out of bounds"),
        (lambda: vmap(lambda x: (x, 1.0), out_axes=(0, 1))(X), AxisError, "out_axes: axis 1 is out of bounds"),
        (lambda: jit(vmap(np.sin, out_axes=2))(X), AxisError, "out_axes: axis 2 is out of bounds"),
        (lambda: vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": X}), TraceError, "in_axes does not fit"),
        (lambda: jit(vmap(np.add))(X, Y), ShapeError, "same number of examples"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_what_cannot_be_batched_says_so():
    def f(x):
        zenith.debug.print("{}", x)
        return x

    with pytest.raises(zenith.ZenithError, match=r"no batching rule: the text of a batched print(.|\n)*debug.print"):
        vmap(f)(X)


def _summed(x, n):
    total, k = 0.0, 0
    while k < n:
        total, k = total + x[k], k + 1
    return total


def _picked(x, n):
    return x[n] if n < len(x) else -x[0]


def _found(x, n):
    k = 0
    while k < len(x) and x[k] < n:
        k += 1
    return k


@pytest.mark.parametrize("function", [_summed, _picked, _found])
def test_an_example_does_not_read_where_its_branch_or_turn_would_not(function):
    """One that has ended is at the end of the array, one that takes another branch is behind it."""
    x, numbers = np.arange(1.0, 6.0), np.array([0, 5, 2, 3])
    found = jit(vmap(function, in_axes=(None, 0)))(x, numbers)
    np.testing.assert_array_equal(found, [function(x, n) for n in numbers])
    rows = np.arange(20.0).reshape(4, 5)
    found = jit(vmap(function))(rows, numbers)
    np.testing.assert_array_equal(found, [function(row, n) for row, n in zip(rows, numbers, strict=True)])


def test_gradients_of_such_a_branch():
    x, numbers = np.arange(1.0, 6.0), np.array([0, 7, 4])
    found = jit(vmap(grad(_picked), in_axes=(None, 0)))(x, numbers)
    np.testing.assert_array_equal(found, [[1, 0, 0, 0, 0], [-1, 0, 0, 0, 0], [0, 0, 0, 0, 1]])
