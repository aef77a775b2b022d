"""CuPy's own arrays on the fake driver's memory, made from NumPy arrays and copied back without CuPy's kernels."""

import ctypes

import numpy as np
import pytest

from zenith.backends.cuda.memory import pool

cupy = pytest.importorskip("cupy")  # skips the tests that import this


def on_device(array, device=0):
    """A CuPy array with the same elements and strides."""
    array = np.asarray(array)
    base = array if array.base is None else array.base
    block = pool().allocate(max(1, base.nbytes), 0, "results")
    if base.nbytes:
        ctypes.memmove(block.address, base.ctypes.data, base.nbytes)
    memory = cupy.cuda.memory.UnownedMemory(block.address, block.length, block, device)
    offset = array.ctypes.data - base.ctypes.data if array.size else 0
    pointer = cupy.cuda.memory.MemoryPointer(memory, offset)
    return cupy.ndarray(array.shape, array.dtype, pointer, strides=array.strides)


def on_host(array):
    """A NumPy array with the same elements."""
    if not array.size:
        return np.empty(array.shape, array.dtype)
    assert array.flags.c_contiguous
    memory = (ctypes.c_char * array.nbytes).from_address(array.data.ptr)
    return np.frombuffer(bytes(memory), array.dtype).reshape(array.shape)
