"""PyTorch's tensors, of the CPU and of GPUs, in any strides. Torch is imported when an adapter is made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from functools import partial
from itertools import accumulate
from operator import attrgetter, call, mul
from typing import TYPE_CHECKING

import numpy as np

from zenith.arrays.adapter import PlainAdapter, has_tangent, requires_grad
from zenith.arrays.exchange import Exchange, Question, function_of
from zenith.errors import DeviceError, DTypeError, UnsupportedError, user_line
from zenith.ir.types import DTYPES, DType, NDArray, NumPyType, dtype_of

if TYPE_CHECKING:
    import torch

    from zenith.backends.cuda.memory import Counts


class TorchAdapter(PlainAdapter["torch.Tensor"]):
    """CPU tensors of PyTorch, in any strides, without a copy. Made by :func:`torch_adapter`."""

    library = "torch"

    def __init__(self) -> None:
        import torch

        self._torch, self._device, self._forward_ad = torch, torch.device("cpu"), torch.autograd.forward_ad
        self._to_torch = {t: getattr(torch, t.numpy_name) for t in DTYPES}
        self._from_torch = {theirs: ours for ours, theirs in self._to_torch.items()}
        look = function_of(torch.Tensor)
        self._tracing_state, self._mode = torch._C._get_tracing_state, torch._C._get_dispatch_mode
        self._proxy = torch._C._TorchDispatchModeKey.PROXY
        calm = (
            (attrgetter("_current_level"), self._forward_ad, -1), (call, self._tracing_state, None),
            (self._mode, self._proxy, None),
        )  # fmt: skip
        self.exchange = None if look is None else Exchange(look, self._questions, calm)

    def _questions(self, array: torch.Tensor) -> list[Question]:
        """What :meth:`signature` asks beyond type, rank, device and layout. A gradient is never wanted then."""
        lazy = [self._torch.Tensor.is_neg, *([self._torch.Tensor.is_conj] if array.is_complex() else ())]
        return [(attrgetter("requires_grad"), False), *((question, False) for question in lazy)]

    def check(self, array: torch.Tensor, name: str) -> None:
        """Refuse tensors on other devices, without plain memory, or whose gradient or tangent would be lost."""
        torch = self._torch
        if type(array) not in (torch.Tensor, torch.nn.Parameter):
            if torch.compiler.is_compiling():  # by any thread, but these are no tensors of one that computes
                raise UnsupportedError(
                    f"{name} has no elements yet: PyTorch exports or compiles a model that calls a function of "
                    "Zenith's", fix="write that function with torch's own functions, or call it outside of the model",
                )  # fmt: skip
            raise UnsupportedError(
                f"{name} is a {type(array).__name__}, a subclass of torch.Tensor with rules of its own",
                fix=f"pass {name}.as_subclass(torch.Tensor)",
            )
        if array.layout != torch.strided:
            raise UnsupportedError(f"{name} has layout {array.layout}", fix=f"pass {name}.to_dense()")
        if not (array.is_cpu or array.is_cuda):
            raise DeviceError(f"{name} is on device {array.device}; Zenith computes on the CPU and on CUDA's devices",
                              fix=f"pass {name}.cpu()")  # fmt: skip
        if array.dtype not in self._from_torch:
            fix = ".to(torch.complex64)" if array.is_complex() else ".to(torch.float32)"
            raise DTypeError(f"{name}: Zenith has no element type for {array.dtype}", fix=f"pass {name}{fix}")
        if array.is_neg():
            raise UnsupportedError(f"{name} is a view that negates lazily", fix=f"pass {name}.resolve_neg()")
        if array.is_conj():
            raise UnsupportedError(f"{name} is a view that conjugates lazily", fix=f"pass {name}.resolve_conj()")
        self._check_followed(array, name)

    def _check_followed(self, array: torch.Tensor, name: str) -> None:
        """Refuse tensors whose operations PyTorch follows: it would not see Zenith's."""
        if self._records():
            raise UnsupportedError(
                f"{name} is given while torch.jit.trace or make_fx records, which does not see what Zenith computes",
                where=user_line(), fix="call outside of it, or record the function that was compiled",
            )  # fmt: skip
        if array.requires_grad and self._torch.is_grad_enabled():
            raise requires_grad(name)
        if self.has_tangent(array):
            raise has_tangent(name)

    def assign(self, array: torch.Tensor, values: torch.Tensor) -> None:
        """Write the elements of another tensor, as PyTorch counts it."""
        with self._torch.no_grad():
            array.copy_(values)

    def signature(self, array: torch.Tensor) -> Hashable:
        """Everything that :meth:`check` asks: one accepted tensor represents all of its signature."""
        lost = (array.requires_grad and self._torch.is_grad_enabled()) or self._records()
        if self._forward_ad._current_level >= 0:
            lost = lost or self.has_tangent(array)
        return array.dtype, array.ndim, array.device, array.layout, lost, array.is_neg(), array.is_conj()

    def _records(self) -> bool:
        """Whether PyTorch records operators by running them, so that what others write into results is lost."""
        return self._tracing_state() is not None or self._mode(self._proxy) is not None

    def has_tangent(self, array: torch.Tensor) -> bool:
        """Whether torch's forward-mode differentiation follows a tensor."""
        differentiates = self._forward_ad._current_level >= 0
        return differentiates and self._forward_ad.unpack_dual(array).tangent is not None

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """A strided tensor of this device, which loses no gradient and does nothing lazily."""
        return self._to_torch[dtype], rank, self._device, self._torch.strided, False, False, False

    def address(self, array: torch.Tensor) -> int:
        """The address of the first element."""
        return array.data_ptr()

    def dtype(self, array: torch.Tensor) -> DType | None:
        """The element type."""
        return self._from_torch.get(array.dtype)

    def like(self, dtype: NumPyType) -> torch.dtype:
        """Torch's element type for one of NumPy's."""
        found = dtype_of(dtype)
        assert found is not None, f"no element type for {dtype}"
        return self._to_torch[found]

    def shape(self, array: torch.Tensor) -> tuple[int, ...]:
        """The sizes (``torch.Size`` is a tuple of ints)."""
        return array.shape

    def dense_address(self, array: torch.Tensor) -> int | None:
        """The address; torch itself has 0 for a tensor without elements."""
        try:
            return array.data_ptr() if array.is_contiguous() else None
        except RuntimeError:
            raise UnsupportedError(
                "an argument is a tensor that stands for others, and has no memory", where=user_line(),
                fix="call outside of torch.func's transforms and torch.vmap; zenith.vmap and zenith.grad are Zenith's",
            ) from None  # fmt: skip

    def dense(self, array: torch.Tensor) -> torch.Tensor:
        """A contiguous copy."""
        return array.detach().contiguous()

    def is_sole_owner(self, array: torch.Tensor) -> bool:
        """Whether a tensor is dense, requires no gradient, and is all of its memory."""
        whole = array.untyped_storage().nbytes() == array.numel() * array.element_size()
        return whole and array.is_contiguous() and not array.requires_grad and array.numel() > 0

    def empty(self, shape: tuple[int, ...], dtype: DType) -> torch.Tensor:
        """``torch.empty`` on this device, whatever the default device is."""
        return self._torch.empty(shape, dtype=self._to_torch[dtype], device=self._device)

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], torch.Tensor]:
        """``new_empty_strided`` of a tensor: twice as fast as ``empty``, which reads more arguments."""
        like = self.empty((), dtype)
        strides = tuple(accumulate((max(n, 1) for n in shape[:0:-1]), mul, initial=1))[::-1] if shape else ()
        return partial(like.new_empty_strided, shape, strides)

    def numpy(self, array: torch.Tensor) -> NDArray:
        """A NumPy array on the tensor's memory, which may be resized later: after ``numpy()`` torch refuses that."""
        kind = self._from_torch[array.dtype].numpy
        if array.numel() == 0:
            return np.empty(tuple(array.shape), kind)
        if array.is_conj() or array.is_neg():
            return array.detach().numpy()  # which raises: these elements are not in memory
        return np.asarray(_Memory(array.detach())).view(kind)

    def from_numpy(self, array: NDArray) -> torch.Tensor:
        """A tensor on the array's memory."""
        dtype = dtype_of(array.dtype)
        if dtype is not None and dtype.is_extension:
            bits = self._torch.from_numpy(array.view(f"i{dtype.itemsize}"))
            return bits.view(getattr(self._torch, dtype.numpy_name))
        return self._torch.from_numpy(array)


class _Memory:
    """A tensor's memory by NumPy's protocol; what has no name there goes as bytes."""

    def __init__(self, tensor: torch.Tensor) -> None:
        width = tensor.element_size()
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3, "shape": tuple(tensor.shape), "typestr": f"|V{width}",
            "strides": tuple(stride * width for stride in tensor.stride()), "data": (tensor.data_ptr(), False),
        }  # fmt: skip


class CudaTensorAdapter(TorchAdapter):
    """CUDA tensors of PyTorch on one device, without a copy, on torch's current stream. Results are torch's own."""

    on_host = False

    def __init__(self, device: int) -> None:
        super().__init__()
        self.device, self._device = device, self._torch.device("cuda", device)
        self._current_stream = self._torch._C._cuda_getCurrentRawStream

    def stream(self) -> int:
        """Torch's current stream in this thread."""
        return int(self._current_stream(self.device))

    def numpy(self, array: torch.Tensor) -> NDArray:
        """A copy on the host, for looking at values."""
        return super().numpy(array.detach().cpu())

    def from_numpy(self, array: NDArray) -> torch.Tensor:
        """A copy on the device."""
        return super().from_numpy(np.ascontiguousarray(array)).to(self._device)


class TorchSource:
    """Torch's caching allocator as the pool of everything: :class:`zenith.backends.cuda.memory.MemorySource`."""

    name = "PyTorch's caching allocator"

    def __init__(self) -> None:
        import torch

        self._cuda, self._error = torch.cuda, torch.cuda.OutOfMemoryError
        self.misses = 0

    def allocate(self, length: int, stream: int) -> tuple[_TorchBlock, int]:
        """A block of torch's, which belongs to the stream."""
        from zenith.backends.cuda.memory import NoMemory

        try:
            address = int(self._cuda.caching_allocator_alloc(length, None, stream))
        except self._error as error:
            raise NoMemory from error
        return _TorchBlock(address, self._cuda.caching_allocator_delete), address

    def reserved(self) -> int:
        """Bytes that torch has reserved on the device."""
        return int(self._cuda.memory_reserved())

    def unused(self) -> int:
        """Reserved bytes that neither tensors nor programs use."""
        return int(self._cuda.memory_reserved() - self._cuda.memory_allocated())

    def release(self) -> None:
        """``torch.cuda.empty_cache``."""
        self._cuda.empty_cache()

    def counts(self) -> Counts:
        """Torch's own counters, for everything in the process."""
        from zenith.backends.cuda.memory import Counts

        found = self._cuda.memory_stats()
        words = ("allocation.all.allocated", "segment.all.allocated", "allocation.all.freed",
                 "allocated_bytes.all.current", "allocated_bytes.all.peak")  # fmt: skip
        return Counts(*(int(found.get(word, 0)) for word in words))


class _TorchBlock:
    """Memory of torch's allocator, given back with this object."""

    __slots__ = ("_address", "_delete")

    def __init__(self, address: int, delete: Callable[[int], None]) -> None:
        self._address, self._delete = address, delete

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._delete(self._address)


_host: TorchAdapter | None = None
_cuda: dict[int, CudaTensorAdapter] = {}


def torch_adapter() -> TorchAdapter:
    """The adapter of CPU tensors; imports torch."""
    global _host
    if _host is None:
        _host = TorchAdapter()
    return _host


def cuda_tensor_adapter(device: int) -> CudaTensorAdapter:
    """The adapter of the tensors of a GPU. From the first one on, torch's allocator serves Zenith's memory, too."""
    if device not in _cuda:
        from zenith.backends.cuda.memory import pool

        if pool().source.name != TorchSource.name:
            pool().draw_on(TorchSource())
        _cuda[device] = CudaTensorAdapter(device)
    return _cuda[device]
