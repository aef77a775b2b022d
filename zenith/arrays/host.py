"""NumPy's arrays, of any strides."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable
from functools import partial

import numpy as np

from zenith.arrays.adapter import PlainAdapter
from zenith.errors import DTypeError, UnsupportedError
from zenith.ir.types import DTYPES, DType, NDArray, NumPyType, dtype_of


def plain(array: object, name: str) -> str:
    """What a user writes for the plain array of one with rules of its own."""
    return f"{name}.filled(value)" if isinstance(array, np.ma.MaskedArray) else f"numpy.asarray({name})"


class NumpyAdapter(PlainAdapter[NDArray]):
    """NumPy arrays of any strides."""

    library = "numpy"
    # The data pointer is the first field after the object header; PyArray_DATA, inlined into every extension module
    # ever compiled for NumPy, reads it there. Unlike `from_buffer` this takes read-only, strided and empty arrays, and
    # it is 8 times as fast as `array.ctypes.data`.
    _data = object.__basicsize__

    def check(self, array: NDArray, name: str) -> None:
        """Refuse what is no plain array of a native element type."""
        if type(array) not in (np.ndarray, np.memmap):
            raise UnsupportedError(
                f"{name} is a {type(array).__name__}, a subclass of numpy.ndarray with rules of its own",
                fix=f"pass {plain(array, name)}",
            )
        if dtype_of(array.dtype) is None:
            raise DTypeError(f"{name}: Zenith has no element type for {array.dtype}",
                             fix=cast_advice(array.dtype, name))  # fmt: skip

    def signature(self, array: NDArray | np.generic) -> Hashable:
        """Element type and rank."""
        return array.dtype, array.ndim

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """Element type and rank."""
        return dtype.numpy, rank

    def address(self, array: NDArray) -> int:
        """The address of the first element."""
        return ctypes.c_void_p.from_address(id(array) + self._data).value or 0

    def dtype(self, array: NDArray) -> DType | None:
        """The element type."""
        return dtype_of(array.dtype)

    def shape(self, array: NDArray) -> tuple[int, ...]:
        """The sizes."""
        return array.shape

    def dense_address(self, array: NDArray) -> int | None:
        """The address, 0 for an array without elements; None when it is not dense in row-major order."""
        if not array.flags.c_contiguous:
            return None
        return (ctypes.c_void_p.from_address(id(array) + self._data).value or 0) if array.size else 0

    def dense(self, array: NDArray) -> NDArray:
        """A dense copy."""
        return np.ascontiguousarray(array)

    def is_sole_owner(self, array: NDArray) -> bool:
        """Whether an array is dense, may be written, and is all of its memory."""
        flags = array.flags
        return flags.c_contiguous and flags.writeable and flags.owndata and array.size > 0

    def empty(self, shape: tuple[int, ...], dtype: DType) -> NDArray:
        """``numpy.empty``."""
        return np.empty(shape, dtype.numpy)

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], NDArray]:
        """``numpy.empty``."""
        return partial(np.empty, shape, dtype.numpy)

    def numpy(self, array: NDArray) -> NDArray:
        """The array itself."""
        return array

    def from_numpy(self, array: NDArray) -> NDArray:
        """The array itself."""
        return array


def cast_advice(dtype: NumPyType, name: str) -> str:
    """How to make an array of an element type that Zenith has."""
    if not dtype.isnative and dtype_of(dtype.newbyteorder("=")) is not None:
        return f'its bytes are swapped: pass {name}.astype({name}.dtype.newbyteorder("="))'
    target = {"f": "float64", "c": "complex128", "O": "float64"}.get(dtype.kind)
    if target is None:
        return "pass an array of numbers: " + ", ".join(t.numpy_name for t in DTYPES)
    return f"pass {name}.astype(numpy.{target})"


NUMPY = NumpyAdapter()
