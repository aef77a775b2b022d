"""Random numbers under transforms: batches of keys are loops over them, and derivatives go through what is drawn."""

import numpy as np
import pytest

import zenith
from zenith import random

DRAWS = {
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 7),
    "bits": lambda k: random.bits(k, (3, 2)),
    "uniform": lambda k: random.uniform(k, (3, 2), minval=-1.0, maxval=5.0),
    "normal": lambda k: random.normal(k, (3, 2)),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (3, 2)),
    "randint": lambda k: random.randint(k, (3, 2), -5, 17),
    "categorical": lambda k: random.categorical(k, np.zeros((4, 3), np.float32)),
    "permutation": lambda k: random.permutation(k, 6),
    "choice": lambda k: random.choice(k, np.arange(8), (3,), replace=False),
    "gamma": lambda k: random.gamma(k, 2.0, (3,)),
}


@pytest.mark.parametrize("wrap", [lambda f: f, zenith.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", DRAWS)
def test_a_batch_of_keys_is_a_loop_over_keys(name, wrap):
    keys = random.split(random.key(1), 4)
    found = wrap(zenith.vmap(DRAWS[name]))(keys)
    expected = np.stack([DRAWS[name](key) for key in keys])
    assert found.dtype == expected.dtype
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    else:
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("wrap", [lambda f: f, zenith.jit], ids=["eager", "jit"])
def test_derivatives_by_the_parameters_of_what_is_drawn(wrap):
    """The derivative of a mean over ``mu + sigma z`` by mu is that of the function, by sigma z times it."""
    key = random.key(2)

    def loss(parameters):
        x = parameters[0] + parameters[1] * random.normal(key, (100,), np.float64)
        return np.mean(x * x)

    z = random.normal(key, (100,), np.float64)
    found = wrap(zenith.grad(loss))(np.array([1.5, 0.5]))
    np.testing.assert_allclose(found, [np.mean(3 + z), np.mean((3 + z) * z)], rtol=1e-12)


def test_derivatives_by_bounds_and_through_a_sort():
    key = random.key(3)

    def largest(high):
        return np.sort(random.uniform(key, (50,), np.float64, maxval=high))[-1]

    unit = random.uniform(key, (50,), np.float64)
    np.testing.assert_allclose(zenith.jit(zenith.grad(largest))(3.0), unit.max(), rtol=1e-12)


def test_dropout_inside_a_gradient_uses_one_mask():
    key, x = random.key(4), np.linspace(-1, 1, 40)

    def dropped(weights):
        chosen = random.bernoulli(key, 0.75, weights.shape)
        return np.sum(np.where(chosen, weights * x, 0.0))

    mask = random.bernoulli(key, 0.75, (40,))
    assert np.array_equal(zenith.jit(zenith.grad(dropped))(np.ones(40)), np.where(mask, x, 0.0))
