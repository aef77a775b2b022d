"""Padding: with a number, or by what is there: reflected, repeated, or from the other end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import Context, rule
from zenith.trace.sizes import TracedSize

Numbers = Sequence[Any]
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@rule("pad")
def _pad(c: Context, x: Any, widths: Numbers, mode: str = "constant", value: float | None = None) -> Any:
    """Elements around an array; negative widths, the last axis first as all of them, cut off elements."""
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    if mode != "constant":  # of axes one after another the corners are the same
        return _cut(_padded(x, pairs, mode=_MODES[mode]), pairs)
    return _cut(_padded(x, pairs, constant_values=0 if value is None else value), pairs)


def _padded(x: Any, pairs: Sequence[tuple[Any, Any]], **options: Any) -> Any:
    """Only what is wider: whether a size is negative is known."""
    wider = [tuple(0 if _negative(n) else n for n in pair) for pair in pairs]
    return znp.pad(x, [(0, 0)] * (x.ndim - len(pairs)) + wider, **options)


def _cut(x: Any, pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Elements cut off where widths are negative."""
    ends = [tuple(-n if _negative(n) else 0 for n in pair) for pair in pairs]
    if not any(map(any, ends)):
        return x
    first = x.ndim - len(pairs)
    parts = [slice(low, x.shape[first + axis] - high) for axis, (low, high) in enumerate(ends)]
    return x[(..., *parts)]


def _negative(width: Any) -> bool:
    return not isinstance(width, TracedSize) and width < 0


@rule("constant_pad_nd")
def _constant(c: Context, x: Any, widths: Numbers, value: Any = 0) -> Any:
    return _pad(c, x, widths, "constant", value)


@rule("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflect(c: Context, x: Any, widths: Numbers) -> Any:
    return _pad(c, x, widths, "reflect")


@rule("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replicate(c: Context, x: Any, widths: Numbers) -> Any:
    return _pad(c, x, widths, "replicate")


@rule("_pad_circular")
def _circular(c: Context, x: Any, widths: Numbers) -> Any:
    return _pad(c, x, widths, "circular")
