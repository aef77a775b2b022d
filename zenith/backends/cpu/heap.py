"""Memory of the C library: what it keeps of freed memory for later requests, and between blocks that are in use.

Weights in floats are in blocks of some megabytes, which glibc does not give back by itself once programs have packed
them: half of a gigabyte of a model with a billion weights in four bits.
"""

from __future__ import annotations

import ctypes


def trim() -> None:
    """Give freed memory back to the system, where the C library can (``malloc_trim`` of glibc)."""
    function = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if function is not None:
        function(ctypes.c_size_t(0))
