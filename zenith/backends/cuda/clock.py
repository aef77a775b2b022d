"""Time on a stream: events around launches measure the time of the device, independently of the host."""

from __future__ import annotations

from zenith.backends.cuda.driver import Driver


class EventClock:
    """Measures times on a stream, at points in the order of its launches."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver, self._stream = driver, stream

    def now(self) -> int:
        """An event that records its time after all earlier work on the stream."""
        return self._driver.mark(self._stream)

    def seconds(self, begin: int, end: int) -> float:
        """The seconds from one event to a later one, once both have happened; destroys both."""
        return self._driver.between(begin, end)
