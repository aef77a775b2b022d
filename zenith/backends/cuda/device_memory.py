"""Arrays on a device, as programs see them: an address with a type and sizes, and the owner of the memory.

Constants are uploaded once. Weights that are on the device already are read where they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.backends.constant_memory import Owners
from zenith.backends.cuda.driver import on_device
from zenith.backends.cuda.memory import MemoryBlock, Pool
from zenith.ir.types import DType


class DeviceArray:
    """A dense array on a device; ``owner`` keeps its memory alive: a block, or an array of some library."""

    __slots__ = ("__weakref__", "address", "dtype", "owner", "shape")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: Any) -> None:
        self.address, self.shape, self.dtype, self.owner = address, shape, dtype, owner

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.itemsize


class DeviceMemory:
    """The memory of one device for fixed arrays: see :class:`zenith.backends.constant_memory.Residence`."""

    def __init__(self, pool: Pool, device: int) -> None:
        self.pool, self.driver, self.device = pool, pool.driver, device

    def constant(self, array: Any) -> DeviceArray:
        """The array on the device, copied there and waited for."""
        array = np.asarray(array, order="C")
        with on_device(self.driver, self.device):
            block = self._block(array.nbytes)
            if array.nbytes:
                self.driver.copy(block.address, array.ctypes.data, array.nbytes, 0)
                self.driver.synchronize(0)
        return DeviceArray(block.address, array.shape, array.dtype, block)

    def host(self, array: DeviceArray) -> np.ndarray[Any, Any]:
        """A copy on the host, after all earlier work on the device is done."""
        found = np.empty(array.shape, array.dtype)
        with on_device(self.driver, self.device):
            self.driver.synchronize_device()
            if found.nbytes:
                self.driver.copy(found.ctypes.data, array.address, found.nbytes, 0)
                self.driver.synchronize(0)
        return found

    def dense(self, array: DeviceArray) -> DeviceArray:
        """The array itself: arrays that are not dense were copied by their own libraries."""
        return array

    def vector(self, size: int, dtype: DType, owners: Owners) -> DeviceArray:
        """A new array; stale ones have gone back to the pool."""
        with on_device(self.driver, self.device):
            block = self._block(size * dtype.itemsize)
        return DeviceArray(block.address, (size,), dtype.numpy, block)

    def settle(self) -> None:
        """Wait for the device: kernels that were launched may read memory that was prepared before."""
        with on_device(self.driver, self.device):
            self.driver.synchronize_device()

    def _block(self, length: int) -> MemoryBlock:
        return self.pool.allocate(length, 0, "constants and weights")
