"""Derivatives where mathematics leaves a choice or numbers leave none: as docs/gradients.md says, and as JAX does."""

import numpy as np
import pytest

import zenith
from tests.sampling import leave
from tests.transforms.compare import jax_and_numpy
from zenith import grad, jit, jvp, vmap

INF, NAN = np.inf, np.nan
TIES = np.array([1.0, 3.0, 3.0])
EDGES = {
    "sqrt at 0": (lambda x, np: np.sqrt(x), 0.0, INF),
    "root of a power at 0": (lambda x, np: x**0.5, 0.0, INF),
    "square at 0": (lambda x, np: x**2, 0.0, 0.0),
    "norm written out at 0": (lambda x, np: np.sqrt(np.sum(x * x)), np.zeros(2), [NAN, NAN]),
    "norm at 0": (lambda x, np: np.linalg.norm(x), np.zeros(2), [NAN, NAN]),
    "deviation of equals": (lambda x, np: np.std(x), np.ones(2), [NAN, NAN]),
    "dead branch at 0": (lambda x, np: np.where(x > 0, np.sqrt(x), 0.0), 0.0, NAN),
    "dead branch below": (lambda x, np: np.where(x > 0, np.log(x), 0.0), -1.0, 0.0),
    "dead nan": (lambda x, np: np.where(x > 0, np.sqrt(x), 0.0), -1.0, NAN),
    "careful branch": (lambda x, np: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0), 0.0, 0.0),
    "maximum of equals": (lambda x, np: np.maximum(x, 0.0), 0.0, 0.5),
    "minimum of equals": (lambda x, np: np.minimum(0.0, x), 0.0, 0.5),
    "clip at a bound": (lambda x, np: np.clip(x, -1.0, 1.0), 1.0, 0.5),
    "max with ties": (lambda x, np: np.max(x), TIES, [0.0, 0.5, 0.5]),
    "min with ties": (lambda x, np: np.min(-x), TIES, [0.0, -0.5, -0.5]),
    "sort with ties": (lambda x, np: np.sum(np.sort(x) * np.arange(3.0)), TIES, [0.0, 1.0, 2.0]),
    "product with a zero": (lambda x, np: np.prod(x), np.array([0.0, 2.0, 3.0]), [6.0, 0.0, 0.0]),
    "product with zeros": (lambda x, np: np.prod(x), np.array([0.0, 0.0, 3.0]), [0.0, 0.0, 0.0]),
    "sign": (lambda x, np: np.sign(x), 0.0, 0.0),
    "floor": (lambda x, np: np.floor(x), 1.0, 0.0),
    "saturated": (lambda x, np: np.tanh(x), 1e10, 0.0),
    "logaddexp of equals": (lambda x, np: np.logaddexp(x, 0.0), 0.0, 0.5),
    "logaddexp2 of equals": (lambda x, np: np.logaddexp2(1.0, x), 1.0, 0.5),
    "arcsinh at 0": (lambda x, np: np.arcsinh(x), 0.0, 1.0),
    "arcsinh far out": (lambda x, np: np.arcsinh(x), 1e200, 0.0),
    "arctanh at 0": (lambda x, np: np.arctanh(x), 0.0, 1.0),
    "arcsin at 1": (lambda x, np: np.arcsin(x), 1.0, INF),
    "arccos at -1": (lambda x, np: np.arccos(x), -1.0, -INF),
    "cube root at 0": (lambda x, np: np.cbrt(x), 0.0, INF),
    "fmod at 0": (lambda x, np: np.fmod(x, 2.0), 0.0, 1.0),
    "logaddexp far out": (lambda x, np: np.logaddexp(x, 0.0), 1000.0, 1.0),
}


@pytest.mark.parametrize("name", EDGES)
def test_derivatives_at_edges(name):
    """At once, compiled, and for many examples."""
    function, x, expected = EDGES[name]
    ours = lambda x: function(x, np)  # noqa: E731
    with np.errstate(all="ignore"):
        found = grad(ours)(x)
        compiled = jit(grad(ours))(np.asarray(x))
        (each,) = vmap(grad(ours))(np.asarray(x)[None])
    for gradient in (found, compiled, each):
        np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_those_of_jax(name):
    jax, jnp = jax_and_numpy()
    function, x, expected = EDGES[name]
    near = {"rtol": 0, "atol": 1e-150}  # JAX 0.12 has 1e-200 for 0
    np.testing.assert_allclose(jax.grad(lambda x: function(x, jnp))(x), expected, **near)
    with np.errstate(all="ignore"):
        _, forward = jvp(lambda x: function(x, np), (x,), (np.ones_like(x),))
    np.testing.assert_allclose(forward, jax.jvp(lambda x: function(x, jnp), (x,), (np.ones_like(x),))[1], **near)


@pytest.mark.parametrize("x", leave(
    ([0.0, 2.0, 3.0], [2.0, 0.0, 0.0, 0.0]), [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [2.0, 0.0, 0.0, 0.0], [0.5, 2.0, 3.0]]
))  # fmt: skip
def test_products_with_zeros_have_all_their_derivatives(x):
    jax, jnp = jax_and_numpy()
    x = np.array(x)
    third = lambda jacobian, grad, prod: jacobian(jacobian(grad(prod)))(x)  # noqa: E731
    for ours, theirs in ((zenith.jacfwd, jax.jacfwd), (zenith.jacrev, jax.jacrev)):
        np.testing.assert_allclose(ours(grad(np.prod))(x), theirs(jax.grad(jnp.prod))(x), atol=1e-12)
        np.testing.assert_allclose(third(ours, grad, np.prod), third(theirs, jax.grad, jnp.prod), atol=1e-12)
    pairs = np.stack([x, x + 1])
    compiled = jit(vmap(zenith.hessian(np.prod)))(pairs)
    np.testing.assert_allclose(compiled, jax.vmap(jax.hessian(jnp.prod))(pairs), atol=1e-12)


SMOOTH = {
    "logaddexp": lambda x, np: np.logaddexp(x[0], x[1]),
    "logaddexp2": lambda x, np: np.logaddexp2(x[0], x[1]),
    "hypot": lambda x, np: np.hypot(x[0], x[1] - 1.0),
    "arcsinh": lambda x, np: np.arcsinh(x[0] - 1.0),
    "arctanh": lambda x, np: np.arctanh(x[0] - 1.0) + np.sinc(x[1] - 1.0),
    "powers": lambda x, np: (x[0] - 1.0) ** 2 * (x[1] - 1.0) ** 3 + (x[0] - 1.0) ** 2,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_have_second_derivatives_where_their_expressions_have_corners(name):
    jax, jnp = jax_and_numpy()
    x = np.array([1.0, 1.0])
    expected = jax.hessian(lambda x: SMOOTH[name](x, jnp))(x)
    for ours in (zenith.hessian(lambda x: SMOOTH[name](x, np)), jit(zenith.hessian(lambda x: SMOOTH[name](x, np)))):
        np.testing.assert_allclose(ours(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        (2.0, 0.0, [[0.0, 0.5], [0.5, np.log(2.0) ** 2]]),
        (-2.0, 3.0, [[-12.0, 0.0], [0.0, 0.0]]),
        (0.0, 2.0, [[2.0, 0.0], [0.0, 0.0]]),
        (0.0, 0.0, [[0.0, 0.0], [0.0, 0.0]]),
    ],
)
def test_powers_of_variable_exponents_have_symmetric_second_derivatives(base, exponent, expected):
    """By the exponent the derivative is 0 where the base is not positive; so is that of the derivative by the base."""
    at = np.array([base, exponent])
    for jacobian in (zenith.jacfwd, zenith.jacrev):
        with np.errstate(all="ignore"):
            found = jacobian(grad(lambda p: p[0] ** p[1]))(at)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_absolute_value_has_no_slope_at_0():
    """As in PyTorch; JAX says 1."""
    assert grad(np.abs)(0.0) == jit(grad(np.abs))(np.float64(0)) == 0


def test_what_jax_answers_otherwise():
    assert grad(lambda y: np.power(-2.0, y))(2.0) == grad(lambda y: np.power(0.0, y))(2.0) == 0
    assert grad(lambda x: np.hypot(x, 0.0))(0.0) == 0


def branching(x, positive):
    return zenith.cond(positive, np.sqrt, lambda x: 0.0 * x, x)


def test_a_branch_that_does_not_run_leaves_no_trace():
    xs = np.array([0.0, 0.0])
    assert jit(grad(branching))(0.0, False) == 0
    assert jit(vmap(grad(branching), in_axes=(0, None)))(xs, False).tolist() == [0, 0]
    choice = np.array([False, True])
    with np.errstate(all="ignore"):
        chosen = jit(vmap(grad(branching)))(xs, choice)
        masked = jit(grad(lambda xs: np.sum(vmap(branching)(xs, choice))))(xs)
    np.testing.assert_array_equal(chosen, [0, INF])
    np.testing.assert_array_equal(masked, [NAN, INF])


@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
@pytest.mark.parametrize(
    ("x", "y", "shares"),
    [
        (-INF, -INF, (0.5, 0.5)), (INF, INF, (0.5, 0.5)), (1e30, 1e30, (0.5, 0.5)), (-INF, 1.0, (0.0, 1.0)),
        (INF, 1.0, (1.0, 0.0)), (1.0, -INF, (1.0, 0.0)), (2.0, 2.0, (0.5, 0.5)),
    ],
)  # fmt: skip
def test_shares_of_a_sum_of_exponentials_are_one_together(name, x, y, shares):
    function = getattr(np, name)
    np.testing.assert_allclose(grad(function, argnums=(0, 1))(x, y), shares)
    np.testing.assert_allclose(jvp(function, (x, y), (1.0, 1.0))[1], 1.0)
