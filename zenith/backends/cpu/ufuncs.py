"""Inner loops of NumPy's ufuncs: where their native code is in this process, and a call of it from Python.

A loop is named by its ufunc and its element types, ``numpy.linalg._umath_linalg.solve:dd->d``. It is C, takes no
reference to any object, and is called without the GIL (some of SciPy's take it, to report what ``scipy.special.seterr``
asks for): ``void(char **args, intptr_t *dimensions, intptr_t *strides, void *data)``. Dimensions are the number of
examples and then the sizes of their axes; strides, in bytes, those from example to example of each argument, and then
those along each one's axes ("Generalized universal function API" of NumPy's manual). In compiled code a call is one
instruction (:mod:`zenith.backends.cpu.ufunc_code`), which refers to the loop by symbols; :func:`inner_loop` is its
twin, with which kernels run undecorated.
"""

from __future__ import annotations

import ctypes
import importlib
import re
from functools import cache
from typing import Any, NamedTuple

import numpy as np

PREFIX = "zenith_ufunc."
_SYMBOL = re.compile(rb"zenith_ufunc\.[\w.]+\.(?:code|data)\b")
_HEAD = object.__basicsize__  # bytes in front of an object's own fields
_CODES, _DATA, _COUNT = 16, 24, 32  # of the fields of a ufunc, PyUFuncObject in NumPy's C API, after the head


class Loop(NamedTuple):
    """The address of an inner loop, and of the data that it is called with; of a loop without data any address.

    LLVM takes a symbol at address 0 for one that is missing.
    """

    code: int
    data: int


@cache
def find(name: str) -> Loop:
    """The loop of a name; LookupError where the NumPy of this process has none."""
    ufunc, types = name.split(":")
    module, _, attribute = ufunc.rpartition(".")
    found: Any = getattr(importlib.import_module(module), attribute, None)
    if not isinstance(found, np.ufunc) or types not in found.types:
        raise LookupError(f"NumPy {np.__version__} has no ufunc {ufunc} for {types}")
    number, first = found.types.index(types), id(found) + _HEAD
    if ctypes.c_int.from_address(first + _COUNT).value != len(found.types):
        raise LookupError(f"NumPy {np.__version__} lays out ufuncs in another way")
    code, data = (ctypes.c_void_p.from_address(first + at).value or 0 for at in (_CODES, _DATA))
    address = _word(code, number)
    if not address:
        raise LookupError(f"NumPy {np.__version__} has no native code of {ufunc} for {types}")
    return Loop(address, (_word(data, number) if data else 0) or address)


def _word(table: int, number: int) -> int:
    return (ctypes.c_void_p * (number + 1)).from_address(table)[number] or 0


def symbols(name: str) -> tuple[str, str]:
    """The symbols by which machine code refers to a loop's code and data.

    >>> symbols("numpy.linalg._umath_linalg.solve:dd->d")[0]
    'zenith_ufunc.numpy.linalg._umath_linalg.solve.dd_d.code'
    """
    stem = PREFIX + name.replace(":", ".").replace("->", "_")
    return f"{stem}.code", f"{stem}.data"


def address_of(symbol: str) -> int | None:
    """The address that a symbol with the ``PREFIX`` stands for; None for a loop that this process's NumPy has not."""
    ufunc, types, part = symbol.removeprefix(PREFIX).rsplit(".", 2)
    try:
        loop = find(f"{ufunc}:{types.replace('_', '->')}")
    except (LookupError, ImportError):
        return None
    return loop.code if part == "code" else loop.data


def symbols_in(code: bytes) -> set[str]:
    """The symbols of loops that an object refers to, whatever its format."""
    return {found.decode() for found in _SYMBOL.findall(code)}


def inner_loop(NAME: str, ARGUMENTS: int, AXES: int, *words: Any) -> None:
    """Call the loop NAME: ARGUMENTS pairs of a buffer and a position, the examples, the sizes of AXES, all strides.

    The first three are literals in compiled code.
    """
    pairs, numbers = words[: 2 * ARGUMENTS], words[2 * ARGUMENTS :]
    addresses = [a.ctypes.data + int(at) * a.itemsize for a, at in zip(pairs[::2], pairs[1::2], strict=True)]
    loop, word = find(NAME), ctypes.c_ssize_t
    dimensions, strides = map(int, numbers[: 1 + AXES]), list(map(int, numbers[1 + AXES :]))
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(loop.code)(
        (ctypes.c_void_p * ARGUMENTS)(*addresses), (word * (1 + AXES))(*dimensions), (word * len(strides))(*strides),
        loop.data,
    )  # fmt: skip
