"""Views, slices and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import Context, rule

_END = 2**63 - 1  # how torch.export writes an open end of a slice


@rule("view.default", "_unsafe_view")
def _view(c: Context, x: Any, shape: Sequence[Any]) -> Any:
    return znp.reshape(x, tuple(shape))


@rule("permute")
def _permute(c: Context, x: Any, dims: Sequence[int]) -> Any:
    return znp.transpose(x, tuple(dims))


@rule("unsqueeze")
def _unsqueeze(c: Context, x: Any, dim: int) -> Any:
    return znp.expand_dims(x, dim)


@rule("squeeze")
def _squeeze(c: Context, x: Any, dim: Any = None) -> Any:
    """Removes axes that are 1 for every size of this export; others are not 1, by torch.export's own guards."""
    sizes = c.arguments[0].shape
    asked = range(len(sizes)) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = tuple(d for d in asked if isinstance(sizes[d], int) and sizes[d] == 1)
    return znp.squeeze(x, axis=axes) if axes else x


@rule("expand")
def _expand(c: Context, x: Any, shape: Sequence[Any], implicit: bool = False) -> Any:
    own = (None,) * (len(shape) - x.ndim) + tuple(x.shape)
    wanted = [kept if isinstance(n, int) and n == -1 else n for n, kept in zip(shape, own, strict=True)]
    return znp.broadcast_to(x, tuple(wanted))


@rule("slice")
def _slice(c: Context, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    end = None if isinstance(end, int) and end == _END else end
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


@rule("select")
def _select(c: Context, x: Any, dim: int, index: Any) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


@rule("cat")
def _cat(c: Context, tensors: Sequence[Any], dim: int = 0) -> Any:
    rank = max(t.ndim for t in tensors)
    return znp.concatenate(
        [c.cast(t) for t in tensors if t.ndim == rank], axis=dim
    )  # torch skips tensors of shape (0,)


@rule("split_with_sizes")
def _split_with_sizes(c: Context, x: Any, sizes: Sequence[Any], dim: int = 0) -> Any:
    parts, start = [], 0
    for size in sizes:
        parts.append(_slice(c, x, dim, start, start + size))
        start = start + size
    return tuple(parts)


@rule("flip")
def _flip(c: Context, x: Any, dims: Sequence[int]) -> Any:
    return znp.flip(x, tuple(dims))
