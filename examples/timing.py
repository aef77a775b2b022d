"""How the demo measures: rounds of calls, of which the median counts."""

import statistics
import time
from collections.abc import Callable, Sequence


def seconds(call: Callable[[], object], rounds: int = 30, calls: int = 20) -> float:
    """Median time of one call; times in one round are averaged."""
    _round(call, calls)
    return statistics.median(_round(call, calls) for _ in range(rounds))


def seconds_in_turn(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median time of each; rounds alternate between them, so that drift of the machine affects all alike."""
    for call in calls:
        _round(call, 1)
    table = [[_round(call, 1) for call in calls] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*table, strict=True)]


def _round(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls
