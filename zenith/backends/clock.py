"""Clocks with which profiles measure calls. Each kind of executable has its own."""

from __future__ import annotations

import time
from typing import Protocol, TypeVar

Mark = TypeVar("Mark")


class Clock(Protocol[Mark]):
    """Marks of moments, and the seconds between two of them."""

    def now(self) -> Mark:
        """A mark, which is used once."""
        ...

    def seconds(self, begin: Mark, end: Mark) -> float:
        """The seconds from a mark to a later one."""
        ...


class HostClock:
    """The host's clock.

    >>> clock = HostClock()
    >>> clock.seconds(clock.now(), clock.now()) >= 0
    True
    """

    def now(self) -> float:
        """Seconds from an arbitrary origin."""
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        """The seconds from ``begin`` to ``end``."""
        return end - begin
