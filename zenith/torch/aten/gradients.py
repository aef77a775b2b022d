"""Derivatives that PyTorch has as operators of their own: they stand in the graphs of training steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith import nn
from zenith.ir.types import kind_of
from zenith.torch.aten.refused import Absent
from zenith.torch.aten.rules import Context, rule, to
from zenith.trace.bind import b
from zenith.transforms import vjp

_UNASKED = Absent("a gradient that its output_mask leaves out is not computed", fix="ask for it in output_mask")


@rule("embedding_dense_backward")
def _embedding_dense_backward(
    c: Context, grad: Any, indices: Any, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    """Each row's gradient is the sum of those of the places that looked it up, but for the row of padding."""
    places = znp.astype(znp.reshape(indices, (-1,)), znp.int64)
    rows = znp.reshape(_wide(grad), (-1, grad.shape[-1]))
    rows = znp.where(znp.expand_dims(places == padding_idx, 1), 0, rows)
    if scale_grad_by_freq:
        count = b.scatter_add(znp.zeros((num_weights,), dtype=rows.dtype), znp.ones(places.shape, dtype=rows.dtype),
                              places)  # fmt: skip
        rows = rows / znp.expand_dims(znp.take(count, places), 1)
    zeros = znp.zeros((num_weights, grad.shape[-1]), dtype=rows.dtype)
    return to(b.scatter_add(zeros, rows, places), c.dtype)


@rule("native_layer_norm_backward")
def _native_layer_norm_backward(
    c: Context, grad: Any, x: Any, shape: Sequence[Any], mean: Any, rstd: Any, weight: Any, bias: Any,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """The gradients of the input, the weight and the bias."""
    inner, outer = tuple(range(x.ndim - len(shape), x.ndim)), tuple(range(x.ndim - len(shape)))
    grad, normal = _wide(grad), (_wide(x) - _wide(mean)) * _wide(rstd)
    moved = grad if weight is None else grad * _wide(weight)
    along = znp.mean(moved * normal, axis=inner, keepdims=True)
    of_input = _wide(rstd) * (moved - znp.mean(moved, axis=inner, keepdims=True) - normal * along)
    found = (of_input, _sum(grad * normal, outer), _sum(grad, outer))
    return tuple(to(g, x.dtype) if wanted else _UNASKED for g, wanted in zip(found, output_mask, strict=True))


@rule("native_group_norm_backward")
def _native_group_norm_backward(
    c: Context, grad: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: Any, channels: Any, size: Any, groups: int,
    output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """The gradients of the input, the weight and the bias."""
    shape = (x.shape[0], groups, channels // groups, -1)
    apart, moved = (znp.reshape(_wide(a), shape) for a in (x, grad))
    center, scale = (znp.reshape(_wide(a), (x.shape[0], groups, 1, 1)) for a in (mean, rstd))
    normal = (apart - center) * scale
    own = [znp.reshape(znp.sum(a, axis=(0, 3)), (channels,)) for a in (moved * normal, moved)]
    moved = moved if weight is None else moved * znp.reshape(_wide(weight), (1, groups, -1, 1))
    along, level = (znp.mean(a, axis=(2, 3), keepdims=True) for a in (moved * normal, moved))
    of_input = znp.reshape(scale * (moved - level - normal * along), x.shape)
    return tuple(to(g, x.dtype) if asked else _UNASKED for g, asked in zip((of_input, *own), output_mask, strict=True))


@rule("convolution_backward")
def _convolution_backward(
    c: Context, grad: Any, x: Any, w: Any, bias_sizes: Any, stride: Sequence[int], padding: Sequence[Any],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[Any], groups: int, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    """The gradients of the input, the weight and the bias."""
    steps: dict[str, Any] = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    if transposed:
        steps["output_padding"] = tuple(output_padding)
    forward = nn.conv_transpose if transposed else nn.conv
    of_input, of_weight = _back(lambda a, v: forward(a, v, groups=groups, **steps), grad, x, w)
    of_bias = to(_sum(_wide(grad), (0, *range(2, grad.ndim))), x.dtype)
    found = of_input, of_weight, of_bias
    return tuple(g if asked else _UNASKED for g, asked in zip(found, output_mask, strict=True))


@rule("avg_pool2d_backward")
def _avg_pool2d_backward(
    c: Context, grad: Any, x: Any, kernel: Sequence[Any], stride: Sequence[Any], padding: Sequence[Any],
    ceil_mode: bool, count_include_pad: bool, divisor_override: int | None,
) -> Any:  # fmt: skip
    steps = tuple(stride) or None
    options = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "divisor_override": divisor_override}
    pool: Any = nn.avg_pool
    return _back(lambda a: pool(a, tuple(kernel), steps, tuple(padding), **options), grad, x)[0]


@rule("_adaptive_avg_pool2d_backward")
def _adaptive_avg_pool2d_backward(c: Context, grad: Any, x: Any) -> Any:
    return _back(lambda a: nn.adaptive_avg_pool(a, tuple(grad.shape[-2:])), grad, x)[0]


@rule("max_pool2d_with_indices_backward")
def _max_pool2d_backward(c: Context, grad: Any, x: Any, *places: Any) -> Any:
    """Each gradient goes to the place that the way forward has told."""
    images = math.prod(x.shape[:-2])
    flat, windows = (images, x.shape[-2] * x.shape[-1]), (images, grad.shape[-2] * grad.shape[-1])
    at, moved = znp.reshape(places[-1], windows), znp.reshape(_wide(grad), windows)
    zeros = znp.zeros_like(znp.reshape(_wide(x), flat))
    rows = znp.broadcast_to(znp.expand_dims(znp.arange(images), 1), at.shape)
    return to(znp.reshape(b.scatter_add(zeros, moved, rows, at), x.shape), x.dtype)


def _back(forward: Callable[..., Any], grad: Any, *primals: Any) -> Sequence[Any]:
    """The cotangents of a function's arguments."""
    _, back = vjp(forward, *primals)
    found: Sequence[Any] = back(grad)
    return found


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return znp.sum(x, axis=axes) if axes else x


def _wide(x: Any) -> Any:
    """16-bit floats as float32, in which PyTorch adds, too."""
    return to(x, np.dtype(np.float32)) if kind_of(x.dtype) == "f" and x.dtype.itemsize == 2 else x
