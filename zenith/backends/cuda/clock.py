"""Time on a stream: events around what is launched say how long the device took, whatever the host does meanwhile."""

from __future__ import annotations

from zenith.backends.cuda.driver import Driver


class EventClock:
    """Reads the time when a stream comes to where it was asked for it."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver, self._stream = driver, stream

    def now(self) -> int:
        """An event that notes its time, behind everything on the stream so far."""
        return self._driver.mark(self._stream)

    def seconds(self, begin: int, end: int) -> float:
        """The seconds from one event to a later one, once both have happened; they are gone afterwards."""
        return self._driver.between(begin, end)
