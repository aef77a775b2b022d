"""Padding: with a number, or by what is there: reflected, repeated, or from the other end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import zenith.numpy as znp
from zenith.numpy.typing import Array
from zenith.torch.aten.rules import Context, rule

Numbers = Sequence[Any]
_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@rule("pad")
def _pad(c: Context, x: Array, widths: Numbers, mode: str = "constant", value: float | None = None) -> Array:
    """Elements around an array; negative widths, the last axis first as all of them, cut off elements."""
    negative = [bool(n < 0) for n in _examples(c, widths)]  # PyTorch guards the sign of a symbolic size
    wider, cut = ([own if sign == below else 0 for own, sign in zip(widths, negative, strict=True)]
                  for below in (False, True))  # fmt: skip
    # padding axes one after another gives the same corners
    options = {"constant_values": 0 if value is None else value} if mode == "constant" else {"mode": _MODES[mode]}
    first, pairs = x.ndim - len(widths) // 2, [(0, 0)] * (x.ndim - len(widths) // 2) + _pairs(wider)
    if mode != "circular":  # which repeats what is left
        x = znp.pad(x, pairs, **options)
    if any(negative):
        x = x[(..., *(slice(-low, x.shape[first + axis] + high) for axis, (low, high) in enumerate(_pairs(cut))))]
    return znp.pad(x, pairs, **options) if mode == "circular" else x


def _examples(c: Context, widths: Numbers) -> Numbers:
    """The widths as PyTorch knows them."""
    return next((a for a in c.arguments if isinstance(a, (list, tuple)) and len(a) == len(widths)), widths)


def _pairs(widths: Numbers) -> list[tuple[Any, Any]]:
    """One pair for each axis; PyTorch has the last axis first."""
    return list(zip(widths[::2], widths[1::2], strict=True))[::-1]


@rule("constant_pad_nd")
def _constant(c: Context, x: Array, widths: Numbers, value: float = 0) -> Array:
    return _pad(c, x, widths, "constant", value)


@rule("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def _reflect(c: Context, x: Array, widths: Numbers) -> Array:
    return _pad(c, x, widths, "reflect")


@rule("replication_pad1d", "replication_pad2d", "replication_pad3d")
def _replicate(c: Context, x: Array, widths: Numbers) -> Array:
    return _pad(c, x, widths, "replicate")


@rule("_pad_circular")
def _circular(c: Context, x: Array, widths: Numbers) -> Array:
    return _pad(c, x, widths, "circular")
