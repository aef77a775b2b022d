"""Derivatives that PyTorch has as operators of their own: they stand in the graphs of training steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.torch.aten.refused import Absent
from zenith.torch.aten.rules import Context, rule, to
from zenith.trace.bind import b

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


def _sum(x: Any, axes: tuple[int, ...]) -> Any:
    return znp.sum(x, axis=axes) if axes else x


def _wide(x: Any) -> Any:
    """16-bit floats as float32, in which PyTorch adds, too."""
    return to(x, np.dtype(np.float32)) if kind_of(x.dtype) == "f" and x.dtype.itemsize == 2 else x
