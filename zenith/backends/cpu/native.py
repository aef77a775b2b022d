"""Zenith's own native functions as Python sees them: compiled once per machine, loaded once per process.

Their source is in :mod:`zenith.backends.cpu.driver` and :mod:`zenith.backends.cpu.running`. Called through ctypes, they
run without the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from zenith.backends.cpu.link import Linked, link_runtime

SYMBOLS = (
    "zenith_run_program",
    "zenith_run_steps",
    "zenith_run_launch",
    "zenith_work",
    "zenith_try_lock",
    "zenith_poll",
    "zenith_run_on_arrays",
    "zenith_cached_call",
)


@dataclass(frozen=True)
class Native:
    """The functions, by their own names, and of ``poll`` and ``cached_call`` the address; arguments are 64-bit words.

    ``linked`` has their machine code, which stays as long as the process.
    """

    run_program: Callable[[int], int]
    run_steps: Callable[[int, int, int], int]
    run_launch: Callable[[int, int, int, int, int], int]
    work: Callable[[int], None]
    try_lock: Callable[[int], int]
    poll: int
    run_on_arrays: Callable[[int], int]
    cached_call: int
    linked: Linked


@cache
def native() -> Native:
    """The functions; the first call links them, and compiles them when this machine has not done so yet."""
    linked = link_runtime(SYMBOLS)
    program, steps, launch, work, try_lock, poll, on_arrays, cached_call = linked.addresses
    word = ctypes.c_int64
    return Native(
        ctypes.CFUNCTYPE(word, word)(program),
        ctypes.CFUNCTYPE(word, *[word] * 3)(steps),
        ctypes.CFUNCTYPE(word, *[word] * 5)(launch),
        ctypes.CFUNCTYPE(None, word)(work),
        ctypes.CFUNCTYPE(word, word)(try_lock),
        poll,
        ctypes.CFUNCTYPE(word, word)(on_arrays),
        cached_call,
        linked,
    )
