"""Sums, extremes, variances and what is built on them: softmax, layer normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import RULES, Context, Rule, rule


def _axes(dim: Any) -> Any:
    """PyTorch's ``dim`` as NumPy's ``axis``: nothing and an empty list mean all."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def _reduction(function: Callable[..., Any]) -> Rule:
    def reduce(c: Context, x: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
        return function(c.cast(x), axis=_axes(dim), keepdims=keepdim)

    return reduce


RULES |= {
    "sum": _reduction(znp.sum), "mean": _reduction(znp.mean), "prod": _reduction(znp.prod), "amax": _reduction(znp.max),
    "amin": _reduction(znp.min), "max.default": _reduction(znp.max), "min.default": _reduction(znp.min),
    "any": _reduction(znp.any),
}  # fmt: skip


@rule("max.dim")
def _extreme(c: Context, x: Any, dim: int, keepdim: bool = False) -> Any:
    return znp.max(x, axis=dim, keepdims=keepdim), znp.argmax(x, axis=dim, keepdims=keepdim)


@rule("min.dim")
def _smallest(c: Context, x: Any, dim: int, keepdim: bool = False) -> Any:
    return znp.min(x, axis=dim, keepdims=keepdim), znp.argmin(x, axis=dim, keepdims=keepdim)


@rule("argmax")
def _argmax(c: Context, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return znp.argmax(x, axis=dim, keepdims=keepdim)


@rule("argmin")
def _argmin(c: Context, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return znp.argmin(x, axis=dim, keepdims=keepdim)


@rule("var")
def _var(c: Context, x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    return znp.var(x, axis=_axes(dim), ddof=1 if correction is None else int(correction), keepdims=keepdim)


@rule("var_mean")
def _var_mean(c: Context, x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    return _var(c, x, dim, correction, keepdim), znp.mean(x, axis=_axes(dim), keepdims=keepdim)


@rule("_softmax")
def _softmax(c: Context, x: Any, dim: int, *_: Any) -> Any:
    x = c.cast(x)
    e = znp.exp(x - znp.max(x, axis=dim, keepdims=True))
    return e / znp.sum(e, axis=dim, keepdims=True)


@rule("_log_softmax")
def _log_softmax(c: Context, x: Any, dim: int, *_: Any) -> Any:
    x = c.cast(x)
    shifted = x - znp.max(x, axis=dim, keepdims=True)
    return shifted - znp.log(znp.sum(znp.exp(shifted), axis=dim, keepdims=True))


@rule("native_layer_norm")
def _layer_norm(
    c: Context, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Any:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    mean = znp.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    rstd = 1.0 / znp.sqrt(znp.mean(centred * centred, axis=axes, keepdims=True) + eps)
    y = centred * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y, mean, rstd
