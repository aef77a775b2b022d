"""``torch.fake_quantize_*`` by PyTorch's elementwise operators: its own have no types for an export."""

from __future__ import annotations

import torch
from torch import Tensor


def by_tensor(input: Tensor, scale: float | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int) -> Tensor:
    """Levels with one scale; the derivative is 1 where nothing is clipped."""
    level = torch.round(input * (1 / scale)) + zero_point
    found = (level.clamp(quant_min, quant_max) - zero_point) * scale
    passed = torch.where((level >= quant_min) & (level <= quant_max), input, 0)
    return (found.detach() + (passed - passed.detach())).to(input.dtype)


def by_channel(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:  # fmt: skip
    """The same with a scale for each index along an axis."""
    shape = [-1 if a == axis % input.ndim else 1 for a in range(input.ndim)]
    return by_tensor(input, scale.view(shape), zero_point.view(shape), quant_min, quant_max)
