"""Lists of what one call at a time uses and gives back, such as leases of frames: those that are idle, latest last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def take_latest(idle: list[T], fits: Callable[[T], bool]) -> T | None:
    """Take from a list what was given back last among what fits; None where nothing does. Threads may do so at once.

    >>> idle = [1, 2, 3, 4]
    >>> take_latest(idle, lambda item: item % 2 == 1), idle
    (3, [1, 2, 4])
    """
    for item in reversed(idle):
        if fits(item):
            try:
                idle.remove(item)
            except ValueError:
                continue  # another thread was faster
            return item
    return None
