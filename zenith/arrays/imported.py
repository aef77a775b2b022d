"""Arrays of any library in the host's memory, by DLPack, such as JAX's: NumPy arrays on the memory that they export.

Programs see NumPy arrays alone: an array is imported as one (:meth:`~ImportedHostAdapter.arrive`), results are made as
NumPy arrays, and the library imports those with the ``from_dlpack`` of its array namespace. They stay NumPy arrays
where it has none. The library's own rules apply then: JAX makes 32-bit numbers of 64-bit ones unless
``jax_enable_x64`` is set.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from zenith.arrays.capsules import CPU, CUDA, CUDA_HOST, CUDA_MANAGED, ForeignArray, ask, dlpack_device, on_host, read
from zenith.arrays.dlpack import BorrowedArrays, DlpackAdapter
from zenith.arrays.host import NUMPY, NumpyAdapter
from zenith.errors import DeviceError
from zenith.ir.types import DType, NDArray

ALIGNMENT = 64  # bytes: memory that begins so is imported without a copy, by JAX too


class ImportedHostAdapter(BorrowedArrays):
    """Arrays of a library on the CPU, of any strides; read-only ones and others, none of which are written."""

    device, on_host, exchange = None, True, None

    def check(self, array: ForeignArray, name: str) -> None:
        """Refuse arrays on other devices, and of element types that Zenith does not have."""
        if not is_on_host(array):
            raise DeviceError(f"{name} is a {type(array).__name__} that is not on the CPU",
                              fix=f"pass numpy.asarray({name})")  # fmt: skip
        super().check(array, name)

    def stream(self) -> int:
        """There are no streams."""
        return 0

    def arrive(self, array: ForeignArray, stream: int = 0) -> NDArray:
        """A NumPy array on the array's memory, which it retains."""
        return on_host(read(ask(array)))

    def depart(self, array: NDArray) -> ForeignArray:
        """The library's own array on the memory of a result; of a copy where NumPy cannot export it, as bfloat16."""
        if self.namespace is None:
            return array
        return self.namespace.asarray(array) if array.dtype.kind == "V" else self.namespace.from_dlpack(array)

    def address(self, array: ForeignArray) -> int:
        """The address of the first element, of a result until it departs."""
        return NUMPY.address(self.numpy(array))

    def dense_address(self, array: object) -> int | None:
        """None: an array that has arrived is NumPy's."""
        return None

    def dense(self, array: ForeignArray) -> NDArray:
        """A dense NumPy array of the same elements."""
        return np.ascontiguousarray(self.arrive(array))

    def empty(self, shape: tuple[int, ...], dtype: DType) -> NDArray:
        """A NumPy array, until it departs."""
        return RESULTS.empty(shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], NDArray]:
        """NumPy arrays, until they depart."""
        return RESULTS.maker(shape, dtype)

    def numpy(self, array: ForeignArray) -> NDArray:
        """A NumPy array on the memory that the array exports."""
        return array if isinstance(array, np.ndarray) else self.arrive(array)

    def from_numpy(self, array: NDArray) -> ForeignArray:
        """An array of the library, as its ``asarray`` makes it of NumPy's."""
        return array if self.namespace is None else self.namespace.asarray(array)


class _AlignedResults(NumpyAdapter):
    """New NumPy arrays that begin at a multiple of :data:`ALIGNMENT`."""

    def empty(self, shape: tuple[int, ...], dtype: DType) -> NDArray:
        """An array with undefined contents."""
        length = prod(shape) * dtype.itemsize
        memory = np.empty(length + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        return memory[start : start + length].view(dtype.numpy).reshape(shape)

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], NDArray]:
        """The same in every call."""
        return partial(self.empty, shape, dtype)


RESULTS = _AlignedResults()
_ATTRIBUTES = ("dtype", "ndim", "shape")  # what an array has in addition to memory to export


def is_on_host(array: object) -> bool:
    """Whether something is an array in the host's memory that DLPack can export."""
    device = dlpack_device(array)
    return device is not None and device[0] in (CPU, CUDA_HOST)


class _Adapters:
    """The adapters made so far, by library and GPU, None for the host."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int | None], ImportedHostAdapter | DlpackAdapter] = {}

    def __call__(self, array: object) -> ImportedHostAdapter | DlpackAdapter | None:
        """The adapter of something that exports memory of the host or of a GPU; None for anything else."""
        kind, number = dlpack_device(array) or (None, None)
        if kind not in (CPU, CUDA_HOST, CUDA, CUDA_MANAGED) or not all(hasattr(array, name) for name in _ATTRIBUTES):
            return None
        library = type(array).__module__.partition(".")[0].removesuffix("lib")
        found = self.named(library, number if kind in (CUDA, CUDA_MANAGED) else None)
        if found.namespace is None and hasattr(array, "__array_namespace__"):
            found.namespace = array.__array_namespace__()
        return found

    def named(self, library: str, device: int | None) -> ImportedHostAdapter | DlpackAdapter:
        """The adapter of a library's arrays on a GPU, or on the host; the first array gives its namespace."""
        found = self._known.get((library, device))
        if found is None:
            made = ImportedHostAdapter(library, None) if device is None else DlpackAdapter(library, device, None)
            found = self._known.setdefault((library, device), made)
        return found


imported_adapter = _Adapters()
