"""Code memory: regions in which the machine code of many kernels lies, page by page, and from which it is freed again.

A process may have some 65 000 memory maps (``vm.max_map_count`` on Linux), and neighbouring pages of the same rights
are one of them. So pages are taken from large regions, written, and then made executable for good: no page is ever
writable while it can be run. Pages that are free again give their memory back to the system but stay executable, since
otherwise a map would end wherever a freed page is next to a used one.

A block is freed with its :class:`CodeBlock`, to which whoever may run the code must therefore have a reference. That
may be in any thread, in the middle of anything, wherever Python collects garbage: so it waits for no lock.
"""

from __future__ import annotations

import bisect
import ctypes
import mmap
import os
import sys
import threading
from collections import deque
from collections.abc import Callable

from zenith.errors import ZenithError

REGION = 1 << 24  # bytes of a region, of which the system commits what is written
SPARE_MAPS = 64  # memory maps that a compilation may need in addition to those of its code
COMPILING = 1 << 27  # bytes of address space that it may need
IMPORTING = 7 << 26  # and the first one, which imports Numba
_COMPILER = "zenith.backends.cpu.compiler"
_FAILED = ctypes.c_void_p(-1).value
_NO_ACCESS, _WRITING, _RUNNING = 0, mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ | mmap.PROT_EXEC


class CodeMemoryError(ZenithError, MemoryError):
    """The system gives the process no memory, or no memory map, for machine code."""


class CodeBlock:
    """Pages with machine code, ``address`` to before ``end``; they are freed with this object."""

    __slots__ = ("_memory", "address", "end")

    def __init__(self, memory: CodeMemory, address: int, end: int) -> None:
        self._memory, self.address, self.end = memory, address, end

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if not at_exit():  # when modules are taken down, and threads may still run what nobody has
            self._memory.free(self.address, self.end)


class CodeMemory:
    """The regions of a process. ``lock`` is held while pages are taken or given back."""

    def __init__(self, region: int = REGION) -> None:
        self.lock = threading.Lock()
        self._region = region
        self._unused: list[tuple[int, int]] = []  # runs of pages, by address; no two touch
        self._freed: deque[tuple[int, int]] = deque()  # those that are to become unused
        self._mapped = 0

    @property
    def mapped(self) -> int:
        """Bytes of address space in all regions."""
        return self._mapped

    def unused(self) -> int:
        """Bytes of them that hold no code."""
        with self.lock:
            self._collect()
            return sum(end - begin for begin, end in self._unused)

    def take(self, length: int) -> CodeBlock:
        """Pages for ``length`` bytes, which :meth:`write` fills. Raises CodeMemoryError when the system gives none."""
        pages = max(1, -(-length // mmap.PAGESIZE)) * mmap.PAGESIZE
        with self.lock:
            self._collect()
            number = next((i for i, (begin, end) in enumerate(self._unused) if end - begin >= pages), None)
            if number is None:
                self._add_region(max(pages, self._region))
                number = next(i for i, (begin, end) in enumerate(self._unused) if end - begin >= pages)
            begin, end = self._unused[number]
            self._unused[number : number + 1] = [(begin + pages, end)] if begin + pages < end else []
            return CodeBlock(self, begin, begin + pages)

    def write(self, block: CodeBlock, image: bytes) -> None:
        """Put machine code into a block, which nobody runs yet."""
        with self.lock:  # so that a child is not forked from the middle, with pages that can be written but not run
            _protect(block.address, block.end, _WRITING)
            ctypes.memmove(block.address, image, len(image))
            _protect(block.address, block.end, _RUNNING)

    def free(self, begin: int, end: int) -> None:
        """Note that pages hold no code any more, and give them back unless another thread is at it."""
        self._freed.append((begin, end))
        if self.lock.acquire(blocking=False):
            try:
                self._collect()
            finally:
                self.lock.release()

    def _collect(self) -> None:
        """Make unused what was freed; the lock is held."""
        while self._freed:
            begin, end = self._freed.popleft()
            _LIBC.madvise(begin, end - begin, mmap.MADV_DONTNEED)
            self._add_unused(begin, end)

    def _add_unused(self, begin: int, end: int) -> None:
        """Join a run of pages with those that it touches."""
        at = bisect.bisect(self._unused, (begin, end))
        if at < len(self._unused) and self._unused[at][0] == end:
            end = self._unused.pop(at)[1]
        if at and self._unused[at - 1][1] == begin:
            at -= 1
            begin = self._unused.pop(at)[0]
        self._unused.insert(at, (begin, end))

    def _add_region(self, length: int) -> None:
        length = -(-length // mmap.PAGESIZE) * mmap.PAGESIZE
        begin = _reserved(length)
        self._mapped += length
        self._add_unused(begin, begin + length)


def check_room() -> None:
    """Raise CodeMemoryError when the process has hardly a memory map, or address space, left to compile in.

    LLVM would end it without an error.
    """
    if sys.platform != "linux":
        return
    space = COMPILING if _COMPILER in sys.modules else IMPORTING
    _LIBC.munmap(_reserved(space), space)
    length = (SPARE_MAPS + 1) * mmap.PAGESIZE
    begin = _reserved(length)
    try:
        for page in range(begin + mmap.PAGESIZE, begin + length, 2 * mmap.PAGESIZE):
            _protect(page, page + mmap.PAGESIZE, _WRITING)
    finally:
        _LIBC.munmap(begin, length)


def _reserved(length: int) -> int:
    """The address of new pages that nobody may touch yet."""
    address: int = _LIBC.mmap(None, length, _NO_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if address == _FAILED:
        raise _refused()
    return address


def _protect(begin: int, end: int, rights: int) -> None:
    if _LIBC.mprotect(begin, end - begin, rights):
        raise _refused()


def _refused() -> CodeMemoryError:
    return CodeMemoryError(
        f"the system gives no memory for machine code: {os.strerror(ctypes.get_errno())}",
        fix="let go of compiled functions, or allow more memory (ulimit -v) or memory maps (vm.max_map_count on Linux)",
    )


def _load_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long
    libc.munmap.argtypes = ctypes.c_void_p, ctypes.c_size_t
    libc.mprotect.argtypes = libc.madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return libc


_LIBC = _load_libc()
