"""Arrays from numbers, sizes, lookups and checks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.numpy.typing import Array, ArrayLike, Size
from zenith.torch.aten.rules import RULES, Context, rule
from zenith.torch.aten.scatter import indices_along
from zenith.trace import TracedSize
from zenith.trace.bind import b


@rule("full", "new_full")
def _full(c: Context, *shape_and_value: Any, **_: object) -> Array:
    shape, value = shape_and_value[-2:]  # what comes before them in new_full only gives a type
    return znp.full(tuple(shape), c.operands(value), dtype=c.dtype)


@rule("full_like")
def _full_like(c: Context, x: Array, value: ArrayLike, **_: object) -> Array:
    return znp.full(x.shape, c.operands(value), dtype=c.dtype)


def _register_constants() -> None:
    for name, value in (("zeros", 0), ("ones", 1)):
        RULES[name] = lambda c, shape, v=value, **__: _full(c, shape, v)
        RULES[f"new_{name}"] = lambda c, x, shape, v=value, **__: _full(c, shape, v)
        RULES[f"{name}_like"] = lambda c, x, v=value, **__: _full_like(c, x, v)


_register_constants()
RULES["_efficientzerotensor"] = RULES["zeros"]


@rule("empty.memory_format", "empty_strided", "empty_permuted")
def _empty(c: Context, shape: Sequence[Size], *_: object, **__: object) -> Array:
    """Elements that nobody has written are 0, in row-major order."""
    return znp.zeros(tuple(shape), dtype=c.dtype)


@rule("new_empty", "new_empty_strided")
def _new_empty(c: Context, x: Array, shape: Sequence[Size], *_: object, **__: object) -> Array:
    return _empty(c, shape)


@rule("empty_like")
def _empty_like(c: Context, x: Array, **_: object) -> Array:
    return _empty(c, x.shape)


@rule("scalar_tensor")
def _scalar_tensor(c: Context, value: ArrayLike, **_: object) -> Array:
    return znp.full((), c.operands(value), dtype=c.dtype)


@rule("arange.default", "arange.start", "arange.start_step")
def _arange(c: Context, *bounds: float | TracedSize, **_: object) -> Array:
    whole = [int(n) if isinstance(n, float) and n.is_integer() else n for n in bounds]
    if kind_of(c.dtype) in "iu" and any(isinstance(n, float) for n in whole):
        return _whole_steps(c, whole)
    return znp.astype(znp.arange(*whole), c.dtype)


def _whole_steps(c: Context, bounds: Sequence[Any]) -> Array:
    """An ``arange`` of integers from floats: PyTorch rounds its start and steps, and of int64 its length, too."""
    start, stop, step = bounds if len(bounds) == 3 else (*([0] if len(bounds) == 1 else []), *bounds, 1)
    known = [int(n) if isinstance(n, float) else n for n in (start, stop, step)]
    if c.dtype == np.int64:
        return znp.arange(*known, dtype=np.int64)
    count = math.ceil((stop - start) / step)
    return znp.astype(known[0] + known[2] * znp.arange(count), c.dtype)


@rule("eye")
def _eye(c: Context, rows: Size, columns: Size | None = None, **_: object) -> Array:
    return znp.eye(rows, columns, dtype=c.dtype)


@rule("index.Tensor")
def _index(c: Context, x: Array, indices: Sequence[Array | None]) -> Array:
    return x[tuple(slice(None) if i is None else i for i in indices)]


@rule("index_select")
def _index_select(c: Context, x: Array, dim: int, index: Array) -> Array:
    """Indices count from the front only, as in all that PyTorch gathers and scatters."""
    return b.take(x, znp.astype(znp.reshape(index, (-1,)), np.int64), axis=dim % x.ndim)


@rule("gather")
def _gather(c: Context, x: Array, dim: int, index: Array, **_: object) -> Array:
    if index.ndim != x.ndim:  # PyTorch takes such an index where it is empty
        return znp.zeros(index.shape, dtype=x.dtype)
    return b.gather(x, *indices_along(index, dim % x.ndim))


@rule("nonzero_static")
def _nonzero_static(c: Context, x: Array, *, size: Size, fill_value: int = -1) -> Array:
    """The indices of the first ``size`` elements that are not zero, rows of ``fill_value`` where there are fewer."""
    return znp.argwhere(x, size=size, fill_value=fill_value)


@rule("tril_indices")
def _tril_indices(c: Context, rows: int, columns: int, offset: int = 0, **_: object) -> Array:
    return np.stack(np.tril_indices(rows, offset, columns)).astype(c.dtype)


@rule("triu_indices")
def _triu_indices(c: Context, rows: int, columns: int, offset: int = 0, **_: object) -> Array:
    return np.stack(np.triu_indices(rows, offset, columns)).astype(c.dtype)


@rule("sym_size")
def _sym_size(c: Context, x: Array, dim: int) -> Size:
    return x.shape[dim]


@rule("sym_numel")
def _sym_numel(c: Context, x: Array) -> Size:
    return x.size


@rule("_assert_tensor_metadata")
def _no_check(c: Context, *_: object, **__: object) -> None:
    """Types are fixed when the graph is traced: there is nothing left to check."""
