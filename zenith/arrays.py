"""Adapters: how Zenith reads and allocates the arrays of each library.

Zenith has no array class. An :class:`Adapter` tells the address, element type, shape and strides of one library's
arrays and makes new ones; torch's is only made when a program has imported torch already. What no adapter takes
(byte-swapped, object, sparse, on a device without a backend ...) is refused with the conversion to write.

>>> x = np.arange(6, dtype=np.float32).reshape(2, 3)
>>> adapter = adapter_for(x)
>>> str(adapter.dtype(x)), adapter.shape(x.T), adapter.dense_address(x) == x.ctypes.data, adapter.dense_address(x.T)
('f32', (3, 2), True, None)
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Hashable
from functools import partial
from itertools import accumulate
from operator import mul
from typing import Any, Protocol

import numpy as np

from zenith.errors import DeviceError, DTypeError, UnsupportedError, ZenithError
from zenith.ir.types import DTYPES, DType, dtype_of


class Adapter(Protocol):
    """What the rest of Zenith may ask about an array of one library."""

    @property
    def library(self) -> str:
        """The library's import name."""
        ...

    def check(self, array: Any, name: str) -> None:
        """Raise the fitting ZenithError, with its fix, when Zenith cannot compute with ``array``, called ``name``."""
        ...

    def signature(self, array: Any) -> Hashable:
        """What a compiled program depends on: type and rank, and all that :meth:`check` looks at, cheaply."""
        ...

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """The signature of every accepted array of this type and rank."""
        ...

    def address(self, array: Any) -> int:
        """The address of the element at index (0, ..., 0)."""
        ...

    def dtype(self, array: Any) -> DType | None:
        """The element type; None when Zenith has no such type."""
        ...

    def shape(self, array: Any) -> tuple[int, ...]:
        """The sizes of the axes."""
        ...

    def dense_address(self, array: Any) -> int | None:
        """The address, 0 for an array without elements; None when it is not dense in row-major order."""
        ...

    def is_sole_owner(self, array: Any) -> bool:
        """Whether an array is dense, may be written, and is all of its memory."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """A new dense array with undefined contents."""
        ...

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """A function that returns what :meth:`empty` does, in less time."""
        ...

    def numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A NumPy array that shares the memory."""
        ...

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """An array of this library that shares the memory of a NumPy array."""
        ...


class NumpyAdapter:
    """NumPy arrays of any strides."""

    library = "numpy"
    # The data pointer is the first field behind the object header; PyArray_DATA, inlined into every extension module
    # ever compiled for NumPy, reads it there. Unlike `from_buffer` this takes read-only, strided and empty arrays, and
    # it is 8 times as fast as `array.ctypes.data`.
    _data = object.__basicsize__

    def check(self, array: Any, name: str) -> None:
        """Refuse what is no plain array of a native element type."""
        if type(array) not in (np.ndarray, np.memmap):
            raise UnsupportedError(
                f"{name} is a {type(array).__name__}, a subclass of numpy.ndarray with rules of its own",
                fix=f"pass numpy.asarray({name})",
            )
        if dtype_of(array.dtype) is None:
            raise DTypeError(f"{name} has element type {array.dtype}, which Zenith does not have",
                             fix=_cast_advice(array.dtype, name))  # fmt: skip

    def signature(self, array: Any) -> Hashable:
        """Element type and rank."""
        return array.dtype, array.ndim

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """Element type and rank."""
        return dtype.numpy, rank

    def address(self, array: Any) -> int:
        """The address of the first element."""
        return ctypes.c_void_p.from_address(id(array) + self._data).value or 0

    def dtype(self, array: Any) -> DType | None:
        """The element type."""
        return dtype_of(array.dtype)

    def shape(self, array: Any) -> tuple[int, ...]:
        """The sizes."""
        return array.shape

    def dense_address(self, array: Any) -> int | None:
        """The address, 0 for an array without elements; None when it is not dense in row-major order."""
        if not array.flags.c_contiguous:
            return None
        return (ctypes.c_void_p.from_address(id(array) + self._data).value or 0) if array.size else 0

    def is_sole_owner(self, array: Any) -> bool:
        """Whether an array is dense, may be written, and is all of its memory."""
        flags = array.flags
        return flags.c_contiguous and flags.writeable and flags.owndata and array.size > 0

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """``numpy.empty``."""
        return np.empty(shape, dtype.numpy)

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """``numpy.empty``."""
        return partial(np.empty, shape, dtype.numpy)

    def numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """The array itself."""
        return array

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """The array itself."""
        return array


def _cast_advice(dtype: np.dtype[Any], name: str) -> str:
    """How to make an array of an element type that Zenith has."""
    if not dtype.isnative and dtype_of(dtype.newbyteorder("=")) is not None:
        return f'its bytes are swapped: pass {name}.astype({name}.dtype.newbyteorder("="))'
    if dtype.kind == "c":
        return f"complex numbers are not supported yet: compute with {name}.real and {name}.imag"
    target = {"i": "int32", "u": "int64", "f": "float64", "O": "float64"}.get(dtype.kind)
    if target is None:
        return "pass an array of numbers: " + ", ".join(t.numpy_name for t in DTYPES)
    return f"pass {name}.astype(numpy.{target})"


class TorchAdapter:
    """CPU tensors of PyTorch, in any strides, without a copy. Made by :func:`torch_adapter`."""

    library = "torch"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._to_torch = {t: getattr(torch, t.numpy_name) for t in DTYPES}
        self._from_torch = {theirs: ours for ours, theirs in self._to_torch.items()}

    def check(self, array: Any, name: str) -> None:
        """Refuse tensors on other devices, without plain memory, or whose gradient would be lost."""
        torch = self._torch
        if type(array) not in (torch.Tensor, torch.nn.Parameter):
            raise UnsupportedError(
                f"{name} is a {type(array).__name__}, a subclass of torch.Tensor with rules of its own",
                fix=f"pass {name}.as_subclass(torch.Tensor)",
            )
        if array.layout != torch.strided:
            raise UnsupportedError(f"{name} has layout {array.layout}", fix=f"pass {name}.to_dense()")
        if not array.is_cpu:
            raise DeviceError(f"{name} is on device {array.device}; Zenith computes on the CPU only so far",
                              fix=f"pass {name}.cpu()")  # fmt: skip
        if array.dtype not in self._from_torch:
            raise DTypeError(f"{name} has element type {array.dtype}, which Zenith does not have", fix=(
                "pass " + name + (".real and .imag" if array.is_complex() else ".to(torch.int32)")))  # fmt: skip
        if array.is_neg():
            raise UnsupportedError(f"{name} is a view that negates lazily", fix=f"pass {name}.resolve_neg()")
        if array.requires_grad and torch.is_grad_enabled():
            raise requires_grad(name)

    def signature(self, array: Any) -> Hashable:
        """Everything that :meth:`check` asks: one accepted tensor stands for all of its signature."""
        loses_gradient = array.requires_grad and self._torch.is_grad_enabled()
        return array.dtype, array.ndim, array.is_cpu, array.layout, loses_gradient, array.is_neg()

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """A strided tensor on the CPU, which loses no gradient and does not negate lazily."""
        return self._to_torch[dtype], rank, True, self._torch.strided, False, False

    def address(self, array: Any) -> int:
        """The address of the first element."""
        return array.data_ptr()

    def dtype(self, array: Any) -> DType | None:
        """The element type."""
        return self._from_torch.get(array.dtype)

    def shape(self, array: Any) -> tuple[int, ...]:
        """The sizes (``torch.Size`` is a tuple of ints)."""
        return array.shape

    def dense_address(self, array: Any) -> int | None:
        """The address; torch itself has 0 for a tensor without elements."""
        return array.data_ptr() if array.is_contiguous() else None

    def is_sole_owner(self, array: Any) -> bool:
        """Whether a tensor is dense, is no part of autograd, and is all of its memory."""
        whole = array.untyped_storage().nbytes() == array.numel() * array.element_size()
        return whole and array.is_contiguous() and not array.requires_grad and array.numel() > 0

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """``torch.empty`` on the CPU, whatever the default device is."""
        return self._torch.empty(shape, dtype=self._to_torch[dtype], device="cpu")

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """``new_empty_strided`` of a CPU tensor: twice as fast as ``empty``, which reads more arguments."""
        like = self.empty((), dtype)
        strides = tuple(accumulate((max(n, 1) for n in shape[:0:-1]), mul, initial=1))[::-1] if shape else ()
        return partial(like.new_empty_strided, shape, strides)

    def numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """A NumPy array on the tensor's memory; bfloat16, which torch does not hand out, goes as 16-bit integers."""
        plain = array.detach()
        if plain.dtype == self._torch.bfloat16:
            return plain.view(self._torch.int16).numpy().view(self._from_torch[plain.dtype].numpy)
        return plain.numpy()

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        """A tensor on the array's memory."""
        if dtype_of(array.dtype) is not None and array.dtype.kind == "V":
            return self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(array)


def requires_grad(name: str) -> ZenithError:
    """The error for a tensor whose gradient would be lost."""
    return UnsupportedError(
        f"{name} requires a gradient, and Zenith does not record one",
        fix="call inside `with torch.no_grad():` or torch.inference_mode(), or detach the tensor",
    )


NUMPY = NumpyAdapter()
_torch_adapter: TorchAdapter | None = None


def torch_adapter() -> TorchAdapter:
    """The adapter of torch; imports torch."""
    global _torch_adapter
    if _torch_adapter is None:
        _torch_adapter = TorchAdapter()
    return _torch_adapter


def adapter_for(array: Any) -> Adapter | None:
    """The adapter that reads ``array``, or None when it is no array that Zenith knows."""
    if isinstance(array, np.ndarray):
        return NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return torch_adapter()
    return None
