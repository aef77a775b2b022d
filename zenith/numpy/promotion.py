"""Promotion: the element type that operands have in common, by the rules of NumPy 2 (NEP 50).

NumPy itself is asked, ``int``, ``float`` and ``complex`` representing Python numbers, which are weak. It knows bfloat16
as a type from outside, which has nothing in common with float16 or with wide integers, and next to which no Python
number is weak. So bfloat16 is promoted as float16 is, which it resembles: int32 and bfloat16 are float64, and what
would be float16 is bfloat16. The two together, neither of which represents the other, are float32.

>>> import ml_dtypes
>>> promote((np.dtype(ml_dtypes.bfloat16), float)), promote((np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)))
(dtype(bfloat16), dtype('float32'))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from zenith.ir.types import EXTENSIONS, NumPyType, float16, float32

Key = NumPyType | type  # a NumPy dtype, or ``int``, ``float`` or ``complex``
_HALF = float16.numpy


@lru_cache(maxsize=4096)
def promote(keys: tuple[Key, ...]) -> NumPyType:
    """The type that all operands have in common."""

    def ask(stand_ins: tuple[Key, ...]) -> tuple[NumPyType, ...]:
        return (np.result_type(*(k(0) if isinstance(k, type) else k for k in stand_ins)),)

    return _asked(ask, keys)[0]


@lru_cache(maxsize=8192)
def loop(
    ufunc: np.ufunc, keys: tuple[Key, ...], dtype: Any = None, casting: Any = "same_kind"
) -> tuple[NumPyType, ...]:
    """The types in which NumPy computes ``ufunc`` for such operands; TypeError where it does not.

    ``dtype`` is that of the results where it is asked for, and ``casting`` the rule by which operands become what is
    computed in.
    """

    def ask(stand_ins: tuple[Key, ...]) -> tuple[NumPyType, ...]:
        asked: Any = {} if dtype is None else {"signature": (*[None] * ufunc.nin, *[stand_ins[-1]] * ufunc.nout)}
        operands = stand_ins[: ufunc.nin]
        if all(isinstance(key, type) for key in operands):  # NumPy would compare Python ints as objects
            operands = tuple(np.dtype(key) for key in operands)
        return ufunc.resolve_dtypes((*operands, *[None] * ufunc.nout), casting=casting, **asked)[: ufunc.nin]

    if dtype == _HALF or dtype in EXTENSIONS:  # which decides what the narrow floats among the operands become
        narrow = tuple(_HALF if k in EXTENSIONS else k for k in (*keys, dtype))
        return tuple(dtype if t == _HALF else t for t in ask(narrow))
    return _asked(ask, keys if dtype is None else (*keys, dtype))


def castable(found: NumPyType, wanted: NumPyType, casting: str) -> bool:
    """Whether NumPy's rule ``casting`` lets one element type become another."""
    if found != wanted and {found, wanted} <= {_HALF, *EXTENSIONS}:
        return casting in ("same_kind", "unsafe")  # neither represents the other
    return bool(np.can_cast(found, wanted, casting))  # type: ignore[arg-type]


def _asked(ask: Callable[[tuple[Key, ...]], tuple[NumPyType, ...]], keys: tuple[Key, ...]) -> tuple[NumPyType, ...]:
    """NumPy's answer, with float16 representing another narrow type, or float32 for several where they meet."""
    narrow = {k for k in keys if k == _HALF or k in EXTENSIONS}
    if narrow <= {_HALF}:
        return ask(keys)
    if len(narrow) > 1:
        return ask(tuple(float32.numpy if k in narrow else k for k in keys))
    (one,) = narrow
    answer = ask(tuple(_HALF if k == one else k for k in keys))
    return tuple(np.dtype(one) if t == _HALF else t for t in answer)
