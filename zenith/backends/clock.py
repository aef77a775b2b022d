"""Clocks with which profiles measure calls. Each kind of executable has its own."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Clock(Protocol):
    """Marks of moments, and the seconds between two of them."""

    def now(self) -> Any:
        """A mark, which is used once."""
        ...

    def seconds(self, begin: Any, end: Any) -> float:
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
