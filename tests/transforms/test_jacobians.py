"""Jacobians and Hessians: against JAX, in any structure."""

import numpy as np
import pytest

from tests.transforms.compare import agree, jax_and_numpy, picked
from zenith import grad, hessian, jacfwd, jacrev, jit
from zenith.errors import DTypeError, TraceError

X = np.random.default_rng(3).standard_normal(4)


def structured(p, x, np):
    y = np.outer(p["a"], x) * p["s"]
    return {"y": np.tanh(y), "sum": np.sum(y)}


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", ["jacfwd", "jacrev"])
def test_jacobians_are_those_of_jax(kind, wrap):
    jax, jnp = jax_and_numpy()
    args = ({"a": X[:3], "s": np.array(0.5)}, X)
    ours = {"jacfwd": jacfwd, "jacrev": jacrev}[kind]
    for argnums in (0, 1, (0, 1)):
        found = wrap(ours(lambda *a: structured(*a, np), argnums))(*args)
        agree(found, getattr(jax, kind)(lambda *a: structured(*a, jnp), argnums)(*args))


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_hessian_is_that_of_jax(wrap):
    jax, jnp = jax_and_numpy()
    agree(wrap(hessian(lambda x: picked(x, np)))(X), jax.hessian(lambda x: picked(x, jnp))(X), 1e-8)


def test_one_program_for_any_size():
    compiled = jit(hessian(lambda x: np.sum(np.sin(x) * np.cumsum(x))))
    for n in (4, 2, 1):
        agree(compiled(X[:n]), hessian(lambda x: np.sum(np.sin(x) * np.cumsum(x)))(X[:n]))
    assert compiled.cache_info().misses == 1


def test_arguments_are_chosen_by_any_integers():
    for kind in (jacfwd, jacrev, grad):
        expected = kind(lambda a, b: np.sum(a * b), 1)(X, X)
        agree(kind(lambda a, b: np.sum(a * b), np.int64(1))(X, X), expected)
        agree(kind(lambda a, b: np.sum(a * b), np.array([-1]))(X, X)[0], expected)
    with pytest.raises(TraceError, match="argnums names argument 2, and the call has 1"):
        jacrev(np.sin, 2)(X)


def test_integers_are_refused():
    with pytest.raises(DTypeError, match=r"the Jacobian of .* has no derivative"):
        jacfwd(np.sin)(np.arange(3))


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_branches_on_values(wrap):
    """The function is converted, as one that is given to grad."""

    def energy(x):
        if x[0] > 0:
            return (x * x).sum()
        return x.sum()

    for x, curvature in ((np.array([1.0, 2.0]), 2.0), (np.array([-1.0, 2.0]), 0.0)):
        np.testing.assert_allclose(wrap(hessian(energy))(x), curvature * np.eye(2))
        for kind in (jacfwd, jacrev):
            np.testing.assert_allclose(wrap(kind(energy))(x), grad(energy)(x))
