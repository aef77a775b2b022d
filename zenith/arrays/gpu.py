"""CuPy's arrays, of any strides. CuPy is imported when an adapter is made."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Hashable
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from zenith.arrays.adapter import PlainAdapter
from zenith.arrays.host import cast_advice
from zenith.backends.cuda.driver import driver, on_device
from zenith.backends.cuda.memory import pool
from zenith.backends.cuda.presence import CudaInstallation, problem
from zenith.errors import DTypeError, UnsupportedError
from zenith.ir.types import DType, NDArray, NumPyType, dtype_of

if TYPE_CHECKING:
    import cupy


class CupyAdapter(PlainAdapter["cupy.ndarray"]):
    """CuPy arrays on one device, on CuPy's current stream. Results are in the memory of Zenith's pool."""

    library = "cupy"
    on_host = False

    def __init__(self, device: int) -> None:
        if importlib.util.find_spec("cupy") is None:
            raise cupy_is_missing()
        import cupy

        self.device = device
        self._number = device
        self._cupy = cupy

    def check(self, array: cupy.ndarray, name: str) -> None:
        """Refuse what is no plain array of an element type that Zenith has."""
        if type(array) is not self._cupy.ndarray:
            raise UnsupportedError(
                f"{name} is a {type(array).__name__}, a subclass of cupy.ndarray with rules of its own",
                fix=f"pass {name}.view(cupy.ndarray)",
            )
        if dtype_of(array.dtype) is None:
            fix = cast_advice(array.dtype, name).replace("numpy.", "cupy.")
            raise DTypeError(f"{name}: Zenith has no element type for {array.dtype}", fix=fix)

    def signature(self, array: cupy.ndarray) -> Hashable:
        """Element type, rank and device."""
        return array.dtype, array.ndim, array.data.device_id

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """Element type, rank and device."""
        return dtype.numpy, rank, self.device

    def address(self, array: cupy.ndarray) -> int:
        """The address of the first element."""
        return int(array.data.ptr)

    def dtype(self, array: cupy.ndarray) -> DType | None:
        """The element type."""
        return dtype_of(array.dtype)

    def shape(self, array: cupy.ndarray) -> tuple[int, ...]:
        """The sizes."""
        return tuple(array.shape)

    def dense_address(self, array: cupy.ndarray) -> int | None:
        """The address, 0 for an array without elements; None when it is not dense in row-major order."""
        if not array.flags.c_contiguous:
            return None
        return array.data.ptr if array.size else 0

    def dense(self, array: cupy.ndarray) -> cupy.ndarray:
        """``cupy.ascontiguousarray``."""
        return self._cupy.ascontiguousarray(array)

    def is_sole_owner(self, array: cupy.ndarray) -> bool:
        """Whether an array is dense and is all of its memory."""
        return bool(array.flags.c_contiguous and array.base is None and array.size > 0)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> cupy.ndarray:
        """A new array, in memory of the pool."""
        return self.maker(shape, dtype)()

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], cupy.ndarray]:
        """A new array, in memory of the pool for CuPy's current stream."""
        cuda, array, device, kind = self._cupy.cuda, self._cupy.ndarray, self._number, dtype.numpy
        length, allocate, stream = prod(shape) * dtype.itemsize, pool().allocate, driver().stream

        def make() -> cupy.ndarray:
            block = allocate(length, stream(), "results")
            memory = cuda.memory.UnownedMemory(block.address, block.length, block, device)
            return array(shape, kind, cuda.memory.MemoryPointer(memory, 0))

        return make

    def stand_in(self, shape: tuple[int, ...], dtype: NumPyType) -> cupy.ndarray:
        """A placeholder for an array of any size, without memory; no GPU need be there."""
        memory = self._cupy.cuda.memory
        nothing = memory.MemoryPointer(memory.UnownedMemory(0, 0, None, self._number), 0)
        return self._cupy.ndarray(shape, dtype, nothing, strides=(0,) * len(shape))

    def numpy(self, array: cupy.ndarray) -> NDArray:
        """A copy on the host, for looking at values."""
        with on_device(driver(), self._number):
            dense = array if array.flags.c_contiguous else self.dense(array)
            found = np.empty(dense.shape, dense.dtype)
            self._copy(found.ctypes.data, dense.data.ptr, found.nbytes)
        return found

    def from_numpy(self, array: NDArray) -> cupy.ndarray:
        """A copy on the device."""
        dense = np.asarray(array, order="C")
        dtype = dtype_of(dense.dtype)
        assert dtype is not None, f"no element type for {dense.dtype}"
        with on_device(driver(), self._number):
            found = self.empty(dense.shape, dtype)
            self._copy(found.data.ptr, dense.ctypes.data, dense.nbytes)
        return found

    def _copy(self, to: int, source: int, length: int) -> None:
        """Copy on CuPy's current stream, and wait."""
        if length:
            driver().copy(to, source, length, self.stream())
            driver().synchronize(self.stream())

    def stream(self) -> int:
        """CuPy's current stream in this thread."""
        return driver().stream()


def cupy_is_missing() -> Exception:
    """The error for a machine without CuPy."""
    why = problem(CudaInstallation())
    assert why is not None, "nothing was found"
    return why


_adapters: dict[int, CupyAdapter] = {}


def cupy_adapter(device: int) -> CupyAdapter:
    """The adapter of CuPy's arrays on a device; imports CuPy."""
    if device not in _adapters:
        _adapters[device] = CupyAdapter(device)
    return _adapters[device]
