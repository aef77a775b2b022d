"""One team of worker threads per process; `driver` holds the native code with which kernels are spread over it.

A *launch* runs ``kernel(begin, end, args)`` over ``[0, total)`` in chunks of ``grain`` items. Chunk ``i`` is always
``[i * grain, (i + 1) * grain)``, whoever runs it, so results depend neither on the number of threads nor on timing.
The caller takes chunks like everybody else and returns when all are done. Every worker may come late or never: the
caller then does the work alone, so nobody's progress depends on a worker being scheduled.

*Life.* Workers are started by the first launch that wants them, as daemon threads. A forked child has none; its block
is re-initialised in place, so linked code keeps its address and the child's own workers start on demand. At exit
they are stopped before the interpreter goes down.

>>> import numpy as np
>>> from numba import carray, cfunc
>>> @cfunc("void(int64, int64, CPointer(int64))")
... def double(begin, end, args):
...     for i in range(begin, end):
...         args[i] *= 2
>>> x = np.arange(5)
>>> team().launch(double.address, 5, 2, x.ctypes.data)
>>> x.tolist()
[0, 2, 4, 6, 8]
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from zenith.backends.cpu.native import native
from zenith.backends.cpu.word_layout import (
    ASK,
    ASKED,
    ASKING,
    AVOIDED,
    BLOCK_BYTES,
    CALLED,
    CLAIM,
    CONDITION,
    CORES,
    CORES_BYTES,
    COSTS,
    LAST,
    LOCK,
    MAIN,
    MAX_THREADS,
    MUTEX,
    PENDING,
    POLL,
    RAISED,
    SIZE,
    SLEEPERS,
    START,
    STARTED,
    STOP,
    THREADS,
    UNAIDED,
)
from zenith.errors import ZenithError

__all__ = ["Team", "ThreadCountError", "default_num_threads", "set_num_threads", "team"]


class ThreadCountError(ZenithError, ValueError):
    """A number of threads is not an integer from 1 to ``MAX_THREADS``."""


def _checked(count: object, source: str) -> int:
    try:
        number = int(count) if isinstance(count, str) else count.__index__()  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        number = 0
    if not 1 <= number <= MAX_THREADS:
        raise ThreadCountError(
            f"{source} is {count!r}, which is no number of threads", fix=f"give an integer from 1 to {MAX_THREADS}"
        )
    return number


def default_num_threads() -> int:
    """``ZENITH_NUM_THREADS`` where it is set, else the number of cores that this process may use."""
    setting = os.environ.get("ZENITH_NUM_THREADS")
    if setting:
        return _checked(setting, "ZENITH_NUM_THREADS")
    return min(_allowed_cores().bit_count() or os.cpu_count() or 1, MAX_THREADS)


def _allowed_cores() -> int:
    """The cores this process may use, as bits; 0 where the system does not say."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return sum(1 << core for core in cores if core < 8 * CORES_BYTES)


def _load_libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.calloc.restype, libc.calloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
    for name in ("mutex_init", "cond_init"):
        getattr(libc, f"pthread_{name}").argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    for name in ("mutex_lock", "mutex_unlock", "cond_broadcast"):
        getattr(libc, f"pthread_{name}").argtypes = (ctypes.c_void_p,)
    return libc


_libc = _load_libc()


def _new_block() -> int:
    """A zeroed block on a cache-line boundary. It is never freed: a launch may outlive the interpreter."""
    address: int | None = _libc.calloc(1, BLOCK_BYTES + 128)
    if address is None:
        raise MemoryError("no memory for the thread team's block")
    return (address + 127) & -128


class Team:
    """The process's team: :func:`team` returns it; nobody else makes one.

    ``address`` is the address of its block, valid for the life of the process and in forked children.
    """

    def __init__(self, size: int) -> None:
        self.address = _new_block()
        self._workers: list[threading.Thread] = []
        self._native = native()
        self._call = self._native.run_launch
        self._raised: list[BaseException] = []
        self._callbacks = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(self._start), self._handlers()
        for offset, callback in zip((START, ASK), self._callbacks, strict=True):
            self._store(offset, ctypes.cast(callback, ctypes.c_void_p).value or 0)
        self._store(POLL, self._native.poll)
        self._reset(size)

    @property
    def size(self) -> int:
        """The number of threads that share a launch, the caller included."""
        return self._load(SIZE)

    @property
    def started(self) -> bool:
        """Whether worker threads exist."""
        return bool(self._load(STARTED))

    def launch(self, kernel_address: int, total: int, grain: int, args_address: int) -> None:
        """Run the kernel over ``[0, total)`` in chunks of ``grain`` items, without the GIL; see `driver`."""
        if self._call(self.address, kernel_address, total, grain, args_address):
            raise self.interruption()

    def interruption(self) -> BaseException:
        """What the handler of a signal raised, after a call that was interrupted."""
        error = self._raised[0]
        self._raised.clear()
        self._store(RAISED, 0)
        return error

    def _handlers(self) -> Any:
        """The callback that lets handlers run, in the main thread."""

        def running() -> Iterator[None]:
            raised = ctypes.c_int64.from_address(self.address + RAISED)
            while True:
                try:
                    yield  # when it goes on from here, Python runs handlers first
                except GeneratorExit:
                    return
                except BaseException as error:
                    self._raised.append(error)
                    raised.value = 1

        waiting = running()
        next(waiting)
        return ctypes.CFUNCTYPE(None)(waiting.__next__)  # no function, whose first byte code no `try` would protect

    def _load(self, offset: int) -> int:
        return ctypes.c_int64.from_address(self.address + offset).value

    def _store(self, offset: int, value: int) -> None:
        ctypes.c_int64.from_address(self.address + offset).value = value

    def _reset(self, size: int) -> None:
        """A team of ``size`` without workers and without a job. Nobody else may be using the block."""
        self._workers = []
        for offset in (STARTED, STOP, CLAIM, PENDING, CALLED, UNAIDED, LAST, RAISED, ASKING, ASKED):
            self._store(offset, 0)
        self._store(MAIN, threading.main_thread().ident or 0)
        ctypes.memset(self.address + COSTS, 0, CORES - COSTS)
        _libc.pthread_mutex_init(self.address + MUTEX, None)
        _libc.pthread_cond_init(self.address + CONDITION, None)
        self._store(SLEEPERS, size - 1)
        self._store(AVOIDED, -1)
        self._store(THREADS, 0)
        self._store(SIZE, size)
        self._store(LOCK, 0)

    def _start(self, *_: int) -> None:
        """Start the workers; called back by the first launch that wants them, which owns the job slot.

        They keep to the cores that the process may use now: a child may have been given fewer since it was forked.
        """
        ctypes.memmove(self.address + CORES, _allowed_cores().to_bytes(CORES_BYTES, "little"), CORES_BYTES)
        self._store(SLEEPERS, 0)
        self._store(STARTED, 1)
        for index in range(1, self.size):
            worker = threading.Thread(
                target=self._native.work, args=(self.address,), name=f"zenith-{index}", daemon=True
            )
            try:
                worker.start()
            except RuntimeError:  # the system gives no more threads: the team is what there is
                break
            self._workers.append(worker)
            self._store(THREADS + 8 * index, 0)
            self._store(THREADS + 8 * (index - 1), worker.native_id or 0)

    def _end_workers(self, timeout: float | None = None) -> None:
        """Have every worker return from its loop as soon as it has finished its chunk."""
        _libc.pthread_mutex_lock(self.address + MUTEX)
        self._store(STOP, 1)
        _libc.pthread_mutex_unlock(self.address + MUTEX)
        _libc.pthread_cond_broadcast(self.address + CONDITION)
        for worker in self._workers:
            worker.join(timeout)

    def _resize(self, size: int) -> None:
        """Wait for the running job, end the workers, and go on as a team of ``size``."""
        if self._load(ASKING) and threading.current_thread() is threading.main_thread():
            raise ThreadCountError(
                "set_num_threads is called by a signal's handler while a call of this thread is running",
                fix="change the number of threads when the call is done",
            )
        while not self._native.try_lock(self.address):
            time.sleep(1e-5)  # releases the GIL, which the job's owner may need to start workers
        self._end_workers()
        self._reset(size)

    def _at_exit(self) -> None:
        """Leave no worker in native code when the interpreter goes down. A daemon thread may still launch."""
        self._store(SIZE, 1)
        self._end_workers(timeout=1.0)


_guard = threading.Lock()
_team: Team | None = None


def team() -> Team:
    """The process's team. The first call compiles its native code; the first launch that pays starts its workers."""
    global _team
    with _guard:
        if _team is None:
            _team = Team(default_num_threads())
            atexit.register(_team._at_exit)
        return _team


def set_num_threads(count: int) -> None:
    """Let launches use ``count`` threads, the caller included; 1 means no workers at all. Waits for a running job.

    Raises :class:`ThreadCountError`, a ``ValueError``, unless ``count`` is an integer from 1 to ``MAX_THREADS``.
    """
    number = _checked(count, "the argument of set_num_threads")
    current = team()
    with _guard:
        if number != current.size:
            current._resize(number)


def _after_fork_in_child() -> None:
    global _guard
    _guard = threading.Lock()  # only the parent has its owner
    if _team is not None:
        _team._reset(_team.size)  # neither workers nor jobs came along


os.register_at_fork(after_in_child=_after_fork_in_child)
