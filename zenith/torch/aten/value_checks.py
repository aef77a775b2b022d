"""What PyTorch checks of values while it computes: the program raises, too, when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import zenith.numpy as znp
from zenith.checks import error_if
from zenith.torch.aten.rules import Context
from zenith.trace import TracedSize


def of_divisor(function: Callable[[Any, Any], Any]) -> Callable[[Context, Any, Any], Any]:
    """A quotient or remainder, with the check of integers that PyTorch makes on a CPU."""

    def checked(c: Context, x: Any, y: Any) -> Any:
        if c.dtype.kind not in "iu" or (isinstance(y, int) and y) or isinstance(y, TracedSize) or _on_gpu(c):
            return function(x, y)
        return function(x, error_if(y, znp.equal(y, 0), "ZeroDivisionError: an integer is divided by 0"))

    return checked


def _on_gpu(c: Context) -> bool:
    return any(isinstance(example, torch.Tensor) and example.is_cuda for example in c.arguments)


def with_result(name: str, a: Any, found: Any) -> Any:
    """What was found of matrices ``a``; an error where one has no result."""
    return error_if(found, znp.any(has_none(a, found)), f"{name}: a matrix is singular, or not positive-definite")


def has_none(a: Any, found: Any) -> Any:
    """Which matrices have no result: a finite matrix has one that is finite."""
    vectors = znp.all(znp.isfinite(found), axis=-1)
    return znp.all(znp.isfinite(a), axis=(-2, -1)) & ~(vectors if found.ndim < a.ndim else znp.all(vectors, axis=-1))
