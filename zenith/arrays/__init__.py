"""Adapters: how Zenith reads and allocates the arrays of each library.

Zenith has no array class. An :class:`Adapter` reads the address, element type, shape and strides of one library's
arrays on one device and makes new ones; those of torch and CuPy are only made when a program has imported these
already. Arrays of other libraries, such as JAX's, come by DLPack. What no adapter takes (byte-swapped, object, sparse,
on a device without a backend ...) is refused with the conversion to write.

>>> import numpy as np
>>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
>>> adapter = adapter_for(x)
>>> str(adapter.dtype(x)), adapter.shape(x.T), adapter.dense_address(x) == x.ctypes.data, adapter.dense_address(x.T)
('f32', (3, 2), True, None)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np

from zenith.arrays.adapter import Adapter, device_name, has_tangent, requires_grad
from zenith.arrays.exchange import Exchange
from zenith.arrays.gpu import cupy_adapter
from zenith.arrays.host import NUMPY, NumpyAdapter
from zenith.arrays.imported import imported_adapter
from zenith.arrays.tensors import TorchAdapter, cuda_tensor_adapter, torch_adapter

__all__ = [
    "NUMPY",
    "Adapter",
    "Exchange",
    "NumpyAdapter",
    "TorchAdapter",
    "adapter_for",
    "adapter_named",
    "cupy_adapter",
    "device_name",
    "has_tangent",
    "maker_of_results",
    "requires_grad",
    "torch_adapter",
]  # fmt: skip


def adapter_for(array: object) -> Adapter | None:
    """The adapter that reads ``array``, or None when it is no array that Zenith knows."""
    if isinstance(array, np.ndarray):
        return NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return cuda_tensor_adapter(array.get_device()) if array.is_cuda else torch_adapter()
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        return cupy_adapter(array.data.device_id)
    found: Adapter | None = imported_adapter(array)
    return found


def adapter_named(library: str, device: int | None) -> Adapter:
    """The adapter of a library's arrays on a device; None is the CPU."""
    if library == "torch":
        return torch_adapter() if device is None else cuda_tensor_adapter(device)
    if library == "numpy":
        return NUMPY
    found: Adapter = cupy_adapter(device or 0) if library == "cupy" else imported_adapter.named(library, device)
    return found


def maker_of_results(adapters: Iterable[Adapter], device: int | None = None) -> Adapter:
    """The adapter that makes results of a call: torch's when any argument is a tensor, else the first but NumPy's.

    Where all arguments are numbers, that is CuPy's on a device, NumPy's on the CPU.
    """
    found = [adapter for adapter in adapters if adapter is not NUMPY]
    if not found:
        return NUMPY if device is None else cupy_adapter(device)
    return next((a for a in found if a.library == "torch"), found[0])
