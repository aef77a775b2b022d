"""The memory of constants, weights and what is prepared from them.

A program on the CPU reads NumPy arrays, one on a GPU arrays of the device. Fixed memory and tables of weights work the
same for both, by asking a :class:`Residence`.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol

import numpy as np

from zenith.backends.steps import ALIGN
from zenith.ir.types import DType, NDArray


class Owners(Protocol):
    """The owner of memory of stale results: it allocates from it, and takes it back."""

    def allocate(self, length: int) -> NDArray: ...

    def recycle(self, owner: NDArray) -> None: ...


class Residence(Protocol):
    """The memory of one kind of device."""

    def constant(self, array: Any) -> Any:
        """A NumPy array, in row-major order, in memory that programs can read."""
        ...

    def dense(self, array: Any) -> Any:
        """A weight in row-major order: itself when it is, else a copy."""
        ...

    def vector(self, size: int, dtype: DType, owners: Owners) -> Any:
        """A new array of ``size`` elements for what is prepared."""
        ...

    def settle(self) -> None:
        """Wait until no started program reads memory that is about to be freed, or still has to write its own."""
        ...


class HostMemory:
    """NumPy arrays."""

    def constant(self, array: NDArray) -> NDArray:
        """The array itself when it is dense."""
        return np.ascontiguousarray(array)

    def dense(self, array: NDArray) -> NDArray:
        """The array itself when it is dense."""
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def vector(self, size: int, dtype: DType, owners: Owners) -> NDArray:
        """An aligned array, in the memory of stale results where that fits."""
        length = size * dtype.itemsize
        owner = owners.allocate(length + ALIGN)
        start = -owner.ctypes.data % ALIGN
        array = owner[start : start + length].view(dtype.numpy)
        weakref.finalize(array, owners.recycle, owner).atexit = False
        return array

    def settle(self) -> None:
        """Nothing to wait for: a call that runs keeps its arrays."""


HOST = HostMemory()
