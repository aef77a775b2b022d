"""Normalisation: to mean 0 and variance 1 over some axes, then scaled and shifted.

Variances are means of squared distances from the mean, never differences of squares, so that a large mean costs no
digits. 16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith.errors import ShapeError, user_line
from zenith.ir.dims import product
from zenith.nn.rounding import rounded_once
from zenith.numpy.operands import ask, dims_of, normal_axes, normal_axis, user_shape
from zenith.numpy.typing import Array, ArrayLike, Axes
from zenith.trace.sizes import UserSize, user_size
from zenith.transforms import custom_jvp

__all__ = [
    "batch_norm", "batch_norm_training", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "rms_norm",
]  # fmt: skip


@rounded_once
def layer_norm(
    x: Array, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5, axis: Axes = -1
) -> Array:
    """Normalised over some axes (Ba, Kiros and Hinton, "Layer normalization", 2016).

    Parameters
    ----------
    x: array ``[..., *n]`` of floating-point numbers.
    weight, bias: arrays ``[*n]`` that scale and shift the result, or None.
    eps: added to the variance.
    axis: the axes ``n``, one or several; by default the last.

    >>> layer_norm([[1.0, 3.0]], eps=0.0)
    array([[-1.,  1.]])
    """
    return layer_norm_with_statistics(x, weight, bias, eps, axis)[0]


def layer_norm_with_statistics(
    x: Array, weight: ArrayLike | None, bias: ArrayLike | None, eps: float, axis: Axes
) -> tuple[Array, Array, Array]:
    """The result of :func:`layer_norm`, the mean and one over the root of variance and ``eps``, with axes of size 1."""
    x = znp.asarray(x)
    axes = normal_axes("layer_norm", axis, x.ndim)
    mean = znp.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    rstd = 1.0 / znp.sqrt(znp.mean(centred * centred, axis=axes, keepdims=True) + eps)
    return _affine(centred * rstd, _along(axes, weight, x.ndim), _along(axes, bias, x.ndim)), mean, rstd


@rounded_once
def rms_norm(x: Array, weight: ArrayLike | None = None, eps: float | None = None, axis: Axes = -1) -> Array:
    """Divided by the root of the mean square (Zhang and Sennrich, "Root mean square layer normalization", 2019).

    Parameters
    ----------
    x: array ``[..., *n]`` of floating-point numbers.
    weight: array ``[*n]`` that scales the result, or None.
    eps: added to the mean square; the distance of 1 to the next number of the type computed in for None, as in PyTorch.
    axis: the axes ``n``, one or several; by default the last.

    >>> rms_norm([[3.0, 4.0]]).round(4)
    array([[0.8485, 1.1314]])
    """
    x = znp.asarray(x)
    axes = normal_axes("rms_norm", axis, x.ndim)
    least = float(znp.finfo(x.dtype).eps) if eps is None else eps
    normalised = x * (1.0 / znp.sqrt(znp.mean(x * x, axis=axes, keepdims=True) + least))
    return _affine(normalised, _along(axes, weight, x.ndim), None)


@rounded_once
def batch_norm(
    x: ArrayLike, mean: ArrayLike, var: ArrayLike, weight: ArrayLike | None = None, bias: ArrayLike | None = None,
    eps: float = 1e-5, axis: int = 1,
) -> Array:  # fmt: skip
    """Normalised for each channel by a mean and a variance that are given: batch normalisation in inference.

    Parameters
    ----------
    x: array of floating-point numbers with ``c`` channels along ``axis``.
    mean, var: arrays ``[c]``, such as the running statistics that :func:`batch_norm_training` returns.
    weight, bias: arrays ``[c]`` that scale and shift the result, or None.
    eps: added to the variance.

    >>> batch_norm([[1.0], [3.0]], [2.0], [4.0], eps=0.0)
    array([[-0.5],
           [ 0.5]])
    """
    x = znp.asarray(x)
    axis = normal_axis("batch_norm", axis, x.ndim)
    return _scaled(x - of_channels(znp.asarray(mean), x, axis), znp.asarray(var), weight, bias, eps, axis)


def _scaled(
    centred: Array, var: Array, weight: ArrayLike | None, bias: ArrayLike | None, eps: float, axis: int
) -> Array:
    """Distances from a mean over the root of a variance; scale and shift are one number for each channel."""
    scale = 1.0 / znp.sqrt(var + eps)
    scale = scale if weight is None else scale * weight
    return _shifted(centred * of_channels(scale, centred, axis), bias, centred, axis)


@rounded_once
def batch_norm_training(
    x: ArrayLike, mean: ArrayLike | None = None, var: ArrayLike | None = None, weight: ArrayLike | None = None,
    bias: ArrayLike | None = None, momentum: float = 0.1, eps: float = 1e-5, axis: int = 1,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Normalised for each channel over all other axes, and the new running statistics.

    Ioffe and Szegedy, "Batch normalization", 2015. Nothing is written: the caller stores the returned statistics.

    Parameters
    ----------
    x: array of floating-point numbers with ``c`` channels along ``axis``.
    mean, var: running statistics ``[c]``, or None, which gives those of this batch.
    weight, bias: arrays ``[c]`` that scale and shift the result, or None.
    momentum: the share of this batch in the new statistics; its variance is the unbiased one there, as in PyTorch.
    eps: added to the variance.

    Returns the result, the new mean and the new variance. Raises ShapeError when there is one value per channel.

    >>> y, mean, var = batch_norm_training([[1.0], [3.0]], [0.0], [1.0], eps=0.0)
    >>> y.tolist(), mean.round(4).tolist(), var.round(4).tolist()
    ([[-1.0], [1.0]], [0.2], [1.1])
    """
    x = znp.asarray(x)
    axis = normal_axis("batch_norm_training", axis, x.ndim)
    count = product(n for a, n in enumerate(dims_of(x)) if a != axis)
    if not ask(count, ">", 1):
        raise ShapeError("batch normalisation needs more than one value for each channel", where=user_line(),
                         fix="use larger batches, or batch_norm with statistics")  # fmt: skip
    y, own, biased = batch_norm_with_statistics(x, weight, bias, eps, axis)
    size = user_size(count)
    unbiased = biased * (size / (size - 1))
    if mean is None or var is None:
        return y, own, unbiased
    return y, _moved(mean, own, momentum), _moved(var, unbiased, momentum)


def batch_norm_with_statistics(
    x: Array, weight: ArrayLike | None, bias: ArrayLike | None, eps: float, axis: int
) -> tuple[Array, Array, Array]:
    """A batch normalised by its own statistics; its mean and its biased variance for each channel."""
    channels = (x.shape[axis],)
    weight = znp.ones(channels, x.dtype) if weight is None else znp.asarray(weight)
    bias = znp.zeros(channels, x.dtype) if bias is None else znp.asarray(bias)
    y, mean, var = _batch_norm_of(eps, axis)(x, weight, bias)
    return y, mean, var


def _batch_norm_of(eps: float, axis: int) -> Any:
    """The function, with a derivative whose backward pass is two sums over the batch and one elementwise step."""

    @custom_jvp
    def normalised(x: Array, weight: Array, bias: Array) -> tuple[Array, Array, Array]:
        centred, mean, var = _distances(x, axis)
        return _scaled(centred, var, weight, bias, eps, axis), mean, var

    @normalised.defjvp
    def rule(primals: Sequence[Array], tangents: Sequence[Array]) -> tuple[Any, Any]:
        (x, weight, bias), (dx, dweight, dbias) = primals, tangents
        centred, mean, var = _distances(x, axis)
        axes = _others(x, axis)
        root = znp.sqrt(var + eps)
        scale, unit = weight / root, centred * of_channels(1.0 / root, x, axis)
        moved = znp.sum(dx, axis=axes) / _count(x, axes)
        stretched = znp.sum(unit * dx, axis=axes) / _count(x, axes)
        shift = of_channels(dbias - scale * moved, x, axis)
        dy = dx * of_channels(scale, x, axis) + unit * of_channels(dweight - scale * stretched, x, axis) + shift
        y = _scaled(centred, var, weight, bias, eps, axis)
        return (y, mean, var), (dy, moved, stretched * (2.0 * root))

    return normalised


def _distances(x: Array, axis: int) -> tuple[Array, Array, Array]:
    """Distances from each channel's mean, corrected for its rounding error; the mean and the biased variance."""
    mean, rest, var = _moments(x, _others(x, axis))
    return x - of_channels(mean, x, axis) - of_channels(rest, x, axis), mean + rest, var


def _others(x: Array, axis: int) -> tuple[int, ...]:
    return tuple(a for a in range(x.ndim) if a != axis)


@rounded_once
def group_norm(
    x: ArrayLike, num_groups: int, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5,
    axis: int = 1,
) -> Array:  # fmt: skip
    """Normalised for each example over groups of channels (Wu and He, "Group normalization", 2018).

    Parameters
    ----------
    x: array ``[n, ...]`` of floating-point numbers with ``c`` channels along ``axis``.
    num_groups: into how many groups of equal size channels are cut; ShapeError where that is impossible.
    weight, bias: arrays ``[c]`` that scale and shift the result, or None.
    eps: added to the variance.

    >>> group_norm([[1.0, 3.0, 5.0, 9.0]], 2, eps=0.0)
    array([[-1.,  1., -1.,  1.]])
    """
    return group_norm_with_statistics(znp.asarray(x), num_groups, weight, bias, eps, axis)[0]


def group_norm_with_statistics(
    x: Array, num_groups: int, weight: ArrayLike | None, bias: ArrayLike | None, eps: float, axis: int
) -> tuple[Array, Array, Array]:
    """The result of :func:`group_norm`; the means and one over the roots of variances and ``eps``, ``[n, groups]``."""
    axis = normal_axis("group_norm", axis, x.ndim)
    moved = znp.moveaxis(x, axis, 1)
    channels = dims_of(x)[axis]
    if not ask(channels % num_groups, "==", 0):
        raise ShapeError(f"{num_groups} groups cannot be of equal size with {channels} channels", where=user_line(),
                         fix="choose a number of groups that divides the channels")  # fmt: skip
    sizes = user_shape(dims_of(moved))
    grouped = znp.reshape(moved, (sizes[0], num_groups, sizes[1] // num_groups, *sizes[2:]))
    y, mean, rstd = layer_norm_with_statistics(grouped, None, None, eps, tuple(range(2, grouped.ndim)))
    y = znp.moveaxis(znp.reshape(y, sizes), 1, axis)
    y = y if weight is None else y * of_channels(znp.asarray(weight), x, axis)
    flat = (sizes[0], num_groups)
    return _shifted(y, bias, x, axis), znp.reshape(mean, flat), znp.reshape(rstd, flat)


@rounded_once
def instance_norm(
    x: Array, weight: ArrayLike | None = None, bias: ArrayLike | None = None, eps: float = 1e-5, axis: int = 1
) -> Array:
    """Normalised for each example and channel over the other axes.

    Ulyanov, Vedaldi and Lempitsky, "Instance normalization", 2016.

    Parameters
    ----------
    x: array ``[n, ...]`` of floating-point numbers with ``c`` channels along ``axis`` and further axes.
    weight, bias: arrays ``[c]`` that scale and shift the result, or None.
    eps: added to the variance.

    >>> instance_norm([[[1.0, 3.0], [5.0, 9.0]]], eps=0.0)
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """
    x = znp.asarray(x)
    axis = normal_axis("instance_norm", axis, x.ndim)
    if x.ndim < 3:
        raise ShapeError("instance normalisation needs axes besides those of examples and channels", where=user_line(),
                         fix="use layer_norm over the channels")  # fmt: skip
    y = layer_norm_with_statistics(x, None, None, eps, tuple(a for a in range(1, x.ndim) if a != axis))[0]
    y = y if weight is None else y * of_channels(znp.asarray(weight), x, axis)
    return _shifted(y, bias, x, axis)


@rounded_once
def local_response_norm(
    x: ArrayLike, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, axis: int = 1
) -> Array:
    """Divided by ``(k + alpha m) ** beta``, where m is the mean square of neighbouring channels.

    Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional neural networks", 2012.

    Parameters
    ----------
    x: array of floating-point numbers with channels along ``axis``.
    size: how many channels are near: ``size // 2`` before, the channel itself and the rest after it; beyond are zeros.
    alpha, beta, k: the numbers in the formula.

    >>> local_response_norm([[2.0, 0.0]], 2, alpha=2.0, beta=1.0)
    array([[0.4, 0. ]])
    """
    x = znp.asarray(x)
    axis = normal_axis("local_response_norm", axis, x.ndim)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (size // 2, (size - 1) // 2)
    padded, channels = znp.pad(x * x, widths), x.shape[axis]
    lead = (slice(None),) * axis
    near = padded[(*lead, slice(0, channels))]
    for offset in range(1, size):
        near = near + padded[(*lead, slice(offset, offset + channels))]
    return x / (near * (alpha / size) + k) ** beta


# --- means and variances ---------------------------------------------------------------------------------------


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """The mean of an array over axes, which are removed, its rounding error, and the biased variance.

    The mean of distances from a rounded mean is its rounding error. Where trailing axes and others are reduced,
    each row has its own mean and sum of squared distances from it, in one pass; rows are then combined (Chan,
    Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979).
    """
    first = x.ndim
    while first - 1 in axes:
        first -= 1
    rows, others = tuple(range(first, x.ndim)), tuple(a for a in axes if a < first)
    if not rows or not others:
        mean = znp.mean(x, axis=axes)
        return (mean, *_spread(x - znp.expand_dims(mean, axes), axes))
    means = znp.mean(x, axis=rows)
    errors, within = _spread(x - znp.expand_dims(means, rows), rows)
    mean = znp.mean(means, axis=others)
    rest, between = _spread(means - znp.expand_dims(mean, others) + errors, others)
    return mean, rest, between + znp.mean(within, axis=others)


def _spread(distances: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """The mean of small numbers, and the mean square of their distances from it."""
    rest = znp.mean(distances, axis=axes)
    return rest, znp.mean(distances * distances, axis=axes) - rest * rest


def _count(x: Array, axes: tuple[int, ...]) -> UserSize:
    return user_size(product(dims_of(x)[a] for a in axes))


# --- scales and shifts -----------------------------------------------------------------------------------------


def of_channels(values: Array, x: Array, axis: int) -> Array:
    """One number for each channel, in a shape that broadcasts with an array."""
    return znp.reshape(values, (-1,) + (1,) * (x.ndim - 1 - axis))


def _shifted(y: Array, bias: ArrayLike | None, x: Array, axis: int) -> Array:
    return y if bias is None else y + of_channels(znp.asarray(bias), x, axis)


def _along(axes: Sequence[int], weight: ArrayLike | None, rank: int) -> ArrayLike | None:
    """A weight whose axes are some of an array's, in their order there, and 1 in the other ones."""
    others = [a for a in range(rank) if a not in axes]
    if weight is None or not others or max(others) < min(axes, default=rank) or znp.ndim(weight) != len(axes):
        return weight
    return znp.expand_dims(znp.asarray(weight), others)


def _affine(y: Array, weight: ArrayLike | None, bias: ArrayLike | None) -> Array:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _moved(running: ArrayLike, new: Array, momentum: float) -> Array:
    """The exponential moving average of statistics, with those of a batch."""
    return znp.asarray(running) * (1.0 - momentum) + new * momentum
