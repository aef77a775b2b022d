"""Layers that several workloads share, once over ``numpy`` or a module like it (``np``), once as PyTorch modules."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.workload import Array

GELU_SCALE = 0.7978845608028654  # sqrt(2 / pi)
EPSILON = 1e-5


def gelu(x: Array, np: Any) -> Array:
    """The tanh form of the Gaussian error linear unit."""
    result: Array = 0.5 * x * (1 + np.tanh(GELU_SCALE * (x + 0.044715 * x * x * x)))
    return result


def layer_norm(x: Array, scale: Array, shift: Array, np: Any) -> Array:
    """Normalise the last axis, then scale and shift it."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    result: Array = centred / np.sqrt(variance + EPSILON) * scale + shift
    return result


def softmax(x: Array, np: Any) -> Array:
    """Softmax over the last axis."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    result: Array = e / np.sum(e, axis=-1, keepdims=True)
    return result


def torch_linear(w: Array, b: Array) -> Any:
    """A linear layer with weights (out, in) and bias (out,)."""
    import torch

    linear = torch.nn.Linear(w.shape[1], w.shape[0], device="meta")
    linear.weight, linear.bias = _parameter(w), _parameter(b)
    return linear


def torch_layer_norm(scale: Array, shift: Array) -> Any:
    """A layer normalisation with scale and shift (n,)."""
    import torch

    norm = torch.nn.LayerNorm(scale.shape[0], eps=EPSILON, device="meta")
    norm.weight, norm.bias = _parameter(scale), _parameter(shift)
    return norm


def torch_gelu() -> Any:
    """The tanh form of the Gaussian error linear unit."""
    import torch

    return torch.nn.GELU(approximate="tanh")


def _parameter(x: Array) -> Any:
    import torch

    return torch.nn.Parameter(torch.from_numpy(x))
