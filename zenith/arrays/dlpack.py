"""Arrays of any library on a GPU, by DLPack (:mod:`zenith.arrays.capsules`).

An array exports its memory for work on a stream; the library orders its own work on the array before that. Results are
made as CuPy arrays and imported by the library itself, with the ``from_dlpack`` of its array namespace; they stay CuPy
arrays where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np

from zenith.arrays.capsules import CPU, CUDA, CUDA_MANAGED, ForeignArray, Namespace, ask, dlpack_device, read
from zenith.arrays.gpu import cupy_adapter
from zenith.backends.cuda.device_memory import DeviceArray
from zenith.backends.cuda.driver import LEGACY
from zenith.errors import DeviceError, DTypeError, UnsupportedError
from zenith.ir.types import BY_NUMPY_NAME, DType, NDArray, dtype_of

if TYPE_CHECKING:
    import cupy


def borrowed(capsule: object) -> DeviceArray | None:
    """The array in a capsule of DLPack, which stays its owner; None when it is not dense in row-major order.

    >>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
    >>> memory = borrowed(x.__dlpack__(max_version=(1, 0)))
    >>> memory.address == x.ctypes.data, memory.shape, memory.dtype
    (True, (2, 3), dtype('float32'))
    """
    memory = read(capsule)
    return DeviceArray(memory.address, memory.shape, memory.dtype, capsule) if memory.is_dense else None


def is_on_gpu(array: object) -> bool:
    """Whether something is an array on a CUDA device that DLPack can export."""
    device = dlpack_device(array)
    return device is not None and device[0] in (CUDA, CUDA_MANAGED)


class BorrowedArrays:
    """What adapters of arrays that are imported by DLPack have in common, on any device.

    ``namespace`` is the library's array namespace, None when it has none.
    """

    device: int | None
    imports = True

    def __init__(self, library: str, namespace: Namespace | None) -> None:
        self.library, self.namespace = library, namespace
        self._types: dict[object, DType | None] = {}  # Zenith's element types by the library's

    def check(self, array: ForeignArray, name: str) -> None:
        """Refuse arrays of element types that Zenith does not have."""
        if self.dtype(array) is None:
            raise DTypeError(f"{name}: Zenith has no element type for {array.dtype}",
                             fix="pass an array of another element type")  # fmt: skip

    def assign(self, array: object, values: object) -> None:
        """Refused: the library may take its arrays for constants."""
        raise UnsupportedError(f"the function writes into an argument that is an array of {self.library}, which is not "
                               "written", fix="pass numpy.array(x), and use that afterwards")  # fmt: skip

    def signature(self, array: ForeignArray) -> Hashable:
        """The library, element type, rank, and device."""
        return self.library, self.dtype(array), array.ndim, dlpack_device(array)

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """The signature of an array in the plain memory of the device."""
        return self.library, dtype, rank, (CPU, 0) if self.device is None else (CUDA, self.device)

    def dtype(self, array: ForeignArray) -> DType | None:
        """The element type, by its name."""
        theirs = array.dtype
        if theirs not in self._types:
            try:
                name = getattr(theirs, "name", None) or str(theirs).rpartition(".")[2]
                self._types[theirs] = BY_NUMPY_NAME.get(name) or dtype_of(np.dtype(name))
            except TypeError:
                self._types[theirs] = None
        return self._types[theirs]

    def shape(self, array: ForeignArray) -> tuple[int, ...]:
        """The sizes."""
        return tuple(array.shape)

    def is_sole_owner(self, array: ForeignArray) -> bool:
        """False: DLPack does not report who else has the memory."""
        return False


class DlpackAdapter(BorrowedArrays):
    """Arrays of a library on one GPU."""

    on_host, exchange = False, None

    def __init__(self, library: str, device: int, namespace: Namespace | None) -> None:
        super().__init__(library, namespace)
        self.device, self._results = device, cupy_adapter(device)

    def check(self, array: ForeignArray, name: str) -> None:
        """Refuse arrays on other devices, and of element types that Zenith does not have."""
        if not is_on_gpu(array):
            raise DeviceError(f"{name} is a {type(array).__name__} that is not on a GPU",
                              fix=f"pass numpy.asarray({name})")  # fmt: skip
        super().check(array, name)

    def address(self, array: ForeignArray | DeviceArray) -> int:
        """The address of the first element, of an array that has arrived or of a result."""
        return array.address if isinstance(array, DeviceArray) else self._results.address(array)

    def dense_address(self, array: DeviceArray) -> int | None:
        """The address of an array that has arrived."""
        return int(array.address)

    def dense(self, array: ForeignArray) -> ForeignArray:
        """A copy that the library makes by two reshapes."""
        if self.namespace is None:
            raise UnsupportedError(f"an array of {self.library} is not dense, and the library has no array namespace",
                                   fix="pass a contiguous array")  # fmt: skip
        flat = self.namespace.reshape(array, (-1,))
        return self.namespace.reshape(flat, tuple(array.shape))

    def empty(self, shape: tuple[int, ...], dtype: DType) -> cupy.ndarray:
        """An array of CuPy's, until it departs."""
        return self._results.empty(shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], cupy.ndarray]:
        """Arrays of CuPy's, until they depart."""
        return self._results.maker(shape, dtype)

    def numpy(self, array: ForeignArray) -> NDArray:
        """A copy on the host, by CuPy."""
        import cupy

        found: NDArray = cupy.from_dlpack(array).get()
        return found

    def from_numpy(self, array: NDArray) -> ForeignArray:
        """A copy on the device."""
        return self.depart(self._results.from_numpy(array))

    def stream(self) -> int:
        """CuPy's current stream, on which libraries make their arrays ready."""
        return self._results.stream()

    def arrive(self, array: ForeignArray, stream: int) -> DeviceArray:
        """The array's memory, borrowed for work on a stream; that of a copy when the array is not dense."""
        found = borrowed(self._export(array, stream))
        if found is None:
            found = borrowed(self._export(self.dense(array), stream))
        if found is None:
            raise UnsupportedError(f"an array of {self.library} is not dense", fix="pass a contiguous array")
        return found

    def depart(self, array: cupy.ndarray) -> ForeignArray:
        """The library's own array on the memory of a result."""
        return array if self.namespace is None else self.namespace.from_dlpack(array)

    def _export(self, array: ForeignArray, stream: int) -> object:
        """A capsule for work on a stream. DLPack writes the legacy default stream as 1."""
        return ask(array, stream=stream or LEGACY)
