"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zenith.numpy as znp
from zenith import nn
from zenith.numpy.typing import Array
from zenith.torch.aten.rules import Context, of_one_dtype, rule

Steps = int | Sequence[int]


@rule("convolution")
@of_one_dtype
def _convolution(
    c: Context, x: Array, w: Array, bias: Array | None, stride: Steps, padding: Steps, dilation: Steps,
    transposed: bool, output_padding: Steps, groups: int,
) -> Array:  # fmt: skip
    if transposed:
        return _conv_transpose(c, x, w, bias, stride, padding, output_padding, groups, dilation)
    return _conv(c, x, w, bias, stride, padding, dilation, groups)


@rule("conv1d", "conv2d", "conv3d")
@of_one_dtype
def _conv(
    c: Context, x: Array, w: Array, bias: Array | None = None, stride: Steps = 1, padding: Steps | str = 0,
    dilation: Steps = 1, groups: int = 1,
) -> Array:  # fmt: skip
    stride, padding, dilation = map(_of_axes, (stride, padding, dilation))
    return _with_examples(lambda x: nn.conv(x, w, bias, stride, padding, dilation, groups), x, w)


@rule("conv1d.padding", "conv2d.padding", "conv3d.padding")
def _conv_with_named_padding(
    c: Context, x: Array, w: Array, bias: Array | None = None, stride: Steps = 1, padding: str = "valid",
    dilation: Steps = 1, groups: int = 1,
) -> Array:  # fmt: skip
    return _conv(c, x, w, bias, stride, padding, dilation, groups)


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
@of_one_dtype
def _conv_transpose(
    c: Context, x: Array, w: Array, bias: Array | None = None, stride: Steps = 1, padding: Steps = 0,
    output_padding: Steps = 0, groups: int = 1, dilation: Steps = 1,
) -> Array:  # fmt: skip
    stride, padding, output_padding, dilation = map(_of_axes, (stride, padding, output_padding, dilation))
    return _with_examples(
        lambda x: nn.conv_transpose(x, w, bias, stride, padding, output_padding, dilation, groups), x, w
    )


def _of_axes(steps: Steps | str) -> Any:
    """A number for all spatial axes, which PyTorch may have as a list of one, or one for each; a padding's name."""
    if isinstance(steps, int | str):
        return steps
    return steps[0] if len(steps) == 1 else tuple(steps)


def _with_examples(function: Callable[[Array], Array], x: Array, w: Array) -> Array:
    """The result of a function of examples, also of a single one without their axis."""
    return function(x) if x.ndim == w.ndim else znp.squeeze(function(znp.expand_dims(x, 0)), 0)
