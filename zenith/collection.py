"""No garbage is collected while a program is compiled.

What a compiler makes is kept or let go at its end. Python looks for cycles as often as many objects are made, and
each time goes through all that the process has: beside PyTorch that takes longer than most passes.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Rest:
    """How many threads want the collector to rest, and whether it was at work before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wanted, self.was_enabled = 0, False

    def begin(self) -> None:
        with self.lock:
            if not self.wanted:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.wanted += 1

    def end(self) -> None:
        with self.lock:
            self.wanted -= 1
            if not self.wanted and self.was_enabled:
                gc.enable()


_rest = _Rest()


@contextmanager
def without_collection() -> Iterator[None]:
    """Python's collector of cycles rests until the last thread has left, if it was at work before the first.

    >>> import gc
    >>> with without_collection():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    _rest.begin()
    try:
        yield
    finally:
        _rest.end()
