"""Sums, extremes, variances, running sums."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.numpy.typing import Array, Axes
from zenith.torch.aten.corners import of_element, reduction, root
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once, rule, to
from zenith.trace.dispatch import implementation


def axes_of(dim: Axes) -> Axes:
    """PyTorch's ``dim`` as NumPy's ``axis``: nothing and an empty list mean all."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def _reduction(function: Callable[..., Array]) -> Rule:
    def reduce(c: Context, x: Array, dim: Axes = None, keepdim: bool = False, **_: object) -> Array:
        return function(c.cast(x), axis=axes_of(dim), keepdims=keepdim)

    return reduce


def _total(function: Callable[..., Array]) -> Rule:
    """A sum or product in the result's type; NumPy's would be wider."""

    def total(c: Context, x: Array, dim: Axes = None, keepdim: bool = False, **_: object) -> Array:
        return function(c.cast(x), axis=axes_of(dim), dtype=c.dtype, keepdims=keepdim)

    return total


def _truth(function: Callable[..., Array]) -> Rule:
    """A truth, of bytes a byte; no axes at all leave the elements' own."""

    def reduce(c: Context, x: Array, dim: Axes = None, keepdim: bool = False, **_: object) -> Array:
        own = isinstance(dim, (list, tuple)) and not dim
        found = x != 0 if own else function(x, axis=axes_of(dim), keepdims=keepdim)
        return to(found, np.dtype(np.uint8 if x.dtype == np.uint8 else bool))

    return reduce


RULES |= {
    "sum": _total(znp.sum), "mean": _reduction(znp.mean), "prod": _total(znp.prod), "amax": _reduction(znp.max),
    "amin": _reduction(znp.min), "any": _truth(znp.any),
}  # fmt: skip


def _of_all(reduce: Callable[..., Array]) -> Rule:
    """The extreme of all elements; its derivative belongs to all that are equal to it, nan to nan, in equal shares."""

    def shares(found: Array, x: Array) -> Array:
        hits = (x == found) | ((x != x) & (found != found))
        return hits / znp.sum(hits, dtype=x.dtype)

    def extreme(c: Context, x: Array) -> Array:
        axes = tuple(range(x.ndim))
        found = partial(reduce, axis=axes, keepdims=True)
        return reduction(found, shares, axes, False)(x) if kind_of(x.dtype) == "f" else reduce(x)

    return extreme


RULES |= {"max.default": _of_all(znp.max), "min.default": _of_all(znp.min)}


def _with_index(reduce: Callable[..., Array], index_of: Callable[..., Array]) -> Rule:
    """The extreme along an axis and its index; its derivative is that of the element there."""

    def extreme(c: Context, x: Array, dim: int, keepdim: bool = False) -> tuple[Array, ...]:
        def found(x: Array) -> tuple[Array, Array]:
            return reduce(x, axis=dim, keepdims=True), index_of(x, axis=dim, keepdims=True)

        values = (of_element(found, dim % x.ndim) if kind_of(x.dtype) == "f" else found)(x)
        return values if keepdim else tuple(znp.squeeze(v, axis=dim) for v in values)

    return extreme


RULES |= {"max.dim": _with_index(znp.max, znp.argmax), "min.dim": _with_index(znp.min, znp.argmin)}


@rule("argmax")
def _argmax(c: Context, x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return znp.argmax(x, axis=dim, keepdims=keepdim)


@rule("argmin")
def _argmin(c: Context, x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return znp.argmin(x, axis=dim, keepdims=keepdim)


@rule("var.correction")
@rounded_once
def _var(c: Context, x: Array, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False) -> Array:
    """The squares about the mean, divided by their number less ``correction``, which may be a fraction."""
    return znp.var(x, axis=axes_of(dim), ddof=1 if correction is None else correction, keepdims=keepdim)


@rule("var_mean.correction")
@rounded_once
def _var_mean(c: Context, x: Array, dim: Axes = None, *, correction: float | None = None,
              keepdim: bool = False) -> tuple[Array, Array]:  # fmt: skip
    mean = znp.mean(x, axis=axes_of(dim), keepdims=keepdim)
    return _var(c, x, dim, correction=correction, keepdim=keepdim), mean


@rule("std.correction")
@rounded_once
def _std(c: Context, x: Array, dim: Axes = None, *, correction: float | None = None, keepdim: bool = False) -> Array:
    """The root of the variance; its derivative is 0 where that is."""
    return root(_var(c, x, dim, correction=correction, keepdim=keepdim))


@rule("std_mean.correction")
@rounded_once
def _std_mean(c: Context, x: Array, dim: Axes = None, *, correction: float | None = None,
              keepdim: bool = False) -> tuple[Array, Array]:  # fmt: skip
    variance, mean = _var_mean(c, x, dim, correction=correction, keepdim=keepdim)
    return root(variance), mean


def _register_unbiased() -> None:
    """The older forms, which say whether one is taken off the number; PyTorch rewrites those of std_mean itself."""
    for name, function in (("var", _var), ("var_mean", _var_mean), ("std", _std)):
        RULES[name] = lambda c, x, unbiased=True, f=function: f(c, x, correction=int(unbiased))
        RULES[f"{name}.dim"] = lambda c, x, dim, unbiased=True, keepdim=False, f=function: f(
            c, x, dim, correction=int(unbiased), keepdim=keepdim
        )


_register_unbiased()


@rule("cumsum")
def _cumsum(c: Context, x: Array, dim: int, **_: object) -> Array:
    return znp.cumsum(c.cast(x), axis=dim, dtype=c.dtype)


@rule("cumprod")
def _cumprod(c: Context, x: Array, dim: int, **_: object) -> Array:
    return znp.cumprod(c.cast(x), axis=dim, dtype=c.dtype)


@rule("cummax")
def _cummax(c: Context, x: Array, dim: int) -> tuple[Array, Array]:
    return implementation("_cummax_and_indices")(x, dim)


@rule("cummin")
def _cummin(c: Context, x: Array, dim: int) -> tuple[Array, Array]:
    return implementation("_cummin_and_indices")(x, dim)


@rule("logcumsumexp")
def _logcumsumexp(c: Context, x: Array, dim: int) -> Array:
    return znp.cumulative_logsumexp(c.cast(x), axis=dim)
