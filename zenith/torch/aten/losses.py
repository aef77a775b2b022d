"""Losses that PyTorch's own decompositions would spread out, or whose derivatives would be no numbers at bounds."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith import nn
from zenith.nn import classes
from zenith.torch.aten.rules import Context, rounded_once, rule, to

_REDUCTIONS = ("none", "mean", "sum")  # by PyTorch's numbers


@rule("cross_entropy_loss")
@rounded_once
def _cross_entropy(
    c: Context, x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    return nn.cross_entropy(x, target, weight, ignore_index, label_smoothing, _REDUCTIONS[reduction])


@rule("nll_loss_nd", "nll_loss", "nll_loss2d")
@rounded_once
def _nll(c: Context, x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100) -> Any:
    return nn.nll_loss(x, target, weight, ignore_index, _REDUCTIONS[reduction])


@rule("nll_loss_forward", "nll_loss2d_forward")
@rounded_once
def _nll_forward(c: Context, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    """The loss, and the sum of the weights of its mean, which is 0 where there is no reduction."""
    losses, share = classes.nll_parts(x, target, weight, ignore_index, 1 if x.ndim > 1 else 0)
    total = znp.sum(share, dtype=share.dtype)
    if reduction == 0:
        return losses, znp.zeros_like(total)
    found = znp.sum(losses, dtype=losses.dtype)
    return (found / total if reduction == 1 else found), total


@rule("binary_cross_entropy")
@rounded_once
def _binary_cross_entropy(c: Context, x: Any, target: Any, weight: Any = None, reduction: int = 1) -> Any:
    return nn.binary_cross_entropy(x, target, weight, _REDUCTIONS[reduction])


@rule("binary_cross_entropy_with_logits")
@rounded_once
def _binary_cross_entropy_with_logits(
    c: Context, x: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    return nn.binary_cross_entropy_with_logits(x, target, weight, pos_weight, _REDUCTIONS[reduction])


@rule("hinge_embedding_loss")
@rounded_once
def _hinge_embedding(c: Context, x: Any, target: Any, margin: float = 1.0, reduction: int = 1) -> Any:
    return nn.hinge_embedding_loss(x, target, margin, _REDUCTIONS[reduction])


@rule("cosine_embedding_loss")
@rounded_once
def _cosine_embedding(c: Context, x: Any, y: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Any:
    """Of integers in PyTorch's type; squares and products are integers there, too."""
    return to(nn.cosine_embedding_loss(x, y, target, margin, _REDUCTIONS[reduction]), c.dtype)
