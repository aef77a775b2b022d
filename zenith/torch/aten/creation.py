"""Arrays from numbers, sizes, lookups and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import Context, rule


@rule("full")
def _full(c: Context, shape: Sequence[Any], value: Any, **_: Any) -> Any:
    return znp.full(tuple(shape), value, dtype=c.dtype)


@rule("full_like")
def _full_like(c: Context, x: Any, value: Any, **_: Any) -> Any:
    return znp.full(x.shape, value, dtype=c.dtype)


@rule("scalar_tensor")
def _scalar_tensor(c: Context, value: Any, **_: Any) -> Any:
    return znp.full((), value, dtype=c.dtype)


@rule("arange.start_step")
def _arange(c: Context, start: Any, end: Any, step: Any = 1, **_: Any) -> Any:
    return znp.astype(znp.arange(start, end, step), c.dtype)


@rule("embedding")
def _embedding(c: Context, weight: Any, indices: Any, *_: Any) -> Any:
    return znp.take(weight, indices, axis=0)


@rule("sym_size")
def _sym_size(c: Context, x: Any, dim: int) -> Any:
    return x.shape[dim]


@rule("_assert_tensor_metadata")
def _no_check(c: Context, *_: Any, **__: Any) -> None:
    """Types are fixed when the graph is traced: there is nothing left to check."""
