"""DLPack's exchange API in C: how native code looks at another library's array without a call of Python.

The type of arrays has a table of functions in ``__dlpack_c_exchange_api__``; one of them fills a ``DLTensor`` that is
valid as long as the array. It says nothing of what a library keeps beside its memory, such as gradients: for that, an
adapter adds questions. The table is that of https://github.com/dmlc/dlpack/blob/main/include/dlpack/dlpack.h, from
version 1.2 on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.arrays.capsules import VERSION, is_valid, pointer

Question = tuple[Callable[[Any], object], object]  # what is called with an array, and the object that it must return
Condition = tuple[Callable[[Any], object], object, object]  # the same with what it is called with in the middle

_CAPSULE, _LOOK = b"dlpack_exchange_api", 5  # the number of the word with ``dltensor_from_py_object_no_sync``


@dataclass(frozen=True, slots=True)
class Exchange:
    """How native code looks at a library's arrays.

    look: the address of a C function: of an object and a ``DLTensor`` to fill, 0 where it has.
    questions: what must be asked of an array besides, given one of the same element type.
    conditions: what must be asked in every call.
    """

    look: int
    questions: Callable[[Any], Sequence[Question]]
    conditions: Sequence[Condition]

    def words(self, array: object) -> tuple[int, int, list[int], list[int]]:
        """Of a ``DLTensor`` of an array: the word of its device, that of rank and element type, sizes and strides."""
        view, function = (ctypes.c_int64 * 6)(), ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
        function(self.look)(array, ctypes.addressof(view))
        _, device, kind, sizes, strides, _ = view
        axes = ctypes.c_int64 * (kind & 0xFFFFFFFF)
        return device, kind, list(axes.from_address(sizes)), list(axes.from_address(strides))


def function_of(kind: type) -> int | None:
    """The address of the function that looks at arrays of a type; None where it has none in a version that is read."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None or not is_valid(capsule, _CAPSULE):
        return None
    table = pointer(capsule, _CAPSULE)
    major = ctypes.c_uint32.from_address(table).value
    found = ctypes.c_void_p.from_address(table + 8 * _LOOK).value
    return found if major == VERSION[0] else None
