"""What a program may ask of the namespace: its abilities, element types and devices, as the array API standard says."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import ArgumentError, user_line
from zenith.ir.types import DTYPES
from zenith.numpy.creation import array
from zenith.numpy.operands import HOST, check_device
from zenith.numpy.types import isdtype
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

    def capabilities(self) -> dict[str, Any]:
        """Whether masks may index and shapes depend on values: on concrete arrays they may, in a trace they may not."""
        outside = current_recorder() is None
        return {"boolean indexing": outside, "data-dependent shapes": outside, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made that follow from no others."""
        return HOST

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The element types that functions choose on their own."""
        check_device(device)
        chosen = {
            "real floating": "float64",
            "complex floating": "complex128",
            "integral": "int64",
            "indexing": "int64",
        }
        return {kind: _STANDARD[name] for kind, name in chosen.items() if name in _STANDARD}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
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
def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array of another library by its DLPack capsule, without a copy where that is possible.

    >>> from_dlpack(np.arange(3))
    array([0, 1, 2])
    """
    check_device(device)
    if isinstance(x, Tracer):
        return x
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(f"from_dlpack: {type(x).__name__} has no __dlpack__", where=user_line(),
                            fix="use zenith.numpy.asarray")  # fmt: skip
    found = np.from_dlpack(x)
    return array(found, copy=True) if copy else found
