"""Derivatives of what works on images, as PyTorch's operators: pooling, padding, resizing, sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith import nn
from zenith.nn.resizing import resized
from zenith.nn.sampling import MODES, PADDINGS
from zenith.nn.windows import per_axis
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.gradients import UNASKED, back, wide
from zenith.torch.aten.refused import RefusedResult
from zenith.torch.aten.resizing import RESIZINGS
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once, rule, to
from zenith.trace.bind import b

Numbers = Sequence[Size]


@rule("avg_pool2d_backward", "avg_pool3d_backward")
def _avg_pool_backward(
    c: Context, grad: Array, x: Array, kernel: Numbers, stride: Numbers, padding: Numbers, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> Array:  # fmt: skip
    return back(lambda a: RULES["avg_pool2d" if len(kernel) == 2 else "avg_pool3d"](
        c, a, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override), grad, x)[0]  # fmt: skip


def _register_adaptive() -> None:
    for axes in (2, 3):
        RULES[f"_adaptive_avg_pool{axes}d_backward"] = lambda c, grad, x, n=axes: back(
            lambda a: nn.adaptive_avg_pool(a, tuple(grad.shape[-n:])), grad, x
        )[0]


_register_adaptive()


def _to_maxima(axes: int) -> Rule:
    """Each gradient goes to the element whose index the forward pass has saved."""

    def computed(c: Context, grad: Array, x: Array, *options: Any) -> Array:
        images = math.prod(x.shape[:-axes])
        flat, windows = (images, math.prod(x.shape[-axes:])), (images, math.prod(grad.shape[-axes:]))
        at, updates = znp.reshape(options[-1], windows), znp.reshape(wide(grad), windows)
        zeros = znp.zeros_like(znp.reshape(wide(x), flat))
        rows = znp.broadcast_to(znp.expand_dims(znp.arange(images), 1), at.shape)
        return to(znp.reshape(b.scatter_add(zeros, updates, rows, at), x.shape), x.dtype)

    return computed


for _axes in (2, 3):
    _names = (f"max_pool{_axes}d_with_indices", f"adaptive_max_pool{_axes}d", f"fractional_max_pool{_axes}d")
    RULES |= dict.fromkeys((f"{name}_backward" for name in _names), _to_maxima(_axes))


@rule("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
@rounded_once
def _replicate_backward(c: Context, grad: Array, x: Array, widths: Numbers) -> Array:
    return back(lambda a: RULES["replication_pad2d"](c, a, widths), grad, x)[0]


def _resize_backward(mode: str, axes: int, aligned: bool, antialias: bool) -> Rule:
    @rounded_once
    def computed(c: Context, grad: Array, new: Numbers, old: Numbers, *options: Any) -> Array:
        align, factors = (options[0], options[1:]) if aligned else (False, options)
        given = (*factors, *(None,) * (axes - len(factors)))
        size = per_axis(mode, "size", new, axes, 1)
        zeros = znp.zeros(tuple(old), dtype=grad.dtype)  # resizing is linear: what was resized does not matter
        return back(lambda x: resized(x, size, given, mode, align, antialias), grad, zeros)[0]

    return computed


for _name, (_mode, _axes) in RESIZINGS.items():
    RULES[f"{_name}_backward"] = _resize_backward(_mode, _axes, "nearest" not in _mode, _name.endswith("_aa"))


@rule("grid_sampler_2d_backward", "grid_sampler_3d_backward")
@rounded_once
def _grid_sampler_backward(c: Context, grad: Array, x: Array, grid: Array, mode: int, padding: int, align_corners: bool,
                           output_mask: Sequence[bool]) -> tuple[Array | RefusedResult, ...]:  # fmt: skip
    def sample(x: Array, grid: Array) -> Array:
        return nn.grid_sample(x, grid, MODES[mode], PADDINGS[padding], align_corners=align_corners)

    return tuple(g if asked else UNASKED for g, asked in zip(back(sample, grad, x, grid), output_mask, strict=True))
