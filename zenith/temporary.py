"""Temporary changes of a process: the first thread that enters one makes it, the last thread to leave undoes it.

Threads come and go while others are inside. A forked child has one thread only: all others count as having left there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from zenith.forking import hold_over_fork
from zenith.interrupts import deferred

Before = TypeVar("Before")


class Stay:
    """One stay inside of a change. It is left once: at its end, or when an interrupt prevented that call."""

    def __init__(self, change: Temporary[Any]) -> None:
        self._change, self._is_inside = change, False

    def __enter__(self) -> None:
        with deferred():
            self._change.__enter__()
            self._is_inside = True

    def __exit__(self, *_: object) -> None:
        with deferred():
            if self._is_inside:
                self._change.__exit__()
                self._is_inside = False

    def __del__(self) -> None:
        if self._is_inside:
            self.__exit__()


class Temporary(Generic[Before]):
    """A change of the process: ``change`` makes it and returns what was before, ``restore`` takes that.

    It is a context manager, which any number of threads may enter, each as often as it likes; there is one for a
    change, and it lives as long as the process.

    >>> lights = ["off"]
    >>> def switch(on):
    ...     before, lights[0] = lights[0], on
    ...     return before
    >>> lit = Temporary(lambda: switch("on"), switch)
    >>> with lit:
    ...     with lit:
    ...         print(lights[0])
    ...     print(lights[0])
    on
    on
    >>> lights[0]
    'off'
    """

    def __init__(self, change: Callable[[], Before], restore: Callable[[Before], object]) -> None:
        self._change, self._restore = change, restore
        self._lock = threading.RLock()
        self._inside: Counter[int] = Counter()  # how often each thread entered
        self._before: list[Before] = []  # what was before, while anyone is inside
        hold_over_fork("temporary", self._lock, self._forget_others)

    def __enter__(self) -> None:
        with deferred(), self._lock:
            if not self._inside:
                self._before = [self._change()]
            self._inside[threading.get_ident()] += 1

    def __exit__(self, *_: object) -> None:
        with deferred(), self._lock:
            self._leave(threading.get_ident(), 1)

    def stay(self) -> Stay:
        """The same for one ``with``, which also ends when an interrupt comes just before its end."""
        return Stay(self)

    def _leave(self, thread: int, times: int) -> None:
        self._inside[thread] -= times
        if not self._inside[thread]:
            del self._inside[thread]
        if not self._inside:
            self._restore(self._before.pop())

    def _forget_others(self) -> None:
        """Leave for the threads that a forked child, whose one thread holds the lock, does not have."""
        for thread, times in list(self._inside.items()):
            if thread != threading.get_ident():
                self._leave(thread, times)
        self._lock.release()
