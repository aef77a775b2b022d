"""Functions of PyTorch that inspect values, rewritten without that: an export has no values.

``F.gaussian_nll_loss`` and ``torch.cov`` check values and go on; a batch norm of cumulative averages reads its count
as a Python number; ``F.ctc_loss`` sizes its tables by lengths, and is an operator here, with a rule of its own; fake
quantisation has no types for an export (:mod:`zenith.torch.fake_quantization`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from zenith.torch.asserts import UNNAMED
from zenith.torch.fake_quantization import by_channel, by_tensor
from zenith.torch.recurrent import LIBRARY, NAMESPACE

_MEANS = ("none", "mean", "sum")  # by PyTorch's numbers
LIBRARY.define(
    "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
    "bool zero_infinity) -> Tensor"
)


def _ctc_by_torch(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, zero_infinity: bool
) -> Tensor:
    return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, 0, zero_infinity)


LIBRARY.impl("ctc_loss", _ctc_by_torch, "CompositeExplicitAutograd")
torch.library.register_fake(f"{NAMESPACE}::ctc_loss", lambda x, *_: x.new_empty((x.shape[1],)), lib=LIBRARY)


class Unchecked(TorchFunctionMode):
    """A context in which these functions have no need of values."""

    def __torch_function__(self, func: Callable[..., object], types: object, args: tuple[object, ...] = (),
                           kwargs: Mapping[str, object] | None = None) -> object:  # fmt: skip
        return _REWRITTEN.get(func, func)(*args, **(kwargs or {}))


def _gaussian(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
              reduction: str = "mean") -> Tensor:  # fmt: skip
    var = torch.full_like(input, var) if isinstance(var, float) else var
    if var.size() != input.size() and input.size()[:-1] == var.size():
        var = var.unsqueeze(-1)
    torch._assert_async(~(var < 0).any(), "gaussian_nll_loss: var has negative entry/entries")
    safe = var + (var.clamp(min=eps) - var).detach()
    loss = 0.5 * (safe.log() + (input - target) ** 2 / safe)
    return _reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


def _assert(input: Tensor, assert_msg: str = UNNAMED) -> None:
    """With a message: PyTorch loses an assertion without one when it decomposes operators."""
    torch.ops.aten._assert_async.msg(input, assert_msg)


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _cov(input: Tensor, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Covariances of rows; weights are taken as they are."""
    if not (input.is_floating_point() or input.is_complex()):
        return torch.cov(input, correction=correction, fweights=fweights, aweights=aweights)
    x = input.reshape(1, -1) if input.ndim < 2 else input
    weights = [w for w in (fweights, aweights) if w is not None]
    if not weights:
        centered = x - x.mean(1, keepdim=True)
        return (centered @ centered.mT.conj() / max(x.shape[1] - correction, 0)).squeeze()
    weight = math.prod(w.to(x.real.dtype) for w in weights)
    total = weight.sum()
    centered = x - (x * weight).sum(1, keepdim=True) / total
    less = correction if aweights is None else correction * (weight * aweights).sum() / total
    return (centered @ (centered * weight).mT.conj() / (total - less).clamp(min=0)).squeeze()


def _corrcoef(input: Tensor) -> Tensor:
    if not (input.is_floating_point() or input.is_complex()):
        return torch.corrcoef(input)
    found = _cov(input)
    if not found.ndim:
        return found / found
    spread = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / spread[:, None] / spread
    if found.is_complex():
        return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1))
    return found.clip(-1, 1)


def _ctc(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int],
         target_lengths: Tensor | Sequence[int], blank: int = 0, reduction: int | str = 1,
         zero_infinity: bool = False) -> Tensor:  # fmt: skip
    """Of padded targets; concatenated ones have offsets that depend on values."""
    lengths = [torch.as_tensor(n, device=log_probs.device) for n in (input_lengths, target_lengths)]
    alone = log_probs.ndim == 2
    if alone:
        log_probs, targets = log_probs.unsqueeze(1), targets.reshape(1, -1)
    if targets.ndim != 2:
        raise NotImplementedError("ctc_loss takes targets that are padded to one length: [n, length]")
    lengths = [n.reshape(-1) for n in lengths]
    loss = torch.ops.zenith.ctc_loss(log_probs, targets, *lengths, blank, zero_infinity)
    how = reduction if isinstance(reduction, str) else _MEANS[reduction]
    if how == "mean":
        loss = loss / lengths[1].clamp(min=1)
    return loss.reshape(()) if alone and how == "none" else _reduced(loss, how)


_REWRITTEN: dict[object, Callable[..., object]] = {
    F.gaussian_nll_loss: _gaussian, torch.cov: _cov, torch.Tensor.cov: _cov, torch.corrcoef: _corrcoef,
    torch._assert_async: _assert, torch.Tensor.corrcoef: _corrcoef, F.ctc_loss: _ctc, torch.ctc_loss: _ctc,
    torch.fake_quantize_per_tensor_affine: by_tensor, torch.fake_quantize_per_channel_affine: by_channel,
}  # fmt: skip


@contextmanager
def cumulative_batch_norms() -> Iterator[None]:
    """Within this block batch norms with ``momentum=None`` average by a tensor, in this thread."""
    own, thread = _BatchNorm.forward, threading.get_ident()

    def forward(self: Any, input: Tensor) -> Tensor:
        averages = self.momentum is None and self.training and self.track_running_stats
        if threading.get_ident() != thread or not averages or self.num_batches_tracked is None:
            return own(self, input)
        self._check_input_dim(input)
        self.num_batches_tracked.add_(1)
        mean, var = torch.zeros_like(self.running_mean), torch.ones_like(self.running_var)
        found = F.batch_norm(input, mean, var, self.weight, self.bias, True, 1.0, self.eps)
        share = 1.0 / self.num_batches_tracked.to(mean.dtype)
        for running, new in ((self.running_mean, mean), (self.running_var, var)):
            running.copy_(running * (1 - share) + new * share)
        return found

    _BatchNorm.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        _BatchNorm.forward = own  # type: ignore[method-assign]
