"""How thoroughly to measure."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import machine


@dataclass(frozen=True)
class Settings:
    """How thoroughly to measure.

    Parameters
    ----------
    processes: of each contender, one after the other; the first starts cold, the others find what it compiled.
    rounds: timed rounds of each process.
    round_s: seconds that a round should last.
    warm_up_s: seconds of calls at the start of a turn that are not timed. A pool's threads may wake on one core and
        need tens of milliseconds to spread over all; without this, whoever has such threads is measured too slow.
    settle_s: pause before a contender's turn, in which the thread pool of the one before goes to sleep.
    threads: for every library that has such a setting.
    keep_memory: let the C library keep freed memory in the process, for every contender.
    timeout_s: for one answer of a worker.
    """

    processes: int = 2
    rounds: int = 7
    round_s: float = 0.08
    warm_up_s: float = 0.08
    settle_s: float = 0.05
    threads: int = machine.usable_cores()
    keep_memory: bool = True
    timeout_s: float = 300.0

    @classmethod
    def quick(cls, threads: int) -> Settings:
        """A first look, not for publication."""
        return cls(processes=1, rounds=5, round_s=0.03, warm_up_s=0.05, settle_s=0.02, threads=threads)
