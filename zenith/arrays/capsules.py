"""Capsules of DLPack, the protocol by which libraries exchange memory: how one is requested, and what it contains.

``__dlpack__`` is called with version 1.0, which reports read-only memory and copies; where a library does not know
versions, without one. A capsule without a version does not state whether its memory may be written, so that is taken
for read-only. Zenith leaves capsules as they are and drops them: their own destructors release the memory.

The protocol is https://dmlc.github.io/dlpack/latest/python_spec.html.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Protocol
from weakref import WeakSet

import numpy as np

from zenith.errors import DTypeError, UnsupportedError
from zenith.ir.types import NDArray, NumPyType

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged
VERSION = (1, 0)  # the newest version of the protocol that is read here
_READ_ONLY, _COPIED = 1, 2  # flags
_LETTERS = {0: "i", 1: "u", 2: "f", 5: "c"}
_BFLOAT, _BOOL = 4, 6


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    )  # fmt: skip


pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
is_valid = ctypes.pythonapi.PyCapsule_IsValid
is_valid.restype, is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)

_versioned_types: WeakSet[type] = WeakSet()  # the classes of arrays that know versions


class ForeignArray(Protocol):
    """An array of any library that exports its memory."""

    @property
    def __dlpack__(self) -> Callable[..., object]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> object: ...
    @property
    def ndim(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class Namespace(Protocol):
    """What is asked of a library's array namespace, of those in the array API standard."""

    def asarray(self, array: NDArray, /) -> ForeignArray: ...
    def from_dlpack(self, array: ForeignArray, /) -> ForeignArray: ...
    def reshape(self, array: ForeignArray, shape: tuple[int, ...], /) -> ForeignArray: ...


@dataclass(frozen=True, slots=True)
class BorrowedMemory:
    """Memory borrowed through a capsule, valid as long as that exists. Strides count elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: NumPyType
    read_only: bool
    copied: bool
    capsule: object

    @property
    def is_dense(self) -> bool:
        """Whether strides are those of row-major order; of an axis of one element they mean nothing."""
        wanted = _dense_strides(self.shape)
        found = zip(self.shape, self.strides, wanted, strict=True)
        return 0 in self.shape or all(n == 1 or s == w for n, s, w in found)


def dlpack_device(array: object) -> tuple[int, int] | None:
    """The kind and number of the device whose memory something exports by DLPack; None when it exports none.

    >>> dlpack_device(np.ones(3)) == (CPU, 0), dlpack_device("text")
    (True, None)
    """
    if not hasattr(array, "__dlpack_device__"):
        return None
    kind, number = array.__dlpack_device__()
    return int(kind), int(number)


def ask(array: ForeignArray, **wanted: object) -> object:
    """An array's capsule, in the newest form that its library knows.

    ``wanted`` are the protocol's further arguments: ``stream``, ``dl_device``, ``copy``.
    """
    kind = type(array)
    try:
        capsule = array.__dlpack__(max_version=VERSION, **wanted)
    except TypeError:
        if kind in _versioned_types:
            raise  # it comes from inside the library
        return array.__dlpack__(**wanted)
    _versioned_types.add(kind)
    return capsule


def read(capsule: object) -> BorrowedMemory:
    """The memory that a capsule describes.

    Raises UnsupportedError for one of a later major version, DTypeError for elements that NumPy has no type for.

    >>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> memory = read(x.__dlpack__(max_version=(1, 0)))
    >>> memory.address == x.ctypes.data, memory.shape, memory.strides, memory.dtype, memory.read_only
    (True, (2, 3), (3, 1), dtype('float32'), False)
    """
    flags = _READ_ONLY
    if is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        if versioned.major > VERSION[0]:
            raise UnsupportedError(
                f"an array came in version {versioned.major} of DLPack; Zenith reads {VERSION[0]}",
                fix="update Zenith or the other library, so that they speak one version",
            )
        tensor, flags = versioned.tensor, versioned.flags
    else:
        tensor = _Tensor.from_address(pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _dense_strides(shape)
    address = (tensor.data or 0) + tensor.byte_offset
    read_only, copied = bool(flags & _READ_ONLY), bool(flags & _COPIED)
    return BorrowedMemory(
        address if 0 not in shape else 0, shape, strides, _numpy_type(tensor.dtype), read_only, copied, capsule
    )


def on_host(memory: BorrowedMemory) -> NDArray:
    """A NumPy array on memory of the host, which retains the capsule; not writable where the memory is read-only.

    >>> x = np.arange(6.0).reshape(2, 3).T
    >>> y = on_host(read(x.__dlpack__(max_version=(1, 0))))
    >>> y.ctypes.data == x.ctypes.data, y.strides == x.strides, y.flags.writeable
    (True, True, True)
    """
    if 0 in memory.shape:
        return np.empty(memory.shape, memory.dtype)
    return np.asarray(_Memory(memory)).view(memory.dtype)


class _Memory:
    """Borrowed memory by NumPy's array interface; it becomes the base of the array."""

    def __init__(self, memory: BorrowedMemory) -> None:
        size = memory.dtype.itemsize
        plain = memory.dtype.str if memory.dtype.kind != "V" else f"V{size}"
        self.capsule = memory.capsule
        self.__array_interface__ = {
            "version": 3, "typestr": plain, "shape": memory.shape, "strides": tuple(s * size for s in memory.strides),
            "data": (memory.address, memory.read_only),
        }  # fmt: skip


def _dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*accumulate(shape[:0:-1], mul, initial=1),)[::-1] if shape else ()


def _numpy_type(type: _Type) -> NumPyType:
    whole = type.lanes == 1 and type.bits % 8 == 0
    if whole and type.code == _BOOL:
        return np.dtype(np.bool_)
    if whole and type.code == _BFLOAT and type.bits == 16:
        from zenith.ir.types import BY_NAME

        return BY_NAME["bf16"].numpy
    if not whole or type.code not in _LETTERS:
        raise DTypeError(
            f"an array came with DLPack's element type {type.code} of {type.bits} bits x {type.lanes}",
            fix="convert it with its own library, to float32 or another type that docs/dtypes.md lists",
        )
    return np.dtype(f"{_LETTERS[type.code]}{type.bits // 8}")
