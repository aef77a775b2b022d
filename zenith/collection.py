"""No garbage is collected while a program is compiled.

What a compiler makes is kept or let go at its end. Python looks for cycles as often as many objects are made, and
each time goes through all that the process has: beside PyTorch that takes longer than most passes.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager

from zenith.temporary import Temporary


def _rest() -> bool:
    """Have the collector rest; returns whether it was at work."""
    was_enabled = gc.isenabled()
    gc.disable()
    return was_enabled


def _resume(was_enabled: bool) -> None:
    if was_enabled:
        gc.enable()


_resting = Temporary(_rest, _resume)


def without_collection() -> AbstractContextManager[None]:
    """Python's collector of cycles rests until the last thread has left, if it was at work before the first.

    >>> import gc
    >>> with without_collection():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    return _resting.stay()
