"""Distances between rows: of every pair of two sets, of all pairs of one, of two tensors."""

from __future__ import annotations

import math
from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import Context, rounded_once, rule
from zenith.trace.bind import b


@rule("_cdist_forward")
def _cdist(c: Context, x: Any, y: Any, p: float, compute_mode: int | None = None) -> Any:
    """The norm of the difference of every row of ``x`` and every row of ``y``; leading axes are broadcast."""
    return _length(znp.expand_dims(x, -2) - znp.expand_dims(y, -3), p)


@rule("_pdist_forward")
def _pdist(c: Context, x: Any, p: float = 2.0) -> Any:
    """The same of every pair of rows ``i < j``, in order of ``i`` and then ``j``."""
    rows = x.shape[0]
    before = znp.arange(rows)
    starts = before * rows - before * (before + 1) // 2  # how many pairs come before those of row i
    pair = znp.arange(rows * (rows - 1) // 2)
    first = znp.searchsorted(starts[: rows - 1], pair, side="right") - 1
    second = pair - znp.take(starts, first) + first + 1
    return _length(znp.take(x, first, axis=0) - znp.take(x, second, axis=0), p)


@rule("dist")
@rounded_once
def _dist(c: Context, x: Any, y: Any, p: float = 2) -> Any:
    return _length(znp.reshape(c.cast(x) - c.cast(y), (-1,)), p)


def _length(x: Any, p: float) -> Any:
    """The norm along the last axis, 0 where that has no elements."""
    if math.isinf(p) and p > 0:
        return znp.maximum(b.reduce_max(znp.abs(x), axes=(x.ndim - 1,)), 0)
    return znp.linalg.vector_norm(x, axis=-1, ord=p)
