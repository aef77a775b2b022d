"""Kernels in Triton (P. Tillet et al., Triton, 2019) as its tutorials have them: a block of elements or a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from benchmarks.gpu.by_hand import EPSILON

if TYPE_CHECKING:
    from benchmarks.workloads import Program, Workload

BLOCK = 1024


@triton.jit
def _gelu(x):
    return 0.5 * x * (1 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


@triton.jit
def _elementwise(x_ptr, y_ptr, count, CHAIN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    y = _gelu(x)
    if CHAIN:
        y = 1 / (1 + tl.exp(-tl.exp(libdevice.tanh(y))))
    tl.store(y_ptr + at, y, mask=at < count)


@triton.jit
def _rows(
    x_ptr, y_ptr, scale_ptr, shift_ptr, length, epsilon,
    NORMALISE: tl.constexpr, SOFTMAX: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    inside, start = column < length, tl.program_id(0).to(tl.int64) * length
    x = tl.load(x_ptr + start + column, mask=inside, other=0.0)
    if NORMALISE:
        x = tl.where(inside, x - tl.sum(x, axis=0) / length, 0.0)
        scale = tl.load(scale_ptr + column, mask=inside)
        shift = tl.load(shift_ptr + column, mask=inside)
        x = x / tl.sqrt(tl.sum(x * x, axis=0) / length + epsilon) * scale + shift
    if SOFTMAX:
        x = tl.where(inside, x, float("-inf"))
        x = tl.exp(x - tl.max(x, axis=0))
        x = x / tl.sum(x, axis=0)
    tl.store(y_ptr + start + column, x, mask=inside)


def program(workload: Workload) -> Program:
    """The kernel of a workload as a function of tensors."""
    weights = tuple(torch.from_numpy(w).cuda() for w in workload.weights())
    chain, softmax, normalise = workload.name == "gpu_chain", "softmax" in workload.name, bool(weights)

    def elementwise(x: Any) -> Any:
        y = torch.empty_like(x)
        _elementwise[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), chain, BLOCK)
        return y

    def rows(x: Any) -> Any:
        y, (count, length) = torch.empty_like(x), x.shape
        scale, shift = weights or (x, x)
        block = triton.next_power_of_2(length)
        _rows[(count,)](x, y, scale, shift, length, EPSILON, normalise, softmax, block)
        return y

    return elementwise if workload.expression else rows
