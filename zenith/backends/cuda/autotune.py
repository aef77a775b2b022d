"""Autotuning: the schedules of a kernel measured against each other on the device.

Every candidate runs some times to warm up, then all run alternately, so that other load on the machine affects all
alike. A measurement is that of some launches in a row between two events of the stream, and the median of the rounds
counts. The cost model's choice stays where nothing is faster by more than ``NOISE``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

from zenith.backends.cuda.driver import Driver
from zenith.backends.cuda.tuning import Measured

WARM, ROUNDS, IN_A_ROW = 3, 11, 10
NOISE = 0.02  # a schedule has to be faster than the cost model's by this share


def compare(driver: Driver, runs: Mapping[str, Callable[[], object]], stream: int) -> Measured:
    """The fastest of some runs (the first is the default); each launches its work on a stream.

    >>> class Clock:  # a driver whose device needs as many seconds as it is told
    ...     now = 0.0
    ...     def work(self, seconds): self.now += seconds
    ...     def mark(self, stream): return self.now
    ...     def between(self, begin, end): return end - begin
    >>> clock = Clock()
    >>> compare(clock, {"a": lambda: clock.work(5.0), "b": lambda: clock.work(3.0)}, stream=0).schedule
    'b'
    """
    for run in runs.values():
        for _ in range(WARM):
            run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            begin = driver.mark(stream)
            for _ in range(IN_A_ROW):
                run()
            times[name].append(1e6 * driver.between(begin, driver.mark(stream)) / IN_A_ROW)
    found = {name: median(measured) for name, measured in times.items()}
    default, best = next(iter(found)), min(found, key=lambda name: found[name])
    return Measured(best if found[best] < found[default] * (1 - NOISE) else default, found)
