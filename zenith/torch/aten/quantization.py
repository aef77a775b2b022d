"""Levels of few bits: PyTorch 2 export's quantised graphs (``quantized_decomposed``), and products of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import zenith.numpy as znp
from zenith.nn.normalization import of_channels
from zenith.numpy.typing import Array
from zenith.torch.aten.rules import Context, numpy_dtype, rule


def _level(x: Array, scale: Any, zero: Any) -> Array:
    """Levels before they are clipped, as floats."""
    steps = 1 / znp.astype(znp.asarray(scale), x.dtype)
    return znp.round(x * steps) + znp.astype(znp.asarray(zero), x.dtype)


@rule("quantized_decomposed::quantize_per_tensor")
def _quantize(
    c: Context, x: Array, scale: Any, zero: Any, lowest: int, largest: int, dtype: torch.dtype, **_: object
) -> Array:
    return znp.astype(znp.clip(_level(x, scale, zero), lowest, largest), numpy_dtype(dtype))


@rule("quantized_decomposed::quantize_per_channel")
def _quantize_by_channel(
    c: Context, x: Array, scales: Array, zeros: Array, axis: int, lowest: int, largest: int, dtype: torch.dtype
) -> Array:
    scale, zero = (of_channels(v, x, axis % x.ndim) for v in (scales, zeros))
    return _quantize(c, x, scale, zero, lowest, largest, dtype)


@rule("quantized_decomposed::dequantize_per_tensor")
def _dequantize(c: Context, q: Array, scale: Any, zero: Any, *_: object, **__: object) -> Array:
    numbers = znp.astype(q, c.dtype) - znp.astype(znp.asarray(zero), c.dtype)
    return numbers * znp.astype(znp.asarray(scale), c.dtype)


@rule("quantized_decomposed::dequantize_per_channel")
def _dequantize_by_channel(
    c: Context, q: Array, scales: Array, zeros: Array | None, axis: int, *_: object, **__: object
) -> Array:
    zero = 0 if zeros is None else of_channels(zeros, q, axis % q.ndim)
    return _dequantize(c, q, of_channels(scales, q, axis % q.ndim), zero)


@rule("_int_mm")
def _int_mm(c: Context, x: Array, y: Array) -> Array:
    """The exact product of bytes, in int32."""
    return znp.matmul(*(znp.astype(v, np.dtype(np.int32)) for v in (x, y)))
