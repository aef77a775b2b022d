"""What an adapter is: all that the rest of Zenith may ask about arrays of one library, on one kind of device."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

from zenith.arrays.exchange import Exchange
from zenith.errors import UnsupportedError, ZenithError
from zenith.ir.types import DType, NDArray

ArrayT = TypeVar("ArrayT")  # the arrays of one library


class Adapter(Protocol[ArrayT]):
    """What the rest of Zenith may ask about an array of one library."""

    @property
    def library(self) -> str:
        """The library's import name."""
        ...

    @property
    def device(self) -> int | None:
        """The number of the GPU on which its arrays live; None for the CPU."""
        ...

    @property
    def on_host(self) -> bool:
        """Whether its arrays live in the host's memory."""
        ...

    @property
    def imports(self) -> bool:
        """Whether its arrays can only be read after :meth:`arrive`."""
        ...

    @property
    def exchange(self) -> Exchange | None:
        """How native code looks at its arrays, other than NumPy's; None where it cannot."""
        ...

    def stream(self) -> int:
        """The stream on which the library works now."""
        ...

    def arrive(self, array: ArrayT, stream: int) -> ArrayT:
        """What the other methods read instead of ``array``, ready for use on a stream."""
        ...

    def depart(self, array: ArrayT) -> ArrayT:
        """A result as the library's own array, once the kernels that write it are on the stream."""
        ...

    def check(self, array: ArrayT, name: str) -> None:
        """Raise the fitting ZenithError, with its fix, when Zenith cannot compute with ``array``, called ``name``."""
        ...

    def signature(self, array: ArrayT) -> Hashable:
        """What a compiled program depends on: type and rank, and all that :meth:`check` looks at, cheaply."""
        ...

    def signature_of(self, dtype: DType, rank: int) -> Hashable:
        """The signature of every accepted array of this type and rank."""
        ...

    def address(self, array: ArrayT) -> int:
        """The address of the element at index (0, ..., 0)."""
        ...

    def dtype(self, array: ArrayT) -> DType | None:
        """The element type; None when Zenith has no such type."""
        ...

    def shape(self, array: ArrayT) -> tuple[int, ...]:
        """The sizes of the axes."""
        ...

    def dense_address(self, array: ArrayT) -> int | None:
        """The address, 0 for an array without elements; None when it is not dense in row-major order."""
        ...

    def dense(self, array: ArrayT) -> ArrayT:
        """A dense array of the same elements, made by the library itself."""
        ...

    def is_sole_owner(self, array: ArrayT) -> bool:
        """Whether an array is dense, may be written, and is all of its memory."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: DType) -> ArrayT:
        """A new dense array with undefined contents."""
        ...

    def maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], ArrayT]:
        """A function that returns what :meth:`empty` does, in less time."""
        ...

    def assign(self, array: ArrayT, values: ArrayT) -> None:
        """Write the elements of another array of the library into an array; UnsupportedError where none can change."""
        ...

    def numpy(self, array: ArrayT) -> NDArray:
        """A NumPy array that shares the memory."""
        ...

    def from_numpy(self, array: NDArray) -> ArrayT:
        """An array of this library that shares the memory of a NumPy array."""
        ...


class PlainAdapter(Generic[ArrayT]):
    """What adapters of arrays that are read as they are have in common; in the host's memory unless one says not."""

    device: int | None = None
    on_host, imports = True, False
    exchange: Exchange | None = None

    def stream(self) -> int:
        """There are no streams."""
        return 0

    def assign(self, array: Any, values: Any) -> None:
        """By the library's own assignment."""
        array[...] = values

    def arrive(self, array: ArrayT, stream: int) -> ArrayT:
        """The array itself."""
        return array

    def depart(self, array: ArrayT) -> ArrayT:
        """The array itself."""
        return array


def requires_grad(name: str) -> ZenithError:
    """The error for a tensor whose gradient would be lost."""
    return UnsupportedError(
        f"{name} requires a gradient, and Zenith does not record one",
        fix="call inside `with torch.no_grad():` or torch.inference_mode(), or detach the tensor",
    )


def has_tangent(name: str) -> ZenithError:
    """The error for a tensor whose tangent, of torch's forward-mode differentiation, would be lost."""
    return UnsupportedError(
        f"{name} has a tangent of torch.autograd.forward_ad, and Zenith computes none",
        fix="differentiate by zenith.jvp, a compiled module as functional(), or use "
        'torch.compile(..., backend="zenith"), which has PyTorch compute such calls',
    )


def device_name(adapter: Adapter) -> str:
    """The name of the device of an adapter's arrays."""
    return "the CPU" if adapter.device is None else f"cuda:{adapter.device}"
