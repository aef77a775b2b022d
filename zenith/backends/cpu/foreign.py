"""Calls of foreign native code, here as an ordinary function on NumPy arrays.

In compiled code it is one instruction (:mod:`zenith.backends.cpu.foreign_code`); the function here is its twin, with
which kernels run undecorated.
"""

from __future__ import annotations

import ctypes
from typing import Any


def call_native(COUNT: int, address: int, *words: Any) -> None:
    """Call the function at ``address``: COUNT pairs of a buffer and a position are addresses, the rest are sizes.

    Its C type is ``void (void *, ..., int64_t, ...)``. COUNT is a literal in compiled code.
    """
    pairs, sizes = words[: 2 * COUNT], words[2 * COUNT :]
    addresses = [a.ctypes.data + int(at) * a.itemsize for a, at in zip(pairs[::2], pairs[1::2], strict=True)]
    kinds = [ctypes.c_void_p] * COUNT + [ctypes.c_int64] * len(sizes)
    ctypes.CFUNCTYPE(None, *kinds)(int(address))(*addresses, *map(int, sizes))
