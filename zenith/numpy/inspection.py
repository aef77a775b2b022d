"""What a program may ask of the namespace: its abilities, element types and devices, as the array API standard says."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.arrays.capsules import CPU, BorrowedMemory, ask, on_host, read
from zenith.arrays.imported import is_on_host
from zenith.errors import ArgumentError, DeviceError, ZenithError, user_line
from zenith.ir.types import DTYPES, NumPyType
from zenith.numpy.creation import array
from zenith.numpy.operands import HOST, check_device
from zenith.numpy.types import isdtype
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.dispatch import implements
from zenith.trace.recorder import current_recorder
from zenith.trace.tracer import Tracer

__all__ = ["__array_namespace_info__", "from_dlpack"]

# The standard has names for these; for float16 and bfloat16 it has none.
_STANDARD = {t.numpy_name: t.numpy for t in DTYPES if not t.is_narrow}


class NamespaceInfo:
    """Answers about the namespace.

    >>> __array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """

    def capabilities(self) -> dict[str, object]:
        """Whether masks may index and shapes depend on values: on concrete arrays they may, in a trace they may not."""
        outside = current_recorder() is None
        return {"boolean indexing": outside, "data-dependent shapes": outside, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made that follow from no others."""
        return HOST

    def default_dtypes(self, *, device: str | None = None) -> dict[str, NumPyType]:
        """The element types that functions choose on their own."""
        check_device(device)
        chosen = {
            "real floating": "float64",
            "complex floating": "complex128",
            "integral": "int64",
            "indexing": "int64",
        }
        return {kind: _STANDARD[name] for kind, name in chosen.items() if name in _STANDARD}

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, NumPyType]:
        """Element types by name, of a kind (or several in a tuple) as :func:`zenith.numpy.isdtype` knows them."""
        check_device(device)
        return {name: dtype for name, dtype in _STANDARD.items() if kind is None or isdtype(dtype, kind)}

    def devices(self) -> list[str]:
        """Where concrete arrays are made; compiled programs run where their arguments are."""
        return [HOST]


def __array_namespace_info__() -> NamespaceInfo:
    """The namespace's answers about itself."""
    return NamespaceInfo()


@implements(gives="view")
def from_dlpack(x: ArrayLike, /, *, device: str | None = None, copy: bool | None = None) -> Array:
    """A NumPy array on the memory of another library's array, which is borrowed by DLPack.

    It is read-only where the library says that its memory is, or does not say. ``copy=True`` copies, ``copy=False``
    never does, and ``None`` lets the library copy where it must. ``device="cpu"`` asks an array on a GPU for a copy.
    Raises ArgumentError where the library cannot do so, or does not export the memory; DeviceError for an array on a
    GPU without ``device="cpu"``.

    >>> from_dlpack(np.arange(3))
    array([0, 1, 2])
    """
    check_device(device)
    if isinstance(x, Tracer):
        return array(x, copy=True) if copy else x
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise ArgumentError(f"from_dlpack: {type(x).__name__} has no __dlpack__", where=user_line(),
                            fix="use zenith.numpy.asarray")  # fmt: skip
    if isinstance(x, np.ndarray):
        return array(x, copy=True) if copy else x.view()
    borrowed = _imported(x, device, copy)
    found = on_host(borrowed)
    return array(found, copy=True) if copy and not borrowed.copied else found


def _imported(x: Any, device: str | None, copy: Any) -> BorrowedMemory:
    """The memory of an array on the host, requested with no needless argument, as older libraries take none."""
    wanted: dict[str, object] = {"copy": False} if copy is False else {}
    if not is_on_host(x):
        if device is None:
            raise DeviceError(f"from_dlpack: the {type(x).__name__} is not on the CPU, where zenith.numpy's arrays are",
                              where=user_line(), fix='device="cpu" asks its library for a copy there')  # fmt: skip
        wanted["dl_device"] = (CPU, 0)
    words = " and ".join(f"{name}={value}" for name, value in wanted.items())
    try:
        borrowed = read(ask(x, **wanted))
    except (BufferError, ValueError, TypeError, NotImplementedError) as error:
        if isinstance(error, ZenithError):
            raise
        reason = f"does not export it{' with ' if words else ''}{words}: {error}"
        raise ArgumentError(f"from_dlpack: the library of the {type(x).__name__} {reason}", where=user_line(),
                            fix="convert it with its own library, and pass that") from error  # fmt: skip
    if copy is False and borrowed.copied:
        raise ArgumentError(f"from_dlpack: the library of the {type(x).__name__} copied it, and copy=False was asked",
                            where=user_line(), fix="leave copy= out")  # fmt: skip
    return borrowed
