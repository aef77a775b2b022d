"""Derivatives that PyTorch has as operators of their own, in graphs of training steps: of layers with weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith import nn
from zenith.ir.types import is_narrow
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.refused import RefusedResult
from zenith.torch.aten.rules import Context, numpy_dtype, rule, to
from zenith.trace.bind import b
from zenith.transforms import vjp

UNASKED = RefusedResult("a gradient that its output_mask leaves out is not computed", fix="ask for it in output_mask")


@rule("embedding_dense_backward")
def _embedding_dense_backward(
    c: Context, grad: Array, indices: Array, num_weights: Size, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """Each row's gradient is the sum of those of the indices that name it, except for the row of padding."""
    flat = znp.astype(znp.reshape(indices, (-1,)), znp.int64)
    rows = znp.reshape(wide(grad), (-1, grad.shape[-1]))
    rows = znp.where(znp.expand_dims(flat == padding_idx, 1), 0, rows)
    if scale_grad_by_freq:
        count = b.scatter_add(znp.zeros((num_weights,), dtype=rows.dtype), znp.ones(flat.shape, dtype=rows.dtype),
                              flat)  # fmt: skip
        rows = rows / znp.expand_dims(znp.take(count, flat), 1)
    zeros = znp.zeros((num_weights, grad.shape[-1]), dtype=rows.dtype)
    return to(b.scatter_add(zeros, rows, flat), c.dtype)


@rule("native_layer_norm_backward")
def _native_layer_norm_backward(
    c: Context, grad: Array, x: Array, shape: Sequence[Size], mean: Array, rstd: Array, weight: Array | None,
    bias: Array | None, output_mask: Sequence[bool],
) -> tuple[Array | RefusedResult, ...]:  # fmt: skip
    """The gradients of the input, the weight and the bias."""
    inner, outer = tuple(range(x.ndim - len(shape), x.ndim)), tuple(range(x.ndim - len(shape)))
    grad, normal = wide(grad), (wide(x) - wide(mean)) * wide(rstd)
    weighted = grad if weight is None else grad * wide(weight)
    along = znp.mean(weighted * normal, axis=inner, keepdims=True)
    of_input = wide(rstd) * (weighted - znp.mean(weighted, axis=inner, keepdims=True) - normal * along)
    found = (of_input, _sum(grad * normal, outer), _sum(grad, outer))
    return _as_inferred(c, found, output_mask)


@rule("native_group_norm_backward")
def _native_group_norm_backward(
    c: Context, grad: Array, x: Array, mean: Array, rstd: Array, weight: Array | None, n: Size, channels: Any,
    size: Size, groups: int, output_mask: Sequence[bool],
) -> tuple[Array | RefusedResult, ...]:  # fmt: skip
    """The gradients of the input, the weight and the bias."""
    shape = (x.shape[0], groups, channels // groups, size)
    values, weighted = (znp.reshape(wide(a), shape) for a in (x, grad))
    center, scale = (znp.reshape(wide(a), (x.shape[0], groups, 1, 1)) for a in (mean, rstd))
    normal = (values - center) * scale
    own = [znp.reshape(znp.sum(a, axis=(0, 3)), (channels,)) for a in (weighted * normal, weighted)]
    weighted = weighted if weight is None else weighted * znp.reshape(wide(weight), (1, groups, -1, 1))
    along, level = (znp.mean(a, axis=(2, 3), keepdims=True) for a in (weighted * normal, weighted))
    of_input = znp.reshape(scale * (weighted - level - normal * along), x.shape)
    return _as_inferred(c, (of_input, *own), output_mask)


@rule("_weight_norm_interface_backward")
def _weight_norm_backward(c: Context, grad: Array, v: Array, g: Array, norms: Array, dim: int) -> tuple[Array, Array]:
    """The gradients of direction and length, of a weight that is ``g * v / norms`` along an axis."""
    others = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    grad, along, size = wide(grad), wide(v), wide(norms)
    of_length = znp.sum(grad * along, axis=others, keepdims=True) / size
    of_direction = wide(g) / size * (grad - along * (of_length / size))
    return to(of_direction, v.dtype), to(of_length, g.dtype)


@rule("convolution_backward")
def _convolution_backward(c: Context, grad: Array, x: Array, w: Array, bias_sizes: Sequence[Size] | None,
                          stride: Sequence[int], padding: Sequence[Size], dilation: Sequence[int], transposed: bool,
                          output_padding: Sequence[Size], groups: int,
                          output_mask: Sequence[bool]) -> tuple[Array | RefusedResult, ...]:  # fmt: skip
    """The gradients of the input, the weight and the bias."""
    steps: dict[str, Any] = {"stride": tuple(stride), "padding": tuple(padding), "dilation": tuple(dilation)}
    if transposed:
        steps["output_padding"] = tuple(output_padding)
    forward = nn.conv_transpose if transposed else nn.conv
    of_input, of_weight = back(lambda a, v: forward(a, v, groups=groups, **steps), grad, x, w)
    of_bias = to(_sum(wide(grad), (0, *range(2, grad.ndim))), x.dtype)
    found = of_input, of_weight, of_bias
    return tuple(g if asked else UNASKED for g, asked in zip(found, output_mask, strict=True))


def _as_inferred(c: Context, found: Sequence[Array], output_mask: Sequence[bool]) -> tuple[Array | RefusedResult, ...]:
    """Gradients in the types that PyTorch gives them: under autocast an input has 16 bits, its layer's weight 32."""
    asked = zip(found, c.value, output_mask, strict=True)
    return tuple(to(g, numpy_dtype(example.dtype)) if wanted else UNASKED for g, example, wanted in asked)


def back(forward: Callable[..., Array], grad: Array, *primals: Array) -> Sequence[Array]:
    """The cotangents of a function's arguments."""
    _, transposed = vjp(forward, *primals)
    found: Sequence[Array] = transposed(grad)
    return found


def _sum(x: Array, axes: tuple[int, ...]) -> Array:
    return znp.sum(x, axis=axes) if axes else x


def wide(x: Array) -> Array:
    """16-bit floats as float32, in which PyTorch adds, too."""
    return to(x, np.dtype(np.float32)) if is_narrow(x.dtype) else x
