"""Device memory for users: the counters of the pool, and giving its unused memory back.

Arenas, results and constants of programs on a GPU come from one pool of CuPy's; once CUDA tensors of PyTorch take part,
from PyTorch's own caching allocator, so that the two do not take memory from each other. ``allocations`` and the other
counters are then PyTorch's, for everything in the process.

>>> import zenith
>>> zenith.memory.stats().allocations >= 0  # on a machine without a GPU all counters are zero
True
"""

from __future__ import annotations

from zenith.backends.cpu.heap import trim
from zenith.backends.cuda.memory import MemoryStats, pool_in_use
from zenith.backends.cuda.presence import find, problem

__all__ = ["MemoryStats", "release", "stats"]


def __dir__() -> list[str]:
    return __all__


def stats() -> MemoryStats:
    """The pool's counters (:class:`MemoryStats`): zeros, and a ``note``, where no GPU is there or was used yet."""
    pool = pool_in_use()
    if pool is not None:
        return pool.stats()
    why = problem(find())
    return MemoryStats(note="no program has run on the GPU yet" if why is None else why.what)


def release() -> None:
    """Give memory that is cached for later requests, and not in use, back to the device and to the system.

    Arenas stay with programs.
    """
    trim()
    pool = pool_in_use()
    if pool is not None:
        pool.source.release()
