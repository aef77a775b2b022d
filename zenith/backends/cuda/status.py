"""Status words: how a kernel that runs later reports a failed check.

A word is in mapped host memory: the kernel writes it, and the host reads it without waiting for anything. So an error
is raised by the next call on that stream that begins after the kernel has written, or by :func:`zenith.synchronize`,
which waits first. The words of programs that are gone are retained until their launches have surely ended.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence

from zenith.backends.cuda.driver import Driver, on_device
from zenith.backends.cuda.memory import pool_in_use
from zenith.backends.failures import Failures, reported

_LATER = "; what a GPU finds is reported by a later call, or by zenith.synchronize()"
RETIRED = 64  # blocks of words of programs that are gone; for more of them the device is waited for


class StatusWords:
    """One word for each launch that can fail, with its possible failures; made by :func:`words_of`."""

    def __init__(self, driver: Driver, failures: Sequence[Failures]) -> None:
        self.driver, self.device, self.failures = driver, driver.device(), failures
        self._memory = driver.pinned(8 * len(failures))
        self.address = self._memory.address
        self._words = (ctypes.c_int64 * len(failures)).from_address(self.address)
        self._none = bytes(8 * len(failures))

    def address_of(self, number: int) -> int:
        """The address of a launch's word."""
        return self.address + 8 * number

    @property
    def reports(self) -> bool:
        """Whether a launch has reported something."""
        return bytes(self._words) != self._none

    def check(self) -> None:
        """Raise OutOfBoundsError or CheckError for the first launch that has reported; others come later."""
        if bytes(self._words) == self._none:
            return
        failed = next((number for number, word in enumerate(self._words) if word), None)
        if failed is not None:  # no other thread was faster
            code, self._words[failed] = self._words[failed], 0
            raise reported(self.failures[failed], code).error(_LATER)


class _Board:
    """All words of the process that kernels may still write to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words: dict[int, StatusWords] = {}
        self._retired: list[int] = []  # appended to by finalizers, which must not wait for a lock

    def add(self, owner: object, words: StatusWords, waits: bool) -> None:
        """Retain words while ``owner`` lives, then until the device was waited for; wait now if ``waits`` allows it."""
        number = id(words)
        with self._lock:
            self._words[number] = words
            if waits and len(self._retired) > RETIRED:
                self._drop_retired()
        weakref.finalize(owner, self._retired.append, number).atexit = False

    def _drop_retired(self) -> None:
        """Forget words of programs that are gone and have nothing to report. The caller has the lock."""
        gone = [self._retired.pop() for _ in range(len(self._retired))]
        for driver, device in {(self._words[n].driver, self._words[n].device) for n in gone}:
            with on_device(driver, device):
                driver.synchronize_device()
        for number in gone:
            if self._words[number].reports:
                self._retired.append(number)
            else:
                del self._words[number]

    def check(self) -> None:
        """Raise for the first words that report something. All devices were waited for."""
        with self._lock:
            found = list(self._words.values())
        try:
            for words in found:
                words.check()
        finally:
            with self._lock:
                self._drop_retired()


_BOARD = _Board()


def words_of(owner: object, driver: Driver, failures: Sequence[Failures], waits: bool = True) -> StatusWords:
    """Words for the launches of ``owner``, on the current device; with ``waits`` it may be waited for."""
    words = StatusWords(driver, failures)
    _BOARD.add(owner, words, waits)
    return words


def synchronize() -> None:
    """Wait for all launches on all devices that were used, and raise the first error that they have reported.

    Raises OutOfBoundsError when an index was outside its axis, CheckError when another check did not hold. Without a
    GPU there is nothing to wait for.
    """
    pool = pool_in_use()
    if pool is None:
        return
    for device in sorted(pool.devices):
        with on_device(pool.driver, device):
            pool.driver.synchronize_device()
    pool.driver.graphs.forget()
    _BOARD.check()
