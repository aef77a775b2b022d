"""The expressions of the kernel IR: typed scalars that have no statements inside."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zenith.ir.dims import Dim
from zenith.ir.types import DType, int64


@dataclass(frozen=True, slots=True)
class Number:
    """A literal element."""

    value: float | int | bool
    dtype: DType


@dataclass(frozen=True, slots=True)
class Name:
    """An element that was bound by a statement."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Load:
    """The element of a buffer at a position.

    ``version`` is the value that the load needs, where a kernel stores several to this memory one after another (a use
    in MemorySSA's terms); :mod:`zenith.backends.versions` proves that it reads it. None: memory of one value.
    """

    buffer: str
    at: Dim
    dtype: DType
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """An index expression as an int64 element."""

    at: Dim
    dtype: DType = int64


@dataclass(frozen=True, slots=True)
class Apply:
    """``text`` over its arguments, named ``x``, ``y``, ``z`` in it, converted to ``dtype``."""

    text: str
    args: tuple[Expr, ...]
    dtype: DType


Expr = Number | Name | Load | Position | Apply


def literal(value: float | int | bool, dtype: DType) -> str:
    """A literal as Python source."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{dtype}({'nan' if math.isnan(value) else 'inf' if value > 0 else '-inf'})"
    return f"{dtype}({value!r})"
