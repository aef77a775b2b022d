"""Losses between arrays of one shape: regression, probabilities, distances. Those of classes are in classes.py.

``reduction`` says how the losses of all elements are reduced: ``"mean"``, ``"sum"``, or ``"none"`` for not at all.
16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

import zenith.numpy as znp
from zenith.errors import ArgumentError, user_line
from zenith.nn.rounding import rounded_once
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.transforms import custom_jvp

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss",
    "triplet_margin_loss",
]  # fmt: skip

_LEAST_LOG = -100.0  # as PyTorch's binary cross entropy has it
_SMALL = 1e-12


def reduced(losses: Array, reduction: str) -> Array:
    """The mean or the sum of losses, or all of them; ArgumentError for another reduction."""
    if reduction == "mean":
        return znp.mean(losses)
    if reduction == "sum":
        return znp.sum(losses, dtype=losses.dtype if losses.dtype.kind not in "biu" else None)
    if reduction != "none":
        raise ArgumentError(
            f"there is no reduction {reduction!r}", where=user_line(), fix='use "mean", "sum" or "none"'
        )
    return losses


@rounded_once
def mse_loss(x: ArrayLike, y: ArrayLike, reduction: str = "mean") -> Array:
    """Squares of differences.

    >>> mse_loss([1.0, 3.0], [0.0, 0.0])
    np.float64(5.0)
    """
    difference = znp.subtract(x, y)
    return reduced(difference * difference, reduction)


@rounded_once
def l1_loss(x: ArrayLike, y: ArrayLike, reduction: str = "mean") -> Array:
    """Absolute differences.

    >>> l1_loss([1.0, -3.0], [0.0, 0.0])
    np.float64(2.0)
    """
    return reduced(znp.abs(znp.subtract(x, y)), reduction)


@rounded_once
def huber_loss(x: ArrayLike, y: ArrayLike, delta: float = 1.0, reduction: str = "mean") -> Array:
    """Half the square of a difference d up to ``delta``, ``delta (abs(d) - delta / 2)`` beyond (Huber, 1964).

    >>> huber_loss([1.0, -3.0], [0.0, 0.0], reduction="none")
    array([0.5, 2.5])
    """
    size = znp.abs(znp.subtract(x, y))
    near = znp.minimum(size, delta)  # whose square has slopes for an infinite difference, too
    return reduced(0.5 * near * near + delta * znp.where(size <= delta, 0, size - delta), reduction)


@rounded_once
def smooth_l1_loss(x: ArrayLike, y: ArrayLike, beta: float = 1.0, reduction: str = "mean") -> Array:
    """:func:`huber_loss` over ``beta``: near :func:`l1_loss` for a small one, which it is for 0.

    >>> smooth_l1_loss([1.0, -3.0], [0.0, 0.0], beta=2.0, reduction="none")
    array([0.25, 2.  ])
    """
    if beta == 0:
        return l1_loss(x, y, reduction)
    difference = znp.subtract(x, y)
    size = znp.abs(difference)
    return reduced(znp.where(size < beta, 0.5 * difference * difference / beta, size - 0.5 * beta), reduction)


@rounded_once
def binary_cross_entropy(p: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None, reduction: str = "mean") -> Array:
    """``-y log(p) - (1 - y) log(1 - p)`` for probabilities p; logarithms are at least -100, as in PyTorch.

    >>> binary_cross_entropy([0.5], [1.0]).round(4)
    np.float64(0.6931)
    """
    p, y = znp.broadcast_arrays(*_alike(p, y))
    losses = _binary_cross_entropy(p, y)
    return reduced(losses if weight is None else losses * weight, reduction)


@custom_jvp
def _binary_cross_entropy(p: Array, y: Array) -> Array:
    likely, unlikely = _bounded_logs(p)
    return (y - 1.0) * unlikely - y * likely


@_binary_cross_entropy.defjvp
def _rule(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    """PyTorch's derivative, finite at 0 and 1."""
    (p, y), (dp, dy) = primals, tangents
    likely, unlikely = _bounded_logs(p)
    slope = (p - y) / znp.maximum((1.0 - p) * p, _SMALL)
    return _binary_cross_entropy(p, y), slope * dp + (unlikely - likely) * dy


def _bounded_logs(p: Array) -> tuple[Array, Array]:
    return znp.maximum(znp.log(p), _LEAST_LOG), znp.maximum(znp.log1p(-p), _LEAST_LOG)


@rounded_once
def binary_cross_entropy_with_logits(
    x: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None, pos_weight: ArrayLike | None = None,
    reduction: str = "mean",
) -> Array:  # fmt: skip
    """:func:`binary_cross_entropy` of ``sigmoid(x)``, exact for every x; ``pos_weight`` multiplies y in its first term.

    >>> binary_cross_entropy_with_logits([0.0, 1000.0], [1.0, 1.0], reduction="none").round(4)
    array([0.6931, 0.    ])
    """
    x, y = _alike(x, y)
    positive = znp.logaddexp(-x, 0.0)  # -log(sigmoid(x))
    share = positive if pos_weight is None else positive * ((znp.asarray(pos_weight) - 1.0) * y + 1.0)
    losses = (1.0 - y) * x + share
    return reduced(losses if weight is None else losses * weight, reduction)


@rounded_once
def kl_div(x: ArrayLike, y: ArrayLike, log_target: bool = False, reduction: str = "mean") -> Array:
    """``y (log(y) - x)`` for log-probabilities x and probabilities y, which are logarithms too with ``log_target``.

    The reduction ``"batchmean"``, the sum over the size of the first axis, is the divergence of Kullback and Leibler.

    >>> kl_div([-0.6931471805599453] * 2, [1.0, 0.0], reduction="sum").round(4)
    np.float64(0.6931)
    """
    x, y = _alike(x, y)
    losses = znp.exp(y) * (y - x) if log_target else znp.special.xlogy(y, y) - y * x
    if reduction == "batchmean":
        return znp.sum(losses, dtype=losses.dtype) / x.shape[0]
    return reduced(losses, reduction)


@rounded_once
def poisson_nll_loss(
    x: ArrayLike, y: ArrayLike, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Array:
    """The negative logarithm of a Poisson distribution's probability of y, for a mean of exp(x), or x if not
    ``log_input``; ``full`` adds Stirling's formula for the logarithm of y's factorial where y is above 1.

    >>> poisson_nll_loss([0.0], [2.0])
    np.float64(1.0)
    """
    x, y = _alike(x, y)
    losses = znp.exp(x) - y * x if log_input else x - y * znp.log(x + eps)
    if full:
        many = znp.where(y > 1, y, 1)
        losses = losses + znp.where(y > 1, many * znp.log(many) - many + 0.5 * znp.log(2.0 * math.pi * many), 0)
    return reduced(losses, reduction)


@rounded_once
def gaussian_nll_loss(
    x: ArrayLike, y: ArrayLike, var: ArrayLike, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Array:
    """The negative logarithm of a normal distribution's density at y for mean x and variance ``var``.

    The variance is at least ``eps``, which derivatives ignore; ``full`` adds the constant.

    >>> gaussian_nll_loss([0.0], [2.0], [1.0])
    np.float64(2.0)
    """
    x, y = _alike(x, y)
    var = znp.asarray(var)
    var = var + b.stop_gradient(znp.maximum(eps - var, 0.0))
    difference = x - y
    losses = 0.5 * (znp.log(var) + difference * difference / var)
    return reduced(losses + 0.5 * math.log(2.0 * math.pi) if full else losses, reduction)


@rounded_once
def hinge_embedding_loss(x: ArrayLike, y: ArrayLike, margin: float = 1.0, reduction: str = "mean") -> Array:
    """x where y is 1, and ``max(margin - x, 0)`` where y is -1.

    >>> hinge_embedding_loss([0.25, 0.25], [1, -1], reduction="none")
    array([0.25, 0.75])
    """
    x, y = znp.asarray(x), znp.asarray(y)
    return reduced(znp.where(y != 1, _positive(margin - x), 0) + znp.where(y != -1, x, 0), reduction)


@rounded_once
def cosine_embedding_loss(
    x1: ArrayLike, x2: ArrayLike, y: ArrayLike, margin: float = 0.0, reduction: str = "mean"
) -> Array:
    """``1 - cosine`` between rows where y is 1; ``max(cosine - margin, 0)`` where it is -1.

    Parameters: x1 and x2 are ``[..., d]``, y is ``[...]``.

    >>> cosine_embedding_loss([[1.0, 0.0]], [[0.0, 1.0]], [1]).round(4)
    np.float64(1.0)
    """
    x1, x2 = _alike(x1, x2)
    y = znp.asarray(y)
    squares = (znp.sum(x1 * x1, axis=-1) + _SMALL) * (znp.sum(x2 * x2, axis=-1) + _SMALL)
    cosine = znp.sum(x1 * x2, axis=-1) / znp.sqrt(squares)
    far = znp.where(y == -1, _positive(cosine - margin), 0)
    return reduced(znp.where(y == 1, 1.0 - cosine, 0) + far, reduction)


@rounded_once
def triplet_margin_loss(
    anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean",
) -> Array:  # fmt: skip
    """``max(d(anchor, positive) - d(anchor, negative) + margin, 0)`` for distances d between rows.

    Parameters
    ----------
    anchor, positive, negative: arrays ``[..., d]``.
    p: distances are p-norms of differences, to which ``eps`` is added.
    swap: take the negative's distance from the positive one where that is smaller (Balntas et al., 2016).

    >>> triplet_margin_loss([[0.0]], [[2.0]], [[1.0]]).round(4)
    np.float64(2.0)
    """
    near, far = _distance(anchor, positive, p, eps), _distance(anchor, negative, p, eps)
    if swap:
        far = znp.minimum(far, _distance(positive, negative, p, eps))
    return reduced(_positive(near - far + margin), reduction)


def _distance(x: ArrayLike, y: ArrayLike, p: float, eps: float) -> Array:
    difference = znp.subtract(x, y) + eps
    if p == float("inf"):
        return znp.max(znp.abs(difference), axis=-1)
    if p == 2:
        return znp.sqrt(znp.sum(difference * difference, axis=-1))
    return znp.sum(znp.abs(difference) ** p, axis=-1) ** (1.0 / p)


def _positive(x: Any) -> Array:
    """x, at least 0, where the derivative is that of x."""
    return znp.where(x < 0, 0, x)


def _alike(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    return znp.asarray(x), znp.asarray(y)
