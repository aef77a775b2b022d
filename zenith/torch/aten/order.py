"""Sorting and what is chosen by order: sort, topk, kthvalue, median."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import Context, rule


@rule("sort")
def _sort(c: Context, x: Any, dim: int = -1, descending: bool = False) -> Any:
    """Every sort is stable. A number is a row of one."""
    if x.ndim == 0:
        return x, znp.zeros_like(x, dtype=znp.int64)
    return znp.top_k(x, x.shape[dim], dim, largest=descending)


@rule("sort.stable")
def _sort_stable(c: Context, x: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    return _sort(c, x, dim, descending)


@rule("argsort")
def _argsort(c: Context, x: Any, dim: int = -1, descending: bool = False) -> Any:
    return _sort(c, x, dim, descending)[1]


@rule("argsort.stable")
def _argsort_stable(c: Context, x: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    return _sort(c, x, dim, descending)[1]


@rule("topk")
def _topk(c: Context, x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return znp.top_k(x, k, dim, largest)


@rule("kthvalue")
def _kthvalue(c: Context, x: Any, k: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The last of the k smallest."""
    return tuple(_at(found, k - 1, dim, keepdim) for found in znp.top_k(x, k, dim, largest=False))


@rule("median.dim")
def _median(c: Context, x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower of the two in the middle; nan, the largest, where there is one."""
    middle = (x.shape[dim] - 1) // 2
    values, places = znp.top_k(x, x.shape[dim], dim, largest=False)
    last = _at(values, x.shape[dim] - 1, dim, keepdim)
    missing = last != last
    first = znp.argmax(x != x, axis=dim, keepdims=keepdim)
    return (znp.where(missing, last, _at(values, middle, dim, keepdim)),
            znp.where(missing, first, _at(places, middle, dim, keepdim)))  # fmt: skip


@rule("median")
def _median_of_all(c: Context, x: Any) -> Any:
    return _median(c, znp.reshape(x, (-1,)), 0)[0]


def _at(x: Any, place: Any, dim: int, keepdim: bool) -> Any:
    """One place of an axis, which stays with size 1 or goes."""
    index = [slice(None)] * x.ndim
    index[dim] = slice(place, place + 1) if keepdim else place
    return x[tuple(index)]
