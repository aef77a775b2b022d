"""No garbage is collected while a program is compiled.

What a compiler allocates lives until its end at least. Python looks for cycles each time that many objects were made,
and goes through all objects of the process: with PyTorch imported that takes longer than most passes.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager

from zenith.temporary import Temporary


def _disable() -> bool:
    """Disable the collector; returns whether it was enabled."""
    was_enabled = gc.isenabled()
    gc.disable()
    return was_enabled


def _restore(was_enabled: bool) -> None:
    if was_enabled:
        gc.enable()


_disabled = Temporary(_disable, _restore)


def without_collection() -> AbstractContextManager[None]:
    """Python's cycle collector is disabled until the last thread has left, if it was enabled before the first entered.

    >>> import gc
    >>> with without_collection():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    return _disabled.stay()
