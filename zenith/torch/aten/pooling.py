"""Pooling, windows as columns, and what exchanges channels and pixels: PyTorch's names for :mod:`zenith.nn`."""

from __future__ import annotations

from collections.abc import Sequence

import zenith.numpy as znp
from zenith import nn
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once, rule
from zenith.trace.bind import b
from zenith.trace.sizes import size_dim

Numbers = Sequence[Size]


def _each(given: Size | Numbers, axes: int) -> tuple[Size, ...]:
    """A number for each axis: PyTorch also writes one for all."""
    numbers = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    return numbers * axes if len(numbers) == 1 else numbers


def _max_pool(axes: int, with_indices: bool) -> Rule:
    def pool(
        c: Context, x: Array, kernel: Numbers, stride: Numbers = (), padding: Size | Numbers = 0,
        dilation: Size | Numbers = 1, ceil_mode: bool = False,
    ) -> Array | tuple[Array, Array]:  # fmt: skip
        window = _each(kernel, axes)
        return nn.max_pool(x, window, _each(stride, axes) if stride else None, _each(padding, axes),
                           _each(dilation, axes), ceil_mode=ceil_mode, with_indices=with_indices)  # fmt: skip

    return pool


def _avg_pool(axes: int) -> Rule:
    @rounded_once
    def pool(
        c: Context, x: Array, kernel: Numbers, stride: Numbers = (), padding: Size | Numbers = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Array:  # fmt: skip
        return nn.avg_pool(x, _each(kernel, axes), _each(stride, axes) if stride else None, _each(padding, axes),
                           ceil_mode=ceil_mode, count_include_pad=count_include_pad,
                           divisor_override=divisor_override)  # fmt: skip

    return pool


for _axes in (1, 2, 3):
    RULES |= {
        f"max_pool{_axes}d": _max_pool(_axes, False), f"max_pool{_axes}d_with_indices": _max_pool(_axes, True),
        f"avg_pool{_axes}d": _avg_pool(_axes),
    }  # fmt: skip


@rule("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
      "_adaptive_avg_pool3d")  # fmt: skip
@rounded_once
def _adaptive_avg_pool(c: Context, x: Array, size: Numbers) -> Array:
    return nn.adaptive_avg_pool(x, tuple(size))


@rule("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(c: Context, x: Array, size: Numbers) -> tuple[Array, Array]:
    return nn.adaptive_max_pool(x, tuple(size), with_indices=True)


@rule("im2col")
def _im2col(c: Context, x: Array, kernel: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers) -> Array:
    return nn.unfold(x, *(_each(given, 2) for given in (kernel, dilation, padding, stride)))


@rule("col2im")
@rounded_once
def _col2im(
    c: Context, x: Array, size: Numbers, kernel: Numbers, dilation: Numbers, padding: Numbers, stride: Numbers
) -> Array:
    return nn.fold(x, *(_each(given, 2) for given in (size, kernel, dilation, padding, stride)))


@rule("unfold")
def _unfold(c: Context, x: Array, dim: int, size: int, step: int) -> Array:
    """Windows along one axis; their elements are a new last axis."""
    axis = dim % x.ndim
    last = znp.moveaxis(x, axis, -1)
    found = b.windows(last, window=(size_dim(size),), stride=(size_dim(step),), dilation=(1,))
    return znp.moveaxis(found, -2, axis)


@rule("pixel_shuffle")
def _pixel_shuffle(c: Context, x: Array, factor: int) -> Array:
    return nn.pixel_shuffle(x, factor)


@rule("pixel_unshuffle")
def _pixel_unshuffle(c: Context, x: Array, factor: int) -> Array:
    return nn.pixel_unshuffle(x, factor)


@rule("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(c: Context, x: Array, groups: int) -> Array:
    return nn.channel_shuffle(x, groups)
