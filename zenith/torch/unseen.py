"""Writes to weights that no version counter of PyTorch's sees: steps of optimisers in one kernel, ``fused=True``.

PyTorch calls a hook behind every step of an optimiser. It numbers here the memory of the parameters that such a step
wrote to, which views share as they share a version, and whoever prepared something from weights asks for these numbers
as for versions. Optimisers that are not PyTorch's own are taken for fused: what their kernels write is not counted
either. A parameter is not kept alive by its number.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_numbers = count(1)
_newest = [0]
_written: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}  # by its memory's identity


def newest() -> int:
    """The number of the last such write of all; as long as it stays, nothing was written to unseen."""
    return _newest[0]


def number_of(tensor: torch.Tensor) -> int:
    """The number of the last such write to a tensor, 0 if there was none.

    >>> weight = torch.nn.Parameter(torch.ones(3))
    >>> optimizer = torch.optim.SGD([weight], lr=0.1, fused=True)
    >>> weight.sum().backward()
    >>> before = weight._version, number_of(weight)
    >>> optimizer.step()
    >>> weight._version == before[0], number_of(weight) > before[1]
    (True, True)
    """
    return _written.get(_memory(tensor), (None, 0))[1]


def _note(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Number what a step wrote to without being counted. TorchDynamo may record this as a part of the step."""
    foreign = not type(optimizer).__module__.startswith("torch.optim.")
    for group in optimizer.param_groups:
        if foreign or group.get("fused"):
            _number(group["params"], foreign)


@torch._disable_dynamo
def _number(parameters: Sequence[Any], foreign: bool) -> None:
    """Give new numbers to all of these that have a gradient; a foreign step may have taken it away."""
    for parameter in parameters:
        if isinstance(parameter, torch.Tensor) and (foreign or parameter.grad is not None):
            memory, number = _memory(parameter), next(_numbers)
            known, _ = _written.get(memory, (None, 0))
            if known is None or known() is not parameter:
                known = weakref.ref(parameter, partial(_forget, memory))
            _written[memory] = known, number
            _newest[0] = number


def _memory(tensor: torch.Tensor) -> int:
    """The identity of a tensor's memory, which is that of its views."""
    identity: int = tensor.untyped_storage()._cdata
    return identity


def _forget(memory: int, gone: weakref.ref[torch.Tensor]) -> None:
    """Forget a tensor that is gone, unless another one in its memory was written to meanwhile."""
    if _written.get(memory, (None, 0))[0] is gone:
        del _written[memory]


register_optimizer_step_post_hook(_note)
