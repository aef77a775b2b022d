"""Views, slices, joins, and copies with a slice replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith.numpy.typing import Array, Axes, Size
from zenith.torch.aten.rules import RULES, Context, rule
from zenith.trace import Tracer, current_recorder
from zenith.trace.bind import b, graph_value

_END = 2**63 - 1  # how torch.export writes an open end of a slice


@rule("view.default", "_unsafe_view", "reshape")
def _view(c: Context, x: Array, shape: Sequence[Size]) -> Array:
    return znp.reshape(x, tuple(shape))


@rule("permute")
def _permute(c: Context, x: Array, dims: Sequence[int]) -> Array:
    return znp.transpose(x, tuple(dims))


@rule("transpose.int")
def _transpose(c: Context, x: Array, first: int, second: int) -> Array:
    return znp.swapaxes(x, first, second)


@rule("flatten.using_ints")
def _flatten(c: Context, x: Array, start: int = 0, end: int = -1) -> Array:
    sizes, (first, last) = tuple(x.shape) or (1,), (start % max(x.ndim, 1), end % max(x.ndim, 1))
    return znp.reshape(x, (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]))


@rule("unflatten.int")
def _unflatten(c: Context, x: Array, dim: int, sizes: Sequence[Size]) -> Array:
    axis = dim % x.ndim
    return znp.reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@rule("unsqueeze")
def _unsqueeze(c: Context, x: Array, dim: int) -> Array:
    return znp.expand_dims(x, dim)


@rule("squeeze")
def _squeeze(c: Context, x: Array, dim: Axes = None) -> Array:
    """Removes axes that are 1 for every size of this export; others are not 1, by torch.export's own guards."""
    sizes = c.arguments[0].shape
    asked: Any = range(len(sizes)) if dim is None or not sizes else [dim] if isinstance(dim, int) else dim
    axes = tuple(d for d in asked if isinstance(sizes[d], int) and sizes[d] == 1)
    return znp.squeeze(x, axis=axes) if axes else x


@rule("expand")
def _expand(c: Context, x: Array, shape: Sequence[Size], implicit: bool = False) -> Array:
    own = (None,) * (len(shape) - x.ndim) + tuple(x.shape)
    wanted = [size if isinstance(n, int) and n == -1 else n for n, size in zip(shape, own, strict=True)]
    return znp.broadcast_to(x, tuple(wanted))


@rule("repeat")
def _repeat(c: Context, x: Array, repeats: Sequence[Size]) -> Array:
    return znp.tile(x, tuple(repeats))


@rule("slice")
def _slice(c: Context, x: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Array:
    end = None if isinstance(end, int) and end == _END else end
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


@rule("select")
def _select(c: Context, x: Array, dim: int, index: Array | Size) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


@rule("cat")
def _cat(c: Context, tensors: Sequence[Array], dim: int = 0) -> Array:
    rank = max(t.ndim for t in tensors)
    return znp.concatenate(
        [c.cast(t) for t in tensors if t.ndim == rank], axis=dim
    )  # torch skips tensors of shape (0,)


@rule("split_with_sizes")
def _split_with_sizes(c: Context, x: Array, sizes: Sequence[Any], dim: int = 0) -> tuple[Array, ...]:
    slices, start = [], 0
    for size in sizes:
        slices.append(_slice(c, x, dim, start, start + size))
        start = start + size
    return tuple(slices)


@rule("split.Tensor")
def _split(c: Context, x: Array, size: Any, dim: int = 0) -> tuple[Array, ...]:
    return tuple(_slice(c, x, dim, i * size, (i + 1) * size) for i in range(len(c.value)))


@rule("chunk")
def _chunk(c: Context, x: Array, chunks: int, dim: int = 0) -> tuple[Array, ...]:
    return _split(c, x, (x.shape[dim] + (chunks - 1)) // chunks, dim)


@rule("unbind")
def _unbind(c: Context, x: Array, dim: int = 0) -> tuple[Array, ...]:
    return tuple(_select(c, x, dim, i) for i in range(len(c.value)))


@rule("roll")
def _roll(c: Context, x: Array, shifts: Sequence[Size], dims: Sequence[int] = ()) -> Array:
    if not dims:
        return znp.roll(x, shifts[0] if isinstance(shifts, (list, tuple)) else shifts)
    return znp.roll(x, tuple(shifts), tuple(dims))


@rule("flip")
def _flip(c: Context, x: Array, dims: Sequence[int]) -> Array:
    return znp.flip(x, tuple(dims))


@rule("slice_scatter")
def _slice_scatter(
    c: Context, x: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    end = None if isinstance(end, int) and end == _END else end
    return _written_over(x, dim, slice(start, end, step), src)


@rule("select_scatter")
def _select_scatter(c: Context, x: Array, src: Array, dim: int, index: Array | Size) -> Array:
    return _written_over(x, dim, index, src)


def _written_over(x: Array, dim: int, index: Array | Size | slice, src: Array) -> Array:
    """The array with a slice replaced: an assignment, which is done in place where nobody needs the array any more."""
    recorder = current_recorder()
    assert recorder is not None, "rules run under a trace"
    result = Tracer(recorder, graph_value(recorder, x)).renewed()
    result[(slice(None),) * (dim % x.ndim) + (index,)] = src
    return result


@rule("copy")
def _copy(c: Context, x: Array, other: Array, *_: object) -> Array:
    return znp.broadcast_to(c.cast(other), x.shape)


@rule("diagonal")
def _diagonal(c: Context, x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return znp.diagonal(x, offset, dim1, dim2)


@rule("diagonal_scatter")
def _diagonal_scatter(c: Context, x: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    number = znp.arange(src.shape[-1])
    front = znp.moveaxis(x, (dim1, dim2), (0, 1))
    found = b.scatter_set(front, znp.moveaxis(src, -1, 0), number + max(-offset, 0), number + max(offset, 0))
    return znp.moveaxis(found, (0, 1), (dim1, dim2))


@rule("unfold")
def _unfold(c: Context, x: Array, dim: int, size: int, step: int) -> Array:
    """Windows of an axis, each in the last axis of the result."""
    x = x if x.ndim else znp.reshape(x, (1,))
    at = dim % x.ndim
    first = znp.arange((x.shape[at] - size) // step + 1) * step
    windows = znp.take(x, znp.expand_dims(first, 1) + znp.arange(size), axis=at)
    windows = znp.moveaxis(windows, at + 1, -1)
    return windows if c.arguments[0].ndim else windows[0]


@rule("narrow", "narrow_copy")
def _narrow(c: Context, x: Array, dim: int, start: Any, length: Any) -> Array:
    start = start if not isinstance(start, int) or start >= 0 else start + x.shape[dim]
    return _slice(c, x, dim, start, start + length)


def _register_copies() -> None:
    """Views under their other names: here no result shares memory with an argument."""
    for name in ("view.default", "permute", "expand", "squeeze", "slice", "select", "transpose.int", "unsqueeze",
                 "split_with_sizes", "split.Tensor", "unbind", "diagonal", "unfold"):  # fmt: skip
        packet, dot, overload = name.partition(".")
        RULES[f"{packet}_copy{dot}{overload}".removesuffix(".default")] = RULES[name]


_register_copies()
