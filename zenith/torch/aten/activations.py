"""Activations, softmax and dropout: the functions of :mod:`zenith.nn` with PyTorch's parameters."""

from __future__ import annotations

from collections.abc import Callable

import zenith.numpy as znp
from zenith import nn
from zenith.checks import error_if
from zenith.errors import UnsupportedError
from zenith.ir.types import kind_of
from zenith.numpy.typing import Array
from zenith.torch.aten.rules import RULES, Context, rule

_UNARY: dict[str, Callable[[Array], Array]] = {
    "relu": nn.relu, "relu6": nn.relu6, "silu": nn.silu, "sigmoid": nn.sigmoid, "mish": nn.mish, "selu": nn.selu,
    "hardswish": nn.hard_swish, "hardsigmoid": nn.hard_sigmoid, "log_sigmoid": nn.log_sigmoid,
}  # fmt: skip


def _register_unary() -> None:
    for name, unary in _UNARY.items():
        RULES[name] = lambda c, x, f=unary: f(c.cast(x))


_register_unary()


@rule("hardtanh")
def _hardtanh(c: Context, x: Array, min: float = -1, max: float = 1) -> Array:
    if kind_of(c.dtype) != "f":
        return znp.clip(x, int(min), int(max))
    return nn.hard_tanh(*c.cast(x, min, max))


@rule("leaky_relu")
def _leaky_relu(c: Context, x: Array, slope: float = 0.01) -> Array:
    return nn.leaky_relu(c.cast(x), slope)


@rule("rrelu_with_noise_functional")
def _rrelu(
    c: Context, x: Array, noise: Array, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, *_: object
) -> tuple[Array, Array]:
    """The mean slope, where none is drawn."""
    if training:
        raise UnsupportedError("PyTorch draws its slopes", fix="call module.eval() before from_torch")
    return nn.leaky_relu(c.cast(x), (lower + upper) / 2), noise


@rule("elu")
def _elu(c: Context, x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    return nn.elu(c.cast(x), alpha, scale, input_scale)


@rule("celu")
def _celu(c: Context, x: Array, alpha: float = 1.0) -> Array:
    return nn.celu(c.cast(x), alpha)


@rule("gelu")
def _gelu(c: Context, x: Array, approximate: str = "none") -> Array:
    return nn.gelu(c.cast(x), approximate == "tanh")


@rule("softplus")
def _softplus(c: Context, x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return nn.softplus(c.cast(x), beta, threshold)


@rule("glu")
def _glu(c: Context, x: Array, dim: int = -1) -> Array:
    return nn.glu(c.cast(x), dim)


@rule("softmax.int", "_softmax")
def _softmax(c: Context, x: Array, dim: int, *_: object) -> Array:
    return _along(nn.softmax, c.cast(x), dim)


@rule("log_softmax.int", "_log_softmax")
def _log_softmax(c: Context, x: Array, dim: int, *_: object) -> Array:
    return _along(nn.log_softmax, c.cast(x), dim)


def _along(function: Callable[..., Array], x: Array, dim: int) -> Array:
    """A number is a row of one."""
    return function(x, dim) if x.ndim else znp.reshape(function(znp.reshape(x, (1,)), 0), ())


@rule("leaky_relu_backward")
def _leaky_relu_backward(c: Context, grad: Array, x: Array, slope: float, self_is_result: bool) -> Array:
    return znp.where(x > 0, grad, grad * slope)


@rule("hardshrink_backward", "softshrink_backward")
def _shrink_backward(c: Context, grad: Array, x: Array, bound: float) -> Array:
    return znp.where((x >= -bound) & (x <= bound), 0, grad)


@rule("one_hot")
def _one_hot(c: Context, x: Array, num_classes: int = -1) -> Array:
    """As in PyTorch, what names no class is an error."""
    wrong = (x < 0) | (x >= num_classes)
    return nn.one_hot(error_if(x, wrong, "one_hot: a number names no class"), num_classes, c.dtype)


@rule("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
def _dropout(c: Context, x: Array, p: float, train: bool) -> Array:
    return _native_dropout(c, x, p, train)[0]


@rule("native_dropout")
def _native_dropout(c: Context, x: Array, p: float, train: bool | None) -> tuple[Array, Array]:
    if train and p:
        raise UnsupportedError(
            "dropout in training mode is not supported: PyTorch draws from a state that no compiled program sees",
            fix="call module.eval() before from_torch; zenith.nn.dropout takes a key",
        )
    return x, znp.ones(x.shape, dtype=bool)
