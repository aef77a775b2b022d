"""Activations: elementwise functions between layers, softmax and its kin.

Derivatives at corners are those of PyTorch and JAX: 0 for :func:`relu` at 0, where a maximum would share it. 16-bit
floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math

import numpy as np

import zenith.numpy as znp
from zenith.errors import ShapeError, user_line
from zenith.nn.rounding import rounded_once
from zenith.numpy import special
from zenith.numpy.operands import ask, dims_of, normal_axis
from zenith.numpy.special import erf, expit, log_expit
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Size

__all__ = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid", "log_softmax",
    "logsumexp", "mish", "one_hot", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus",
    "swish",
]  # fmt: skip

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_OVER_PI = math.sqrt(2.0 / math.pi)
# Klambauer, Unterthiner, Mayr and Hochreiter, "Self-normalizing neural networks", 2017.
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


def relu(x: ArrayLike) -> Array:
    """The larger of x and 0; nan stays nan. The derivative at 0 is 0.

    >>> relu([-1.0, 0.0, 2.0])
    array([0., 0., 2.])
    """
    x = znp.asarray(x)
    return znp.where(x <= 0, 0, x)


def hard_tanh(x: ArrayLike, low: float = -1.0, high: float = 1.0) -> Array:
    """x between two numbers, else the nearer of them. The derivative is 0 there, and at both numbers.

    >>> hard_tanh([-3.0, 0.5, 2.0])
    array([-1. ,  0.5,  1. ])
    """
    x = znp.asarray(x)
    return znp.where(x >= high, high, znp.where(x <= low, low, x))


def relu6(x: ArrayLike) -> Array:
    """x between 0 and 6, else the nearer of them.

    >>> relu6([-1.0, 2.0, 8.0])
    array([0., 2., 6.])
    """
    return hard_tanh(x, 0, 6)


@rounded_once
def hard_sigmoid(x: ArrayLike) -> Array:
    """The straight line ``x / 6 + 1 / 2`` between 0 and 1.

    >>> hard_sigmoid([-4.0, 0.0, 4.0])
    array([0. , 0.5, 1. ])
    """
    return relu6(znp.asarray(x) + 3.0) / 6.0


@rounded_once
def hard_swish(x: ArrayLike) -> Array:
    """``x hard_sigmoid(x)`` (Howard et al., "Searching for MobileNetV3", 2019).

    >>> hard_swish([3.0, 0.0])
    array([3., 0.])
    """
    x = znp.asarray(x)
    return x * relu6(x + 3.0) / 6.0


@rounded_once
def leaky_relu(x: ArrayLike, slope: float = 0.01) -> Array:
    """x where it is positive, else ``slope`` times x.

    >>> leaky_relu([-2.0, 3.0], 0.5)
    array([-1.,  3.])
    """
    x = znp.asarray(x)
    return znp.where(x > 0, x, x * slope)


@rounded_once
def elu(x: ArrayLike, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """``scale`` times x where it is positive, else ``scale alpha (exp(input_scale x) - 1)``.

    >>> elu([0.0, 2.0])
    array([0., 2.])
    """
    x = znp.asarray(x)
    below = znp.expm1(znp.where(x > 0, 0, x) * input_scale)  # no exponential overflows where the other branch is taken
    return znp.where(x > 0, x * scale, below * (alpha * scale))


def selu(x: ArrayLike) -> Array:
    """:func:`elu` with the constants that preserve mean 0 and variance 1.

    >>> selu([0.0, 1.0]).round(4)
    array([0.    , 1.0507])
    """
    return elu(x, SELU_ALPHA, SELU_SCALE)


def celu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """``alpha (exp(x / alpha) - 1)`` where x is negative, else x.

    >>> celu([0.0, 2.0], 2.0)
    array([0., 2.])
    """
    return elu(x, alpha, 1.0, 1.0 / alpha)


def sigmoid(x: ArrayLike) -> Array:
    """The logistic function ``1 / (1 + exp(-x))``.

    >>> sigmoid(0.0)
    np.float64(0.5)
    """
    return expit(x)


def log_sigmoid(x: ArrayLike) -> Array:
    """The logarithm of :func:`sigmoid`, without overflow.

    >>> log_sigmoid(0.0).round(4)
    np.float64(-0.6931)
    """
    return log_expit(x)


@rounded_once
def silu(x: ArrayLike) -> Array:
    """``x sigmoid(x)``, also called swish.

    >>> silu([0.0, 1.0]).round(4)
    array([0.    , 0.7311])
    """
    x = znp.asarray(x)
    return x * expit(x)


swish = silu


@rounded_once
def gelu(x: ArrayLike, approximate: bool = False) -> Array:
    """x times the share of a normal distribution below x; ``approximate`` takes the formula with tanh.

    Hendrycks and Gimpel, "Gaussian error linear units", 2016.

    >>> gelu([0.0, 1.0]).round(4)
    array([0.    , 0.8413])
    """
    x = znp.asarray(x)
    if approximate:
        return 0.5 * x * (1.0 + znp.tanh(_ROOT_TWO_OVER_PI * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + erf(x * _ROOT_HALF))


@rounded_once
def softplus(x: ArrayLike, beta: float = 1.0, threshold: float = math.inf) -> Array:
    """``log(1 + exp(beta x)) / beta`` without overflow; x itself where ``beta x`` is above a threshold.

    >>> softplus([0.0, 1000.0]).round(4).tolist()
    [0.6931, 1000.0]
    """
    x = znp.asarray(x)
    scaled = x if beta == 1.0 else x * beta
    smooth = znp.logaddexp(scaled, 0.0)
    smooth = smooth if beta == 1.0 else smooth / beta
    return smooth if threshold == math.inf else znp.where(scaled > threshold, x, smooth)


@rounded_once
def mish(x: ArrayLike) -> Array:
    """``x tanh(softplus(x))`` (Misra, 2019).

    >>> mish([0.0, 1.0]).round(4)
    array([0.    , 0.8651])
    """
    x = znp.asarray(x)
    return x * znp.tanh(softplus(x))


@rounded_once
def soft_sign(x: ArrayLike) -> Array:
    """``x / (1 + abs(x))``.

    >>> soft_sign([-1.0, 3.0])
    array([-0.5 ,  0.75])
    """
    x = znp.asarray(x)
    return x / (znp.abs(x) + 1.0)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half of an axis times :func:`sigmoid` of the second; ShapeError when the axis has no halves.

    >>> glu([1.0, 2.0, 0.0, 0.0])
    array([0.5, 1. ])
    """
    x = znp.asarray(x)
    at = normal_axis("glu", axis, x.ndim)
    size = dims_of(x)[at]
    if not ask(size % 2, "==", 0):
        raise ShapeError(f"glu halves an axis, whose size {size} is odd", where=user_line(), fix="give it an even size")
    lead, half = (slice(None),) * at, x.shape[at] // 2
    return _gated(x[(*lead, slice(None, half))], x[(*lead, slice(half, None))])


@rounded_once
def _gated(x: Array, gate: Array) -> Array:
    return x * expit(gate)


@rounded_once
def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """``exp(x) / sum(exp(x))`` along an axis, relative to the largest element, so that nothing overflows.

    >>> softmax([1.0, 1.0, 1.0, 1.0])
    array([0.25, 0.25, 0.25, 0.25])
    """
    return special.softmax(x, axis)


@rounded_once
def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """The logarithm of :func:`softmax`, exact where that is nearly 0.

    >>> log_softmax([1.0, 1.0]).round(4)
    array([-0.6931, -0.6931])
    """
    return special.log_softmax(x, axis)


@rounded_once
def logsumexp(x: ArrayLike, axis: int = -1, keepdims: bool = False) -> Array:
    """``log(sum(exp(x)))`` along an axis without overflow; minus infinity where all elements are.

    >>> logsumexp([1000.0, 1000.0]).round(4)
    np.float64(1000.6931)
    """
    return special.logsumexp(x, axis, keepdims=keepdims)


def one_hot(x: ArrayLike, num_classes: Size, dtype: DTypeLike = np.float32, axis: int = -1) -> Array:
    """1 at the index that an integer is, along a new axis of ``num_classes``, 0 elsewhere.

    An integer that is no class, such as -1, gives 0 everywhere.

    >>> one_hot([1, 0, -1], 2)
    array([[0., 1.],
           [1., 0.],
           [0., 0.]], dtype=float32)
    """
    x = znp.asarray(x)
    at = normal_axis("one_hot", axis, x.ndim + 1)
    classes = znp.reshape(znp.arange(num_classes), (-1,) + (1,) * (x.ndim - at))
    return znp.astype(znp.expand_dims(x, at) == classes, dtype)
