"""Arrays of any library on a GPU, by DLPack: the protocol in which libraries lend each other memory.

An array lends its memory for work on a stream (``__dlpack__``); the library has its own work on the array ordered
before that. What comes is a structure of C, which is read here. Results are made as CuPy arrays and taken over by the
library itself, with the ``from_dlpack`` of its array namespace; they stay CuPy arrays where it has no such.

The protocol is https://dmlc.github.io/dlpack/latest/python_spec.html.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from zenith.arrays.gpu import cupy_adapter
from zenith.backends.cuda.device_memory import DeviceArray
from zenith.backends.cuda.driver import LEGACY
from zenith.errors import DeviceError, DTypeError, UnsupportedError
from zenith.ir.types import DType, dtype_of

CUDA, CUDA_MANAGED = 2, 13  # kDLCUDA, kDLCUDAManaged
VERSION = (1, 0)  # the newest version of the protocol that is read here
_LETTERS = {0: "i", 1: "u", 2: "f", 5: "c"}


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


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


def borrowed(capsule: Any) -> DeviceArray | None:
    """The array in a capsule of DLPack, which stays its owner; None when it is not dense in row-major order.

    Raises UnsupportedError for a capsule of a later major version of the protocol.

    >>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> lent = borrowed(x.__dlpack__(max_version=(1, 0)))
    >>> lent.address == x.ctypes.data, lent.shape, lent.dtype
    (True, (2, 3), dtype('float32'))
    """
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major > VERSION[0]:
            raise UnsupportedError(
                f"an array came in version {versioned.major} of DLPack; Zenith reads {VERSION[0]}",
                fix="update Zenith or the other library, so that they speak one version",
            )
        tensor = versioned.tensor
    else:
        tensor = _Tensor.from_address(_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides and not _is_dense(shape, tensor.strides[: tensor.ndim]):
        return None
    address = (tensor.data or 0) + tensor.byte_offset
    return DeviceArray(address if np.prod(shape) else 0, shape, _numpy_type(tensor.dtype), capsule)


def _is_dense(shape: tuple[int, ...], strides: list[int]) -> bool:
    """Whether strides are those of row-major order; of an axis of one element they mean nothing."""
    wanted = [*accumulate(shape[:0:-1], mul, initial=1)][::-1] if shape else []
    return 0 in shape or all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))


def _numpy_type(type: _Type) -> np.dtype[Any]:
    if type.lanes != 1 or type.code not in (*_LETTERS, 4, 6):
        raise DTypeError(
            f"an array came with DLPack's element type {type.code} of {type.bits} bits x {type.lanes}",
            fix="convert it with its own library, to float32 or another type that docs/dtypes.md lists",
        )
    if type.code == 6:
        return np.dtype(np.bool_)
    if type.code == 4:
        from zenith.ir.types import BY_NAME

        return BY_NAME["bf16"].numpy
    return np.dtype(f"{_LETTERS[type.code]}{type.bits // 8}")


def is_on_gpu(array: Any) -> bool:
    """Whether something is an array on a CUDA device that can be lent by DLPack."""
    return hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED)


class DlpackAdapter:
    """Arrays of a library on one device; ``namespace`` is its array namespace, None when it has none."""

    on_host, imports = False, True

    def __init__(self, library: str, device: int, namespace: Any) -> None:
        self.library, self.device, self._namespace = library, device, namespace
        self._results = cupy_adapter(device)
        self._takes_version: dict[type, bool] = {}  # whether arrays of a class may be asked for a version of DLPack

    def check(self, array: Any, name: str) -> None:
        """Refuse arrays on other devices, and of element types that Zenith does not have."""
        if not is_on_gpu(array):
            raise DeviceError(f"{name} is a {type(array).__name__} that is not on a GPU",
                              fix=f"pass numpy.asarray({name})")  # fmt: skip
        if self.dtype(array) is None:
            raise DTypeError(f"{name}: Zenith has no element type for {array.dtype}",
                             fix="pass an array of another element type")  # fmt: skip

    def signature(self, array: Any) -> Hashable:
        """The class, element type, rank, and device."""
        return type(array), array.dtype, array.ndim, array.__dlpack_device__()

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """None: how a library names its element types is not known."""
        return None

    def address(self, array: Any) -> int:
        """The address of the first element, of an array that has arrived or of a result."""
        return array.address if isinstance(array, DeviceArray) else self._results.address(array)

    def dtype(self, array: Any) -> DType | None:
        """The element type, by its name."""
        found = array.dtype
        try:
            return dtype_of(np.dtype(getattr(found, "name", None) or str(found).rpartition(".")[2]))
        except TypeError:
            return None

    def shape(self, array: Any) -> tuple[int, ...]:
        """The sizes."""
        return tuple(array.shape)

    def dense_address(self, array: Any) -> int | None:
        """The address of an array that has arrived."""
        return int(array.address)

    def dense(self, array: Any) -> Any:
        """A copy that the library makes by two changes of shape."""
        if self._namespace is None:
            raise UnsupportedError(f"an array of {self.library} is not dense, and the library has no array namespace",
                                   fix="pass a contiguous array")  # fmt: skip
        flat = self._namespace.reshape(array, (-1,))
        return self._namespace.reshape(flat, tuple(array.shape))

    def is_sole_owner(self, array: Any) -> bool:
        """Nobody knows who else has the memory."""
        return False

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """An array of CuPy's, until it departs."""
        return self._results.empty(shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """Arrays of CuPy's, until they depart."""
        return self._results.maker(shape, dtype)

    def numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A copy on the host, by CuPy."""
        import cupy

        found: np.ndarray[Any, Any] = cupy.from_dlpack(array).get()
        return found

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """A copy on the device."""
        return self.depart(self._results.from_numpy(array))

    def stream(self) -> int:
        """CuPy's current stream: the library is told to be ready there."""
        return self._results.stream()

    def arrive(self, array: Any, stream: int) -> Any:
        """The array's memory, lent for work on a stream; of a copy when the array is not dense."""
        found = borrowed(self._lend(array, stream))
        if found is None:
            found = borrowed(self._lend(self.dense(array), stream))
        if found is None:
            raise UnsupportedError(f"an array of {self.library} is not dense", fix="pass a contiguous array")
        return found

    def depart(self, array: Any) -> Any:
        """The library's own array on the memory of a result."""
        return array if self._namespace is None else self._namespace.from_dlpack(array)

    def _lend(self, array: Any, stream: int) -> Any:
        """A capsule, in the newest form that the library knows. DLPack writes the legacy default stream as 1."""
        stream, takes = stream or LEGACY, self._takes_version.get(type(array))
        if takes is not False:
            try:
                lent = array.__dlpack__(stream=stream, max_version=VERSION)
            except TypeError:
                if takes:
                    raise  # it comes from inside the library
            else:
                self._takes_version[type(array)] = True
                return lent
        lent = array.__dlpack__(stream=stream)
        self._takes_version[type(array)] = False
        return lent


class _Adapters:
    """The adapters made so far, by library and device."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], DlpackAdapter] = {}

    def __call__(self, array: Any) -> DlpackAdapter:
        """The adapter of an array."""
        library, device = type(array).__module__.partition(".")[0].removesuffix("lib"), array.__dlpack_device__()[1]
        found = self._known.get((library, device))
        if found is None:
            namespace = array.__array_namespace__() if hasattr(array, "__array_namespace__") else None
            found = self._known[library, device] = DlpackAdapter(library, device, namespace)
        return found

    def named(self, library: str, device: int) -> DlpackAdapter:
        """An adapter that was made for an array before."""
        return self._known[library, device]


dlpack_adapter = _Adapters()
