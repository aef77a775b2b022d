"""Types of values: element types, array types with symbolic shapes, and the token that orders effects.

>>> from zenith.ir.dims import symbol
>>> print(ArrayType(float32, (symbol("n"), 3)), ArrayType(int64, ()))
f32[n, 3] i64
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from zenith.ir.dims import Dim, DimLike, dims, product

NDArray = np.ndarray[Any, Any]
NumPyType = np.dtype[np.generic]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: its short name in texts, its NumPy name, kind (``b i u f c``) and width in bits."""

    name: str
    numpy_name: str
    kind: str
    bits: int

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return _NUMPY[self.name]

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point type."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether elements are complex numbers: two adjacent floating-point numbers, real part first."""
        return self.kind == "c"

    @property
    def real(self) -> DType:
        """The type of a complex element's real and imaginary part, and of its magnitude; any other type itself."""
        return _PARTS.get(self.name, self)

    @property
    def is_narrow(self) -> bool:
        """Whether this is a storage type only: arithmetic with floats of 16 bits is in float32."""
        return self.is_float and self.bits < 32

    @property
    def precision(self) -> int:
        """Bits of a floating-point type's significand, the implicit one included."""
        found: np.finfo[Any] = ml_dtypes.finfo(self.numpy)  # type: ignore[no-untyped-call]
        return int(found.nmant) + 1

    @property
    def largest(self) -> float:
        """The largest finite number of a floating-point type."""
        return float(ml_dtypes.finfo(self.numpy).max)  # type: ignore[no-untyped-call]

    @property
    def is_extension(self) -> bool:
        """Whether the type is ``ml_dtypes``', and NumPy itself has none of its name."""
        return not hasattr(np, self.numpy_name)

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer type (bool is none)."""
        return self.kind in "iu"

    def __str__(self) -> str:
        return self.name


bool_ = DType("bool", "bool", "b", 1)
int8 = DType("i8", "int8", "i", 8)
int16 = DType("i16", "int16", "i", 16)
int32 = DType("i32", "int32", "i", 32)
int64 = DType("i64", "int64", "i", 64)
uint8 = DType("u8", "uint8", "u", 8)
uint16 = DType("u16", "uint16", "u", 16)
uint32 = DType("u32", "uint32", "u", 32)
uint64 = DType("u64", "uint64", "u", 64)
float16 = DType("f16", "float16", "f", 16)
bfloat16 = DType("bf16", "bfloat16", "f", 16)
float32 = DType("f32", "float32", "f", 32)
float64 = DType("f64", "float64", "f", 64)
complex64 = DType("c64", "complex64", "c", 64)
complex128 = DType("c128", "complex128", "c", 128)
_PARTS = {"c64": float32, "c128": float64}

INTEGERS: tuple[DType, ...] = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
DTYPES: tuple[DType, ...] = (bool_, *INTEGERS, float16, bfloat16, float32, float64, complex64, complex128)
BY_NAME: dict[str, DType] = {t.name: t for t in DTYPES}
BY_NUMPY_NAME: dict[str, DType] = {t.numpy_name: t for t in DTYPES}
_NUMPY: dict[str, NumPyType] = {
    t.name: np.dtype(getattr(ml_dtypes, t.numpy_name) if t.is_extension else t.numpy_name) for t in DTYPES
}
_FROM_NUMPY: dict[NumPyType, DType] = {_NUMPY[t.name]: t for t in DTYPES}
EXTENSIONS: frozenset[NumPyType] = frozenset(t.numpy for t in DTYPES if t.is_extension)


def kind_of(numpy_dtype: object) -> str:
    """The kind letter of a NumPy dtype as Zenith counts it (bfloat16 is ``f``); empty when Zenith has no such type."""
    found = dtype_of(numpy_dtype)
    return found.kind if found is not None else ""


def dtype_of(numpy_dtype: object) -> DType | None:
    """The element type of a NumPy dtype (or anything ``np.dtype`` takes); None when Zenith has no such type."""
    if isinstance(numpy_dtype, DType):
        return numpy_dtype
    return _FROM_NUMPY.get(np.dtype(numpy_dtype))  # type: ignore[call-overload]


def is_narrow(numpy_dtype: object) -> bool:
    """Whether a NumPy dtype is that of narrow floats, in whose type nothing is computed."""
    found = dtype_of(numpy_dtype)
    return found is not None and found.is_narrow


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of ``dtype`` with one :class:`~zenith.ir.dims.Dim` an axis."""

    dtype: DType
    shape: tuple[Dim, ...]

    def __init__(self, dtype: DType, shape: Iterable[DimLike]) -> None:
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "shape", dims(shape))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    def with_dtype(self, dtype: DType) -> ArrayType:
        """The same shape with another element type."""
        return ArrayType(dtype, self.shape)

    def with_shape(self, shape: Iterable[DimLike]) -> ArrayType:
        """The same element type with another shape."""
        return ArrayType(self.dtype, shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]" if self.shape else str(self.dtype)


@dataclass(frozen=True, slots=True)
class TokenType:
    """The type of an effect token: it carries no data, only order."""

    name: str = field(default="token", init=False)

    def __str__(self) -> str:
        return self.name


Type = ArrayType | TokenType
TOKEN = TokenType()


def has_derivative(type: Type) -> bool:
    """Whether values of a type have tangents: floating-point and complex arrays."""
    return isinstance(type, ArrayType) and type.dtype.kind in "fc"
