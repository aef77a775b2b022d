"""The runtime of an ejected program: checked arguments, memory, kernels compiled when they are first launched."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from zenith.backends.cpu.compiler import kernel_module, object_code
from zenith.backends.cpu.machine import load_by_engine
from zenith.backends.cpu.word_layout import MAX_CHUNKS, STATUS

ALIGNMENT = 64  # bytes
NOTHING = np.zeros(1 << 16, np.uint8)  # read in place of an array without elements; the values are discarded

_compiled: dict[str, tuple[Callable[..., None], Any]] = {}  # functions, and the owners of their loaded code
_lock = threading.Lock()  # one compilation at a time


def array(value: Any, path: str, dtype: str, rank: int, of_python: bool = False) -> Any:
    """The array of an argument in row-major order; TypeError unless it has this element type and number of axes.

    Where the program was made for a number ``of_python``, NumPy's are refused, and the reverse: beside other arrays
    they would give other element types (NEP 50).
    """
    if isinstance(value, (np.ma.MaskedArray, np.matrix)):
        raise TypeError(f"{path} is a {type(value).__name__}, which has rules of its own: pass an array")
    found = np.asarray(value)
    is_number = type(value) in (bool, int, float, complex)
    if (found.dtype, found.ndim, is_number) != (np.dtype(dtype), rank, of_python):
        kind = type(np.empty((), dtype).item()).__name__
        wanted = f"Python's {kind}" if of_python else f"an array of {dtype} with {rank} axes"
        given = "Python's " * is_number + type(value).__name__
        given = f"{found.dtype} with {found.ndim}" if isinstance(value, np.ndarray) else given
        raise TypeError(f"{path} is made for {wanted}, and is {given}")
    return np.require(found, dtype, ["C_CONTIGUOUS", "ALIGNED"])


def structure(value: Any, path: str, kind: type, keys: Sequence[Any]) -> None:
    """Raise TypeError unless an argument is a dict with these keys, or a tuple or list of as many items."""
    found = None
    if isinstance(value, kind) and isinstance(value, (dict, tuple, list)):
        found = list(value if isinstance(value, dict) else range(len(value)))
    if found is None or [*map(repr, found)] != [*map(repr, keys)]:  # in their order, which functions see
        given = f"a {type(value).__name__}" + ("" if found is None else f" with {found}")
        raise TypeError(f"{path} is made for a {kind.__name__} with {list(keys)}, and is {given}")


def same(value: Any, path: str, made_for: Any) -> None:
    """Raise TypeError unless an argument has the value for which the program was made."""
    if type(value) is not type(made_for) or repr(value) != repr(made_for):
        raise TypeError(f"{path} is {value!r}, and the program was made for {made_for!r}")


def require(
    condition: Callable[[], bool], text: str, error: type[Exception] = ValueError, /, **sizes: int
) -> None:  # fmt: skip
    """Raise ``error``, with the sizes of this call, unless a condition holds; a division by zero makes it false."""
    try:
        holds = condition()
    except ZeroDivisionError:
        holds = False
    if not holds:
        known = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise error(f"{text} does not hold in this call ({known})")


def address(memory: Any) -> int:
    """The address of an array's elements."""
    return int((memory if memory.size else NOTHING).ctypes.data)


def arena(length: int) -> tuple[Any, int]:
    """Memory for intermediate values, and the address at which it begins."""
    owner = np.empty(length + ALIGNMENT, np.uint8)
    return owner, -(-owner.ctypes.data // ALIGNMENT) * ALIGNMENT


def vector(length: int, dtype: str) -> Any:
    """An array whose elements begin at a multiple of ``ALIGNMENT``."""
    owner, first = arena(length * np.dtype(dtype).itemsize)
    start = first - owner.ctypes.data
    return owner[start : start + length * np.dtype(dtype).itemsize].view(dtype)


def read(path: Path, types: Mapping[str, tuple[str, tuple[int, ...]]]) -> dict[str, Any]:
    """Weights and constants by name, from an NPZ file; ValueError unless all have these types and shapes."""
    with np.load(path, allow_pickle=False) as file:
        found = {name: np.require(file[name], requirements=["C_CONTIGUOUS", "ALIGNED"]) for name in types}
    for name, (dtype, shape) in types.items():
        if (found[name].dtype, found[name].shape) != (np.dtype(dtype), shape):
            given = f"{found[name].dtype}{list(found[name].shape)}"
            raise ValueError(f"{name} in {path} is {given}, and the program was made for {dtype}{list(shape)}")
    return found


def machine_code(kernel: Callable[..., None]) -> Any:
    """A kernel as native code, ``void(int64 begin, int64 end, int64* words)``."""
    name = kernel.__name__
    if name not in _compiled:
        with _lock:
            if name not in _compiled:
                loaded = load_by_engine(object_code(kernel_module(kernel, name)), (name,))
                kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
                _compiled[name] = kind(loaded.addresses[0]), loaded
    return _compiled[name][0]


@cache
def team() -> ThreadPoolExecutor:
    """The threads that share the chunks of launches."""
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())


def launch(
    kernel: Callable[..., None],
    tasks: int,
    grain: int,
    pointers: Sequence[int],
    sizes: Sequence[int],
    failures: Mapping[int, str] | None = None,
) -> None:
    """Run a kernel for ``tasks`` tasks on the arrays at ``pointers``, in chunks of ``grain`` that threads share.

    The results do not depend on which thread runs a chunk, or when. ``failures`` maps the codes that the kernel may
    write into its status word to texts. Raises IndexError when an index was outside its axis, else RuntimeError.
    """
    if tasks <= 0:
        return
    native, status = machine_code(kernel), (ctypes.c_int64 * STATUS)()
    words = (ctypes.c_int64 * (1 + len(pointers) + len(sizes)))(ctypes.addressof(status), *pointers, *sizes)
    step = max(grain, (tasks - 1) // MAX_CHUNKS + 1)
    if tasks <= step:
        native(0, tasks, words)
    else:
        list(team().map(lambda begin: native(begin, min(begin + step, tasks), words), range(0, tasks, step)))
    if status[0]:
        error = IndexError if status[0] == 1 else RuntimeError
        raise error((failures or {})[status[0]])


def is_true(pointer: int) -> bool:
    """The condition at an address."""
    return ctypes.c_bool.from_address(pointer).value


def number(pointer: int) -> int:
    """The integer at an address."""
    return ctypes.c_int64.from_address(pointer).value


def branch(pointer: int, count: int) -> int:
    """The index at an address, clamped to one of ``count`` branches."""
    return min(max(ctypes.c_int32.from_address(pointer).value, 0), count - 1)


def turns() -> Iterator[int]:
    """The numbers of the turns of a loop that a condition ends."""
    return itertools.count()


def copy(to: int, source: int, length: int) -> None:
    """Copy ``length`` bytes; the ranges may overlap."""
    ctypes.memmove(to, source, length)
