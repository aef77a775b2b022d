"""Functions written once over NumPy, and how their transforms are compared with those of JAX."""

import numpy as np
import pytest

from zenith import tree


def jax_and_numpy():
    """JAX with 64-bit types, and its NumPy; skips where it is not installed."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    return jax, jax.numpy


def agree(found, expected, tolerance=1e-10):
    """Equal structure, shapes, element types, and values within a relative tolerance."""
    ours, theirs = tree.flatten(found)[0], tree.flatten(expected)[0]
    assert len(ours) == len(theirs)
    for a, b in zip(ours, map(np.asarray, theirs), strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(np.asarray(a), b, rtol=tolerance, atol=tolerance)


def perceptron(params, x, np):
    """Layers of tanh over (batch, features)."""
    for weight, bias in params:
        x = np.tanh(x @ weight + bias)
    return x


def squared_error(params, x, y, np):
    """The mean squared error of a perceptron."""
    return np.mean((perceptron(params, x, np) - y) ** 2)


def attention(q, k, v, np):
    """Softmax attention of (heads, length, size), summed to a number."""
    scores = q @ np.swapaxes(k, -1, -2) / 2.0
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return np.sum(np.sin(e / np.sum(e, axis=-1, keepdims=True) @ v))


def normalised(x, np):
    """A layer normalisation of the last axis, weighted to a number."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    y = centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
    return np.sum(y * np.cos(x))


def picked(x, np):
    """Slices, picks by indices, joins, a running sum and a maximum."""
    joined = np.concatenate([x[1:], x[:1] * x[-1]])
    chosen = x[np.array([0, 2, 2])] * np.arange(3.0)
    return np.sum(np.cumsum(joined) * x) + np.max(x * x) + np.sum(np.where(x > 0, x**3, np.exp(x))) + np.sum(chosen)
