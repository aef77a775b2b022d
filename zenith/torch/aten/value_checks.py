"""What PyTorch checks of values while it computes: the program raises, too, when it runs."""

from __future__ import annotations

from collections.abc import Callable

import torch

import zenith.numpy as znp
from zenith.checks import error_if
from zenith.numpy.typing import Array, ArrayLike
from zenith.torch.aten.rules import Context
from zenith.trace import TracedSize


def of_divisor(function: Callable[[Array, ArrayLike], Array]) -> Callable[[Context, Array, ArrayLike], Array]:
    """A quotient or remainder, with the check of integers that PyTorch makes on a CPU."""

    def checked(c: Context, x: Array, y: ArrayLike) -> Array:
        found = function(x, y)
        if c.dtype.kind not in "iu" or (isinstance(y, int) and y) or _on_gpu(c):
            return found
        divisor = y.as_array() if isinstance(y, TracedSize) else y
        return error_if(found, znp.equal(divisor, 0), "ZeroDivisionError: an integer is divided by 0")

    return checked


def _on_gpu(c: Context) -> bool:
    return any(isinstance(example, torch.Tensor) and example.is_cuda for example in c.arguments)


def with_inverse(name: str, found: Array, a: Array, *others: Array) -> Array:
    """What was found by inverting matrices ``a``, of other arrays; an error where one has a pivot of 0."""
    return error_if(found, znp.any(is_singular(found, a, *others)), f"{name}: a matrix is singular")


def is_singular(found: Array, a: Array, *others: Array) -> Array:
    """Which matrices have no inverse: by a pivot of 0 finite operands become nan, or all elements infinite.

    A matrix that is singular but for rounding may have a result, and one whose result is all too large has none.
    """
    matrices = a.ndim - 2
    known = _over_each(znp.all, znp.isfinite(a), matrices)
    for other in others:
        known &= _over_each(znp.all, znp.isfinite(other), min(matrices, other.ndim - 1))
    return known & (
        _over_each(znp.any, znp.isnan(found), matrices) | _over_each(znp.all, ~znp.isfinite(found), matrices)
    )


def _over_each(join: Callable[..., Array], flags: Array, matrices: int) -> Array:
    """Flags joined over all axes but the first, along which there are matrices."""
    return join(flags, axis=tuple(range(matrices, flags.ndim)))


def without_nan(name: str, a: Array, triangle: str = "") -> Array:
    """Matrices whose eigen- or singular values are wanted; an error where one has a nan, with which none is found.

    ``triangle`` is the one that is read, ``L`` or ``U``; both without it.
    """
    read = {"L": znp.tril, "U": znp.triu}[triangle](a) if triangle else a
    return error_if(a, znp.any(znp.isnan(read)), f"{name}: a matrix has a nan")


def with_factor(name: str, found: Array) -> Array:
    """Cholesky's factors; an error where a matrix has none."""
    return error_if(found, znp.any(has_no_factor(found)), f"{name}: a matrix is not positive-definite")


def has_no_factor(found: Array) -> Array:
    """Which of Cholesky's factors were not found."""
    return znp.any(znp.isnan(found), axis=(-2, -1))
