"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zenith.numpy as znp
from zenith import nn
from zenith.torch.aten.rules import Context, of_one_dtype, rule


@rule("convolution")
@of_one_dtype
def _convolution(
    c: Context, x: Any, w: Any, bias: Any, stride: Sequence[int], padding: Sequence[Any], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[Any], groups: int,
) -> Any:  # fmt: skip
    steps: dict[str, Any] = {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
    }
    if transposed:
        return nn.conv_transpose(x, w, bias, output_padding=tuple(output_padding), **steps)
    return nn.conv(x, w, bias, **steps)


@rule("conv1d", "conv2d", "conv3d")
@of_one_dtype
def _conv(
    c: Context, x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:  # fmt: skip
    steps = {"stride": _each(stride, w), "padding": _each(padding, w), "dilation": _each(dilation, w)}
    return _with_examples(lambda x: nn.conv(x, w, bias, groups=groups, **steps), x, w)


@rule("conv1d.padding", "conv2d.padding", "conv3d.padding")
def _conv_with_named_padding(
    c: Context, x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: str = "valid", dilation: Any = 1,
    groups: int = 1,
) -> Any:  # fmt: skip
    return _conv(c, x, w, bias, stride, padding, dilation, groups)


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
@of_one_dtype
def _conv_transpose(
    c: Context, x: Any, w: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    steps = {"stride": _each(stride, w), "padding": _each(padding, w), "dilation": _each(dilation, w)}
    behind = _each(output_padding, w)
    return _with_examples(lambda x: nn.conv_transpose(x, w, bias, output_padding=behind, groups=groups, **steps), x, w)


def _each(steps: Any, w: Any) -> Any:
    """A number for each spatial axis, where one is for all; the name of a padding as it is."""
    if isinstance(steps, str):
        return steps
    numbers = tuple(steps) if isinstance(steps, Sequence) else (steps,)
    return numbers * (w.ndim - 2) if len(numbers) == 1 else numbers


def _with_examples(function: Callable[[Any], Any], x: Any, w: Any) -> Any:
    """The result of a function of examples, of one that stands alone, too."""
    return function(x) if x.ndim == w.ndim else znp.squeeze(function(znp.expand_dims(x, 0)), 0)
