"""The expressions of the kernel IR: typed scalars that have no statements inside, and their text as Python."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from zenith.ir.dims import Dim
from zenith.ir.types import DType, int64

_ARGUMENT = re.compile(r"\b[xyz]\b")
_WRAPPING_CALLS: dict[type[ast.operator], str] = {
    ast.Add: "wrapping_add", ast.Sub: "wrapping_sub", ast.Mult: "wrapping_mul",
}  # fmt: skip


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


# --- text ---


def literal(value: float | int | bool, dtype: DType) -> str:
    """A literal as Python source."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{dtype}({'nan' if math.isnan(value) else 'inf' if value > 0 else '-inf'})"
    return f"{dtype}({value!r})"


def filled(text: str, args: Sequence[str], dtype: DType) -> str:
    """A scalar expression of an element type with its arguments, ``x``, ``y``, ``z``, filled in."""
    named = dict(zip("xyz", args, strict=False))
    text = _with_wrapping(text) if dtype == int64 else text

    def fill(match: re.Match[str]) -> str:
        argument = named[match.group()]
        return argument if re.fullmatch(r"[\w.]+|[\w.]+\([^()]*\)|\w+\[[^\[\]]*\]", argument) else f"({argument})"

    return _ARGUMENT.sub(fill, text)


class _WrappingArithmetic(ast.NodeTransformer):
    """Sums, differences and products modulo 2**64.

    Numba tells LLVM that those of signed integers never overflow, from which it concludes what comparisons give. Those
    of narrower types are computed in 64 bits.
    """

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        called = _WRAPPING_CALLS.get(type(node.op))
        return node if called is None else ast.Call(ast.Name(called), [node.left, node.right], [])


@functools.cache
def _with_wrapping(text: str) -> str:
    """A scalar expression of int64."""
    return ast.unparse(_WrappingArithmetic().visit(ast.parse(text, mode="eval")))
