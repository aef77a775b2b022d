"""Views, slices, joins, and copies with a part replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith.errors import UnsupportedError
from zenith.torch.aten.rules import Context, rule

_END = 2**63 - 1  # how torch.export writes an open end of a slice


@rule("view.default", "_unsafe_view", "reshape")
def _view(c: Context, x: Any, shape: Sequence[Any]) -> Any:
    return znp.reshape(x, tuple(shape))


@rule("permute")
def _permute(c: Context, x: Any, dims: Sequence[int]) -> Any:
    return znp.transpose(x, tuple(dims))


@rule("transpose.int")
def _transpose(c: Context, x: Any, first: int, second: int) -> Any:
    return znp.swapaxes(x, first, second)


@rule("flatten.using_ints")
def _flatten(c: Context, x: Any, start: int = 0, end: int = -1) -> Any:
    sizes, (first, last) = tuple(x.shape) or (1,), (start % max(x.ndim, 1), end % max(x.ndim, 1))
    return znp.reshape(x, (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]))


@rule("unflatten.int")
def _unflatten(c: Context, x: Any, dim: int, sizes: Sequence[Any]) -> Any:
    axis = dim % x.ndim
    return znp.reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


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


@rule("repeat")
def _repeat(c: Context, x: Any, repeats: Sequence[Any]) -> Any:
    return znp.tile(x, tuple(repeats))


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


@rule("split.Tensor")
def _split(c: Context, x: Any, size: Any, dim: int = 0) -> Any:
    return tuple(_slice(c, x, dim, i * size, (i + 1) * size) for i in range(len(c.value)))


@rule("chunk")
def _chunk(c: Context, x: Any, chunks: int, dim: int = 0) -> Any:
    return _split(c, x, (x.shape[dim] + (chunks - 1)) // chunks, dim)


@rule("unbind")
def _unbind(c: Context, x: Any, dim: int = 0) -> Any:
    return tuple(_select(c, x, dim, i) for i in range(len(c.value)))


@rule("flip")
def _flip(c: Context, x: Any, dims: Sequence[int]) -> Any:
    return znp.flip(x, tuple(dims))


@rule("slice_scatter")
def _slice_scatter(
    c: Context, x: Any, part: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    if step != 1:
        raise UnsupportedError("slice_scatter with a step is not supported", fix="join slices with torch.cat")
    before, after = _slice(c, x, dim, 0, start or 0), _slice(c, x, dim, _END if end is None else end)
    return znp.concatenate([before, part, after], axis=dim)


@rule("select_scatter")
def _select_scatter(c: Context, x: Any, part: Any, dim: int, index: Any) -> Any:
    place = znp.reshape(znp.arange(x.shape[dim]), (-1,) + (1,) * (x.ndim - 1 - dim % x.ndim))
    return znp.where(place == (index if index >= 0 else index + x.shape[dim]), znp.expand_dims(part, dim), x)


@rule("copy")
def _copy(c: Context, x: Any, other: Any, *_: Any) -> Any:
    return znp.broadcast_to(c.cast(other), x.shape)
