"""Losses that PyTorch's own decompositions would spread out, or whose derivatives would be no numbers at bounds."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith import nn
from zenith.checks import error_if
from zenith.nn import classes
from zenith.nn.losses import reduced
from zenith.numpy.typing import Array
from zenith.torch.aten.gradients import back
from zenith.torch.aten.rules import Context, rounded_once, rule, to
from zenith.trace.bind import b

_REDUCTIONS = ("none", "mean", "sum")  # by PyTorch's numbers


@rule("cross_entropy_loss")
@rounded_once
def _cross_entropy(
    c: Context, x: Array, target: Array, weight: Array | None = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:  # fmt: skip
    return nn.cross_entropy(x, target, weight, ignore_index, label_smoothing, _REDUCTIONS[reduction])


@rule("nll_loss_nd", "nll_loss", "nll_loss2d")
@rounded_once
def _nll(c: Context, x: Array, target: Array, weight: Array | None = None, reduction: int = 1,
         ignore_index: int = -100) -> Array:  # fmt: skip
    return nn.nll_loss(x, target, weight, ignore_index, _REDUCTIONS[reduction])


@rule("nll_loss_forward", "nll_loss2d_forward")
@rounded_once
def _nll_forward(c: Context, x: Array, target: Array, weight: Array | None, reduction: int,
                 ignore_index: int) -> tuple[Array, Array]:  # fmt: skip
    """The loss, and the sum of the weights of its mean, which is 0 where there is no reduction."""
    losses, share = classes.nll_terms(x, target, weight, ignore_index, 1 if x.ndim > 1 else 0)
    total = znp.sum(share, dtype=share.dtype)
    if reduction == 0:
        return losses, znp.zeros_like(total)
    found = znp.sum(losses, dtype=losses.dtype)
    return (found / total if reduction == 1 else found), total


@rule("binary_cross_entropy")
@rounded_once
def _binary_cross_entropy(c: Context, x: Array, target: Array, weight: Array | None = None,
                          reduction: int = 1) -> Array:  # fmt: skip
    loss = nn.binary_cross_entropy(x, target, weight, _REDUCTIONS[reduction])
    for name, given in (("input", x), ("target", target)):
        wrong = znp.any(~((given >= 0) & (given <= 1)))  # a reduction of its own: losses stay in lanes
        loss = error_if(loss, wrong, f"binary_cross_entropy: all elements of {name} should be between 0 and 1")
    return loss


@rule("binary_cross_entropy_with_logits")
@rounded_once
def _binary_cross_entropy_with_logits(c: Context, x: Array, target: Array, weight: Array | None = None,
                                      pos_weight: Array | None = None, reduction: int = 1) -> Array:  # fmt: skip
    return nn.binary_cross_entropy_with_logits(x, target, weight, pos_weight, _REDUCTIONS[reduction])


@rule("hinge_embedding_loss")
@rounded_once
def _hinge_embedding(c: Context, x: Array, target: Array, margin: float = 1.0, reduction: int = 1) -> Array:
    return to(nn.hinge_embedding_loss(x, target, margin, _REDUCTIONS[reduction]), c.dtype)


@rule("cosine_embedding_loss")
@rounded_once
def _cosine_embedding(c: Context, x: Array, y: Array, target: Array, margin: float = 0.0, reduction: int = 1) -> Array:
    """Of integers in PyTorch's type; squares and products are integers there, too."""
    return to(nn.cosine_embedding_loss(x, y, target, margin, _REDUCTIONS[reduction]), c.dtype)


@rule("multi_margin_loss")
@rounded_once
def _multi_margin(
    c: Context, x: Array, target: Array, p: int = 1, margin: float = 1, weight: Array | None = None, reduction: int = 1
) -> Array:
    """How much each wrong class comes nearer to the right one than the margin allows, by power ``p``."""
    rows, right = znp.atleast_2d(x), znp.reshape(target, (-1, 1))
    short = nn.relu(margin - znp.take_along_axis(rows, right, axis=-1) + rows)
    short = short if p == 1 else short * short
    short = short if weight is None else short * znp.take(weight, right)
    wrong = right != znp.arange(rows.shape[-1])
    losses = znp.sum(znp.where(wrong, short, 0), axis=-1) / rows.shape[-1]
    return reduced(losses if x.ndim > 1 else losses[0], _REDUCTIONS[reduction])


@rule("multilabel_margin_loss")
@rounded_once
def _multilabel_margin(c: Context, x: Array, target: Array, reduction: int = 1) -> Array:
    return _of_labels(x, target, reduction)[0]


@rule("multilabel_margin_loss_forward")
@rounded_once
def _multilabel_margin_forward(c: Context, x: Array, target: Array, reduction: int) -> tuple[Array, Array]:
    loss, chosen = _of_labels(x, target, reduction)
    return loss, znp.reshape(to(chosen, x.dtype), target.shape)


@rule("multi_margin_loss_backward")
@rounded_once
def _multi_margin_vjp(c: Context, grad: Array, x: Array, *options: Any, **more: Any) -> Array:
    return back(lambda x: _multi_margin(c, x, *options, **more), grad, x)[0]


@rule("multilabel_margin_loss_backward")
@rounded_once
def _multilabel_margin_vjp(c: Context, grad: Array, x: Array, target: Array, reduction: int, is_target: Array) -> Array:
    return back(lambda x: _of_labels(x, target, reduction)[0], grad, x)[0]


def _of_labels(x: Array, target: Array, reduction: int) -> tuple[Array, Array]:
    """How much each class that is no label comes nearer than 1 to each label; and which classes are labels.

    A row's labels end at its first negative number.
    """
    rows, labels = znp.atleast_2d(x), znp.atleast_2d(target)
    counts = znp.cumsum(znp.astype(labels < 0, znp.int64), axis=1) == 0
    named = znp.expand_dims(labels, 2) == znp.arange(rows.shape[1])
    chosen = znp.any(named & znp.expand_dims(counts, 2), axis=1)
    right = znp.take_along_axis(rows, znp.where(counts, labels, 0), axis=1)
    short = nn.relu(1 - znp.expand_dims(right, 2) + znp.expand_dims(rows, 1))
    pairs = znp.expand_dims(counts, 2) & ~znp.expand_dims(chosen, 1)
    losses = znp.sum(znp.where(pairs, short, 0), axis=(1, 2)) / rows.shape[1]
    return reduced(losses if x.ndim > 1 else losses[0], _REDUCTIONS[reduction]), chosen


@rule("zenith::ctc_loss")
@rounded_once
def _ctc(
    c: Context, x: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int, zero_infinity: bool
) -> Array:
    """PyTorch's derivative is that by logits, from which a softmax gives the probabilities."""
    losses = nn.ctc_loss(x, targets, input_lengths, target_lengths, blank, "none")
    inside = znp.expand_dims(znp.arange(x.shape[0]), 1) < input_lengths
    if zero_infinity:
        impossible = losses == znp.inf
        losses, inside = znp.where(impossible, 0, losses), inside & ~impossible
    probabilities = znp.sum(znp.where(znp.expand_dims(inside, 2), znp.exp(x), 0), axis=(0, 2))
    return losses + (probabilities - b.stop_gradient(probabilities))
