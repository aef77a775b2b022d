"""No garbage is collected while a program is compiled.

What a compiler makes is kept or let go at its end. Python looks for cycles as often as many objects are made, and
each time goes through all that the process has: beside PyTorch that takes longer than most passes.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0
_was_enabled = False


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
    global _inside, _was_enabled
    with _lock:
        if not _inside:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _was_enabled:
                gc.enable()
