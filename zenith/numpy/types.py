"""Element types under all their names, constants, questions about types, and what floating-point errors do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from zenith.ir.types import EXTENSIONS, NumPyType
from zenith.numpy.casts import check_rule
from zenith.numpy.operands import (
    as_array,
    type_key,
)
from zenith.numpy.promotion import castable, promote
from zenith.numpy.typing import DTypeLike
from zenith.trace.dispatch import implements

__all__ = [
    "bfloat16", "bool_", "byte", "can_cast", "cdouble", "complex64", "complex128", "complexfloating", "csingle",
    "double", "dtype", "e", "errstate", "euler_gamma", "finfo", "float16", "float32", "float64", "floating", "generic",
    "half", "iinfo", "inexact", "inf", "int8", "int16", "int32", "int64", "int_", "intc", "integer", "intp", "isdtype",
    "issubdtype", "nan", "ndarray", "newaxis", "number", "pi", "promote_types", "result_type", "short", "signedinteger",
    "single", "ubyte", "uint", "uint8", "uint16", "uint32", "uint64", "uintc", "uintp", "unsignedinteger", "ushort",
]  # fmt: skip

bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
complex64, complex128 = np.complex64, np.complex128
float16, float32, float64 = np.float16, np.float32, np.float64
bfloat16 = ml_dtypes.bfloat16
# The same types by what they are in C, and the kinds that they belong to.
byte, short, intc, int_, intp = np.byte, np.short, np.intc, np.int_, np.intp
ubyte, ushort, uintc, uint, uintp = np.ubyte, np.ushort, np.uintc, np.uint, np.uintp
half, single, double, csingle, cdouble = np.half, np.single, np.double, np.csingle, np.cdouble
generic, number, inexact, floating, complexfloating = np.generic, np.number, np.inexact, np.floating, np.complexfloating
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
pi, e, euler_gamma, inf, nan, newaxis = np.pi, np.e, np.euler_gamma, np.inf, np.nan, None
dtype, ndarray, finfo, iinfo = np.dtype, np.ndarray, ml_dtypes.finfo, np.iinfo
errstate = np.errstate  # of what NumPy computes at once: compiled programs warn of nothing


@implements(np.result_type)
def result_type(*operands: Any) -> NumPyType:
    """The dtype of an operation on arrays, dtypes and Python numbers, by NumPy's promotion."""
    typed: list[Any] = [o if isinstance(o, (type, np.dtype, str)) else type_key(o) for o in operands]
    return promote(tuple(t if t in (int, float, complex) else np.dtype(t) for t in typed))


def promote_types(type1: DTypeLike, type2: DTypeLike) -> NumPyType:
    """The smallest dtype to which both can be cast."""
    return promote((np.dtype(type1), np.dtype(type2)))


def isdtype(dtype: DTypeLike | None, kind: Any) -> bool:
    """Whether a dtype is of a kind, as ``numpy.isdtype``; those of ``ml_dtypes`` are real floating types."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return np.dtype(dtype) == np.dtype(kind)
    return np.isdtype(np.dtype(np.float16) if np.dtype(dtype) in EXTENSIONS else np.dtype(dtype), kind)


def issubdtype(arg1: DTypeLike | None, arg2: DTypeLike | None) -> bool:
    """Whether a type belongs to a kind, as ``numpy.issubdtype``; types of ``ml_dtypes`` are of the kind of float16.

    >>> issubdtype(bfloat16, floating), issubdtype(int8, floating)
    (True, False)
    """
    if isinstance(arg1, type) and issubclass(arg1, np.generic) and arg1 not in {t.type for t in EXTENSIONS}:
        return bool(np.issubdtype(arg1, arg2))  # a kind, perhaps, which is no dtype
    narrow = np.dtype(arg1) in EXTENSIONS and isinstance(arg2, type) and issubclass(np.float16, arg2)
    return (narrow and arg2 is not float16) or bool(np.issubdtype(arg1, arg2))


@implements(np.can_cast)
def can_cast(from_: Any, to: DTypeLike, casting: str = "safe") -> bool:
    """Whether a cast between dtypes is allowed by a casting rule; an array stands for its dtype."""
    source = from_ if isinstance(from_, (type, np.dtype, str)) else as_array(from_).dtype
    check_rule("can_cast", casting)
    return castable(np.dtype(source), np.dtype(to), casting)
