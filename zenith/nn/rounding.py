"""16-bit floats: a function of a layer computes in float32 and rounds once, at the end, as PyTorch does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.ir.types import NumPyType, dtype_of, is_narrow
from zenith.numpy.operands import result_dtype
from zenith.numpy.typing import Array

_SINGLE = np.dtype(np.float32)


def rounded_once(function: Callable[..., object]) -> Callable[..., Any]:
    """The function, in float32 where its floating-point arrays are of 16 bits, to which results are rounded.

    Without it a value that is read twice would be rounded in between, and a Python number among 16-bit floats is one of
    them. Where one of the arrays is wider, results are not rounded; but squares of the narrow ones must not overflow.
    """

    @functools.wraps(function)
    def computed(*args: Any, **options: Any) -> Any:
        leaves, structure = tree.flatten((args, options))
        floats = [leaf for leaf in leaves if hasattr(leaf, "dtype") and _is_float(leaf.dtype)]
        if not any(is_narrow(leaf.dtype) for leaf in floats):
            return function(*args, **options)
        common = result_dtype(function.__name__, floats)
        args, options = tree.unflatten(structure, [_widened(leaf) for leaf in leaves])
        results = function(*args, **options)
        if not is_narrow(common):
            return results
        found, form = tree.flatten(results)
        return tree.unflatten(form, [znp.astype(f, common) if f.dtype == _SINGLE else f for f in found])

    return computed


def _is_float(dtype: NumPyType) -> bool:
    known = dtype_of(dtype)
    return known is not None and known.is_float


def _widened(leaf: Any) -> Array:
    return znp.astype(leaf, _SINGLE) if hasattr(leaf, "dtype") and is_narrow(leaf.dtype) else leaf
