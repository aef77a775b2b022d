"""Levels of few bits: PyTorch 2 export's quantised graphs (``quantized_decomposed``), and products of levels.

What is dequantised in order to be multiplied becomes a product of bytes (:mod:`zenith.passes.dequantized_products`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import zenith.numpy as znp
from zenith.errors import user_line
from zenith.ir.builder import Builder
from zenith.ir.ops.scaled_product import grouped_product
from zenith.nn.normalization import of_channels
from zenith.numpy.typing import Array
from zenith.torch.aten.rules import Context, numpy_dtype, rule
from zenith.trace import Tracer, current_recorder
from zenith.trace.bind import graph_value

NAMESPACE = "quantized_decomposed"
Range = tuple[Array, Array]
SINGLE, DOUBLE, LONG = (np.dtype(t) for t in (np.float32, np.float64, np.int64))


def _steps(scale: Any, dtype: np.dtype[Any]) -> Any:
    """What numbers are multiplied by: PyTorch divides 1 by a number in double precision, and by a tensor in its own."""
    if isinstance(scale, float):
        return 1 / scale
    return 1 / znp.astype(znp.asarray(scale), dtype)


@rule(f"{NAMESPACE}::quantize_per_tensor")
def _quantize(
    c: Context, x: Array, scale: Any, zero: Any, lowest: int, largest: int, dtype: torch.dtype, **_: object
) -> Array:
    x = znp.astype(x, SINGLE)
    level = znp.round(x * _steps(scale, SINGLE)) + znp.astype(znp.asarray(zero), SINGLE)
    return znp.astype(znp.clip(level, lowest, largest), numpy_dtype(dtype))


@rule(f"{NAMESPACE}::quantize_per_channel")
def _quantize_by_channel(
    c: Context, x: Array, scales: Array, zeros: Array, axis: int, lowest: int, largest: int, dtype: torch.dtype
) -> Array:
    scale, zero = (of_channels(v, x, axis % x.ndim) for v in (scales, zeros))
    return _quantize(c, x, scale, zero, lowest, largest, dtype)


@rule(f"{NAMESPACE}::quantize_per_token")
def _quantize_by_token(
    c: Context, x: Array, scales: Array, zeros: Array, lowest: int, largest: int, dtype: torch.dtype
) -> Array:
    level = znp.round(x * (1 / scales) + znp.astype(zeros, scales.dtype))
    return znp.astype(znp.clip(level, lowest, largest), numpy_dtype(dtype))


@rule(f"{NAMESPACE}::dequantize_per_tensor")
def _dequantize(c: Context, q: Array, scale: Any, zero: Any, *_: object, **__: object) -> Array:
    return _numbers(q, zero, c.dtype) * znp.astype(znp.asarray(scale), c.dtype)


@rule(f"{NAMESPACE}::dequantize_per_channel")
def _dequantize_by_channel(
    c: Context, q: Array, scales: Array, zeros: Array | None, axis: int, *_: object, **__: object
) -> Array:
    zero = 0 if zeros is None else of_channels(zeros, q, axis % q.ndim)
    return znp.astype(_numbers(q, zero, scales.dtype) * of_channels(scales, q, axis % q.ndim), c.dtype)


@rule(f"{NAMESPACE}::dequantize_per_token")
def _dequantize_by_token(c: Context, q: Array, scales: Array, zeros: Array, *_: object, **__: object) -> Array:
    return znp.astype(_numbers(q, zeros, scales.dtype) * scales, c.dtype)


def _numbers(q: Array, zero: Any, dtype: np.dtype[Any]) -> Array:
    """Levels less zero, which nothing is subtracted for where it is known to be 0."""
    levels = znp.astype(q, dtype)
    is_none = isinstance(zero, (int, np.ndarray)) and not np.any(zero)
    return levels if is_none else levels - znp.astype(znp.asarray(zero), dtype)


# --- scales and zero points of a call's own --------------------------------------------------------------------------


@rule(f"{NAMESPACE}::choose_qparams")
def _choose(c: Context, x: Array, lowest: int, largest: int, smallest: float, dtype: torch.dtype) -> Range:
    """Of all numbers, whose range has zero in it."""
    least, most = (znp.reshape(end, (1,)) for end in _range_with_zero(x, None))
    scale = znp.maximum((most - least) / (largest - lowest), smallest)
    zero = znp.clip(lowest - znp.astype(znp.round(least / scale), LONG), lowest, largest)
    return znp.astype(scale, DOUBLE), zero


@rule(f"{NAMESPACE}::choose_qparams_symmetric")
def _choose_symmetric(c: Context, x: Array, lowest: int, largest: int, smallest: float, dtype: torch.dtype) -> Range:
    """The same with as many levels below zero as above it."""
    least, most = (znp.reshape(end, (1,)) for end in _range_with_zero(x, None))
    scale = znp.maximum(znp.maximum(-least, most) / ((largest - lowest) / 2), smallest)
    return znp.astype(scale, DOUBLE), znp.full((1,), 128 if dtype == torch.uint8 else 0, LONG)


@rule(f"{NAMESPACE}::choose_qparams_per_token")
def _choose_by_token(c: Context, x: Array, dtype: torch.dtype) -> Range:
    """Of the last axis' numbers, as i8. The results are of the types that an export declares, as wide as PyTorch's."""
    most = znp.max(znp.abs(x), axis=-1, keepdims=True)
    scale = znp.maximum(znp.astype(most, SINGLE) if most.dtype == np.float16 else most, 1e-5) / 127
    return znp.astype(scale, DOUBLE), znp.zeros(scale.shape, LONG)


@rule(f"{NAMESPACE}::choose_qparams_per_token_asymmetric")
def _choose_by_token_asymmetric(c: Context, x: Array, dtype: torch.dtype) -> Range:
    """The same with a zero point, at that end of the levels where it rounds less."""
    least, most = _range_with_zero(x, -1)
    scale = znp.maximum((most - least) / 255, float(np.finfo(np.float32).eps))
    below, above = least / scale, most / scale
    zero = znp.where((-128 + below) + (127 + above) > 0, -128 - below, 127 - above)
    return znp.astype(scale, DOUBLE), znp.astype(znp.round(znp.clip(zero, -128, 127)), LONG)


def _range_with_zero(x: Array, axis: int | None) -> Range:
    least, most = (reduce(znp.astype(x, SINGLE), axis=axis, keepdims=axis is not None) for reduce in (znp.min, znp.max))
    return znp.minimum(least, 0), znp.maximum(most, 0)


# --- what is left of numbers that are stored as levels ---------------------------------------------------------------


@rule("fake_quantize_per_tensor_affine_cachemask")
def _fake_quantize(c: Context, x: Array, scale: Any, zero: Any, lowest: int, largest: int) -> Range:
    """The numbers, and where a derivative passes: where no level was clipped."""
    zero = znp.astype(znp.asarray(zero), SINGLE)
    level = znp.round(znp.astype(x, SINGLE) * _steps(scale, SINGLE)) + zero
    numbers = (znp.clip(level, lowest, largest) - zero) * znp.astype(znp.asarray(scale), SINGLE)
    return znp.astype(numbers, c.dtype), (level >= lowest) & (level <= largest)


@rule("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def _fake_quantize_or_not(
    c: Context, x: Array, scale: Array, zero: Array, enabled: Array, lowest: int, largest: int
) -> Range:
    numbers, passes = _fake_quantize(c, x, scale, zero, lowest, largest)
    rounds = znp.reshape(enabled, ()) != 0
    return znp.where(rounds, numbers, x), passes | ~rounds


@rule("fake_quantize_per_channel_affine_cachemask")
def _fake_quantize_by_channel(
    c: Context, x: Array, scales: Array, zeros: Array, axis: int, lowest: int, largest: int
) -> Range:
    scale, zero = (of_channels(v, x, axis % x.ndim) for v in (scales, zeros))
    return _fake_quantize(c, x, scale, zero, lowest, largest)


@rule("_int_mm")
def _int_mm(c: Context, x: Array, y: Array) -> Array:
    """The exact product of bytes, in int32."""
    return znp.matmul(*(znp.astype(v, np.dtype(np.int32)) for v in (x, y)))


@rule("zenith::grouped_linear")
def _grouped_linear(c: Context, x: Array, levels: Array, scales: Array, shifts: Array | None, bits: int) -> Array:
    recorder = current_recorder()
    assert recorder is not None, "a translated module runs under a trace"
    left, matrix, *known = (graph_value(recorder, a) for a in (x, levels, scales, shifts) if a is not None)
    return Tracer(recorder, grouped_product(Builder(recorder.graph, user_line()), left, matrix, known, bits))
