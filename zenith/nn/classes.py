"""Losses of classes: functions of a model's scores of the right class.

The score of the right class is gathered; the derivative compares each element's class with the right one, so that
gradients are elementwise and fuse with those of the softmax.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.errors import ShapeError, user_line
from zenith.ir.types import int64
from zenith.nn.activations import log_softmax
from zenith.nn.losses import reduced
from zenith.nn.rounding import rounded_once
from zenith.numpy.operands import dims_of, normal_axis, require, shape_text
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.transforms import custom_jvp

__all__ = ["cross_entropy", "nll_loss"]


@rounded_once
def cross_entropy(
    x: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, ignore_index: int = -100,
    label_smoothing: float = 0.0, reduction: str = "mean", axis: int = 1,
) -> Array:  # fmt: skip
    """The negative logarithm of the probability that ``softmax(x)`` gives the right class.

    Parameters
    ----------
    x: scores ``[n, c, ...]`` of c classes along ``axis`` (or ``[c]`` of one example), of floating-point numbers.
    target: integers ``[n, ...]``, the right classes, or probabilities of x's shape and of floating-point numbers.
    weight: the weight of each class ``[c]``, or None.
    ignore_index: a number in ``target`` whose loss is 0 and does not count.
    label_smoothing: this share of a target is spread evenly over all classes (Szegedy et al., 2016).
    reduction: ``"mean"`` over the weights of the right classes (with probabilities over examples), ``"sum"`` or
        ``"none"``.

    Raises ShapeError where shapes do not fit. A number that is no class is an OutOfBoundsError.

    >>> cross_entropy([[0.0, 0.0], [1000.0, 0.0]], [1, 0], reduction="none").round(4) + 0.0
    array([0.6931, 0.    ])
    """
    x, target = znp.asarray(x), znp.asarray(target)
    axis = _class_axis("cross_entropy", x, axis)
    if target.dtype.kind not in "iu":
        return _of_probabilities(x, target, weight, label_smoothing, reduction, axis)
    _check_target("cross_entropy", x, target, axis)
    losses, share = _losses(x, target, weight, ignore_index, label_smoothing, axis, normalised=False)
    return _weighted(losses, share, reduction)


@rounded_once
def nll_loss(
    x: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, ignore_index: int = -100, reduction: str = "mean",
    axis: int = 1,
) -> Array:  # fmt: skip
    """The negative of log-probabilities ``[n, c, ...]`` of the right classes ``[n, ...]``.

    Parameters and errors are those of :func:`cross_entropy`.

    >>> nll_loss([[-1.0, -2.0], [-3.0, -4.0]], [1, 0])
    np.float64(2.5)
    """
    x, target = znp.asarray(x), znp.asarray(target)
    losses, share = nll_terms(x, target, weight, ignore_index, _class_axis("nll_loss", x, axis))
    return _weighted(losses, share, reduction)


def nll_terms(x: Array, target: Array, weight: ArrayLike | None, ignore_index: int, axis: int) -> tuple[Array, Array]:
    """The losses of :func:`nll_loss`, each times its weight, and the weights."""
    _check_target("nll_loss", x, target, axis)
    return _losses(x, target, weight, ignore_index, 0.0, axis, normalised=True)


def _losses(
    x: Array,
    target: Array,
    weight: ArrayLike | None,
    ignore_index: int,
    smoothing: float,
    axis: int,
    normalised: bool,
) -> tuple[Array, Array]:
    """Losses times their weights, and the weights, 0 for ignored targets; x has scores unless normalised."""
    ignored = target == ignore_index
    safe = znp.astype(znp.where(ignored, 0, target), np.int64)
    share = znp.ones_like(safe, dtype=x.dtype) if weight is None else b.take(znp.asarray(weight), safe, axis=0)
    share = znp.where(ignored, 0, share)
    logs = log_softmax(x, axis) if smoothing and not normalised else x
    losses = -chosen(logs, safe, axis)
    if not smoothing and not normalised:
        largest = b.stop_gradient(znp.max(x, axis=axis, keepdims=True))
        total = znp.log(znp.sum(znp.exp(x - largest), axis=axis))
        losses = (losses + znp.squeeze(largest, axis)) + total  # in this order small losses keep their digits
    losses = znp.where(ignored, 0, losses if weight is None else losses * share)
    if smoothing:
        every = logs if weight is None else logs * _along(weight, x, axis)
        even = znp.where(ignored, 0, -znp.sum(every, axis=axis))
        losses = losses * (1.0 - smoothing) + even * (smoothing / x.shape[axis])
    return losses, share


def _of_probabilities(
    x: Array, target: Array, weight: ArrayLike | None, smoothing: float, reduction: str, axis: int
) -> Array:
    if target.ndim != x.ndim:
        raise ShapeError(
            f"probabilities of classes need the shape of scores, {shape_text(dims_of(x))}",
            where=user_line(), types=(shape_text(dims_of(target)),), fix="or give classes as integers",
        )  # fmt: skip
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / x.shape[axis]
    logs = log_softmax(x, axis)
    losses = -znp.sum((logs if weight is None else logs * _along(weight, x, axis)) * target, axis=axis)
    return reduced(losses, reduction)


def _weighted(losses: Array, share: Array, reduction: str) -> Array:
    """Weighted losses reduced; their mean is over the weights."""
    if reduction == "mean":
        return reduced(losses, "sum") / znp.sum(share, dtype=share.dtype)
    return reduced(losses, reduction)


def chosen(x: ArrayLike, classes: ArrayLike, axis: int) -> Array:
    """The elements of x at int64 indices along an axis, which is removed; -1 is out of bounds."""
    return _chosen_along(axis)(x, classes)


def _chosen_along(axis: int) -> Any:
    @custom_jvp
    def choose(x: Array, classes: Array) -> Array:
        lead, last = dims_of(classes)[:axis], dims_of(classes)[axis:]
        shape = (*lead, *last)
        others = [b.broadcast(b.iota(size=n, dtype=int64), shape=shape, axes=(i,)) for i, n in enumerate(shape)]
        return b.gather(x, *others[:axis], classes, *others[axis:])

    @choose.defjvp
    def rule(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
        (x, classes), (dx, _) = primals, tangents
        right = _along(znp.arange(x.shape[axis]), x, axis) == znp.expand_dims(classes, axis)
        return choose(x, classes), znp.sum(znp.where(right, dx, 0), axis=axis)

    return choose


def _class_axis(name: str, x: Array, axis: int) -> int:
    """The axis of classes: the only one of a single example."""
    return 0 if x.ndim == 1 else normal_axis(name, axis, x.ndim)


def _check_target(name: str, x: Array, target: Array, axis: int) -> None:
    sizes, own = [n for a, n in enumerate(dims_of(x)) if a != axis], dims_of(target)
    if len(own) != len(sizes):
        raise ShapeError(f"{name} needs one class for each example, {shape_text(sizes)}", where=user_line(),
                         types=(shape_text(own),), fix="give integers without the axis of classes")  # fmt: skip
    for size, wanted in zip(own, sizes, strict=True):
        require(size, "==", wanted, f"{name}: classes {shape_text(own)} for examples {shape_text(sizes)}")


def _along(values: ArrayLike, x: Array, axis: int) -> Array:
    """One number for each class, in a shape that broadcasts with an array of scores."""
    return znp.reshape(znp.asarray(values), (-1,) + (1,) * (x.ndim - 1 - axis))
