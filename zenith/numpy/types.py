"""Element types, constants and questions about types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from zenith.numpy.casts import check_rule
from zenith.numpy.operands import (
    as_array,
    type_key,
)
from zenith.numpy.promotion import castable, promote
from zenith.trace.dispatch import implements

__all__ = [
    "bfloat16", "bool_", "can_cast", "complex64", "complex128", "dtype", "e", "euler_gamma", "finfo", "float16",
    "float32", "float64", "iinfo", "inf", "int8", "int16", "int32", "int64", "isdtype", "nan", "ndarray", "newaxis",
    "pi", "promote_types", "result_type", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
complex64, complex128 = np.complex64, np.complex128
float16, float32, float64 = np.float16, np.float32, np.float64
bfloat16 = ml_dtypes.bfloat16
pi, e, euler_gamma, inf, nan, newaxis = np.pi, np.e, np.euler_gamma, np.inf, np.nan, None
dtype, ndarray, finfo, iinfo = np.dtype, np.ndarray, ml_dtypes.finfo, np.iinfo


@implements(np.result_type)
def result_type(*operands: Any) -> np.dtype[Any]:
    """The dtype of an operation on arrays, dtypes and Python numbers, by NumPy's promotion."""
    typed: list[Any] = [o if isinstance(o, (type, np.dtype, str)) else type_key(o) for o in operands]
    return promote(tuple(t if t in (int, float, complex) else np.dtype(t) for t in typed))


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The smallest dtype to which both can be cast."""
    return promote((np.dtype(type1), np.dtype(type2)))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, as ``numpy.isdtype``; bfloat16 is a real floating type like float16."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return np.dtype(dtype) == np.dtype(kind)
    return np.isdtype(np.dtype(np.float16) if np.dtype(dtype) == bfloat16 else np.dtype(dtype), kind)


@implements(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether a cast between dtypes is allowed by a casting rule; an array stands for its dtype."""
    source = from_ if isinstance(from_, (type, np.dtype, str)) else as_array(from_).dtype
    check_rule("can_cast", casting)
    return castable(np.dtype(source), np.dtype(to), casting)
