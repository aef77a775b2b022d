"""Norms of vectors and matrices, with PyTorch's derivatives: 0 where a norm is 0, shared by equal extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.numpy.norms import SINGULAR
from zenith.numpy.operands import normal_axes
from zenith.numpy.typing import Array, Axes
from zenith.torch.aten.corners import reduction
from zenith.torch.aten.reductions import axes_of
from zenith.torch.aten.rules import Context, rounded_once, rule, to
from zenith.torch.aten.value_checks import without_nan


@rule("linalg_vector_norm")
@rounded_once
def _vector_norm(c: Context, x: Array, ord: float = 2, dim: Axes = None, keepdim: bool = False, **_: object) -> Array:
    return vector_norm(_wide(c, x), ord, dim, keepdim)


@rule("linalg_norm", "linalg_norm.ord_str")
@rounded_once
def _norm(c: Context, x: Array, ord: Any = None, dim: Axes = None, keepdim: bool = False, *,
          dtype: object = None) -> Array:  # fmt: skip
    """Of vectors where there is one axis, or no order; else of matrices."""
    axes = axes_of(dim)
    vectors = isinstance(axes, int) or (x.ndim if axes is None else len(axes)) == 1
    if ord is None or vectors:
        return vector_norm(_wide(c, x), 2 if ord is None else ord, dim, keepdim)
    return _of_matrices(_wide(c, x), ord, (0, 1) if axes is None else axes, keepdim)


@rule("linalg_matrix_norm", "linalg_matrix_norm.str_ord")
@rounded_once
def _matrix_norm(c: Context, x: Array, ord: str | float = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False,
                 *, dtype: object = None) -> Array:  # fmt: skip
    return _of_matrices(_wide(c, x), ord, tuple(dim), keepdim)


def _of_matrices(x: Array, ord: str | float, axes: Axes, keepdim: bool) -> Array:
    if ord == "fro":
        return vector_norm(x, 2, axes, keepdim)
    return znp.linalg.norm(without_nan("linalg.norm", x) if ord in SINGULAR else x, ord, axes, keepdim)


def _wide(c: Context, x: Array) -> Array:
    """An operand in the element type of its norm; complex ones have real norms."""
    return to(x, np.result_type(c.dtype, np.complex64)) if kind_of(x.dtype) == "c" else c.cast(x)


def vector_norm(x: Array, ord: float, dim: Axes = None, keepdim: bool = False) -> Array:
    """The norm over axes, by default all."""
    axes = normal_axes("norm", axes_of(dim), x.ndim)
    if ord == 0:
        return znp.astype(znp.sum(x != 0, axis=axes, keepdims=keepdim), znp.abs(x).dtype)

    def norm(x: Array) -> Array:
        if ord == 2:
            return znp.linalg.norm(x, axis=axes, keepdims=True)
        if math.isinf(ord):
            return (znp.max if ord > 0 else znp.min)(znp.abs(x), axis=axes, keepdims=True)
        return znp.sum(znp.abs(x) ** ord, axis=axes, keepdims=True) ** (1 / ord)

    return reduction(norm, lambda norm, x: _slopes(norm, x, ord, axes), axes, keepdim)(x)


def _slopes(norm: Array, x: Array, ord: float, axes: tuple[int, ...]) -> Array:
    """The derivative by each element: what its magnitude contributes, in its direction."""
    if ord == 1:
        return znp.sign(x)
    size = znp.abs(x)
    if math.isinf(ord):
        equal = (size == norm) | ((size != size) & (norm != norm))
        return znp.sign(x) * (equal / znp.sum(equal, axis=axes, keepdims=True)).astype(size.dtype)
    zero = norm == 0
    norm = znp.where(zero, 1, norm)
    if ord == 2:
        return znp.where(zero, 0, x / norm)
    nothing = (size == 0) | zero  # below order 1 the slope at 0 is infinite
    size = znp.where(nothing, 1, size)
    return znp.where(nothing, 0, znp.sign(x) * (size / norm) ** (ord - 1))
