"""Slices at computed starts, against jax.lax: values, derivatives, batches, and what is refused."""

import re

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.sampling import leave
from zenith.errors import DTypeError, ShapeError

RNG = np.random.default_rng(5)
X = RNG.standard_normal((5, 6)).astype(np.float32)
U = RNG.standard_normal((2, 3)).astype(np.float32)
STARTS = [(0, 0), (1, 2), (-1, -2), (9, 9), (-9, 1), (3, -9)]

PROGRAMS = {
    "slice": lambda z, x, u, i, j: z.dynamic_slice(x, (i, j), (2, 3)) * 2,
    "update": lambda z, x, u, i, j: z.dynamic_update_slice(x, u, (i, j)) * 2,
    "slice_in_dim": lambda z, x, u, i, j: z.dynamic_slice_in_dim(x, j, 2, axis=1),
    "update_in_dim": lambda z, x, u, i, j: z.dynamic_update_slice_in_dim(x, u[:, :1] + x[:2] * 0, i, 0),
    "index": lambda z, x, u, i, j: z.dynamic_index_in_dim(x, j, 1, keepdims=False),
    "update_index": lambda z, x, u, i, j: z.dynamic_update_index_in_dim(x, x[0] * u[0, 0], i, 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["reference", "lanes", "cpu"])
def test_values_are_those_of_jax_wherever_a_slice_begins(name, backend):
    jax = pytest.importorskip("jax")
    fn = zenith.jit(lambda x, u, i, j: PROGRAMS[name](znp, x, u, i, j), backend=backend)
    for i, j in STARTS:
        np.testing.assert_array_equal(fn(X, U, i, j), PROGRAMS[name](jax.lax, X, U, i, j))
    assert fn.cache_info().misses == 1


@pytest.mark.parametrize("name", leave(("slice_in_dim", "update_in_dim", "update_index"), PROGRAMS))
def test_derivatives_and_batches_are_those_of_jax(name):
    jax = pytest.importorskip("jax")

    def loss(z, sin):
        return lambda x, u, i, j: (sin(PROGRAMS[name](z, x, u, i, j)) ** 2).sum()

    ours, theirs = loss(znp, np.sin), loss(jax.lax, jax.numpy.sin)
    i, j = np.array([0, 4, -1]), np.array([2, -2, 7])
    xs, us = np.stack([X, X + 1, X * 2]), np.stack([U, U - 1, U * 3])
    for args, axes in (((X, U, 1, -2), None), ((xs, us, i, j), (0, 0, 0, 0)), ((X, us, 1, j), (None, 0, None, 0)),
                       ((xs, U, 2, 1), (0, None, None, None))):  # fmt: skip
        found, expected = zenith.grad(ours, (0, 1)), jax.grad(theirs, (0, 1))
        if axes is not None:
            found, expected = zenith.vmap(found, in_axes=axes), jax.vmap(expected, in_axes=axes)
        for a, b in zip(zenith.jit(found)(*args), expected(*args), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_second_derivatives_are_those_of_jax():
    jax = pytest.importorskip("jax")

    def f(z):
        return lambda x: (z.dynamic_update_slice(x, z.dynamic_slice(x, (1,), (2,)) ** 2, (3,)) ** 3).sum()

    x = X[0]
    np.testing.assert_allclose(zenith.hessian(f(znp))(x), jax.hessian(f(jax.lax))(x), rtol=1e-5)


def test_one_compilation_serves_all_sizes_and_starts_may_come_as_an_array():
    fn = zenith.jit(lambda x, at: znp.dynamic_slice(x, at, (2, x.shape[1])))
    for n, m in ((2, 3), (7, 1), (4, 0)):
        x = np.arange(n * m).reshape(n, m)
        np.testing.assert_array_equal(fn(x, np.array([1, 5])), x[min(1, n - 2) :][:2])
    assert fn.cache_info().misses == 1
    with pytest.raises(ShapeError, match="a slice of size 2 does not fit into an axis of size"):
        fn(np.ones((1, 3), int), np.array([0, 0]))


def test_elementwise_work_fuses_with_the_slice():
    """One kernel reads the slice, and in stages (which long chains are cut into) its start is known in all."""
    fn = zenith.jit(lambda x, i: np.tanh(np.exp(np.sin(znp.dynamic_slice_in_dim(x, i, 3, 1)))).sum(1))
    x = RNG.standard_normal((4, 9)).astype(np.float32)
    for i in (0, 4, 9):
        at = min(i, 6)
        np.testing.assert_allclose(fn(x, i), np.tanh(np.exp(np.sin(x[:, at : at + 3]))).sum(1), rtol=1e-5)
    each = zenith.jit(zenith.vmap(lambda x, i: np.tanh(np.exp(znp.dynamic_index_in_dim(x, i, keepdims=False)))))
    indices = np.array([8, 0, 3, -1])
    np.testing.assert_allclose(each(x, indices), np.tanh(np.exp(x[np.arange(4), indices])), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x, i: znp.dynamic_slice(x, (i,), (2, 2)), ShapeError, "needs a start and a size for each axis"),
        (lambda x, i: znp.dynamic_slice(x, (i, 0), (9, 2)), ShapeError, "a slice of size 9 does not fit"),
        (lambda x, i: znp.dynamic_slice(x, (i * 1.5, 0), (2, 2)), DTypeError, "a start must be one integer"),
        (lambda x, i: znp.dynamic_slice(x, x, (2, 2)), ShapeError, "needs the starts in one row"),
        (lambda x, i: znp.dynamic_slice(x, (i, 0), (-1, 2)), ShapeError, "negative size"),
        (lambda x, i: znp.dynamic_update_slice(x, x[0], (i, 0)), ShapeError, "the update has 1 axes, and the array 2"),
        (lambda x, i: znp.dynamic_update_slice(x, x.astype(np.float64), (i, 0)), DTypeError, "float64 into float32"),
        (lambda x, i: znp.dynamic_slice_in_dim(x, i, 1, axis=2), ShapeError, "axis 2 is out of bounds"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_users_line(call, error, said):
    with pytest.raises(error, match=re.escape(said)) as caught:
        zenith.jit(call)(X, 1)
    assert caught.value.where is not None and caught.value.where.file == __file__
