"""Forks: a child inherits every lock as it is, but of all threads only the one that forked.

What another thread had locked stays locked in the child for good, and a module that it was importing is never there.
So before the process forks, the locks that a child will need are taken, which waits for whoever has them. All threads
take these in one order: whoever has one of them waits for later ones only.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  whose hooks must be there before a fork begins
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib._bootstrap import _module_locks  # type: ignore[attr-defined]
from types import ModuleType
from typing import NamedTuple, Protocol

ORDER = ("numba", "llvm", "code memory", "temporary")  # whose locks they are
LIBRARIES = ("zenith", "numba", "llvmlite", "networkx", "rich")  # whose imports are waited for
PATIENCE = 10.0  # seconds, after which a process forks though a module is being imported


class Lock(Protocol):
    """Any lock of :mod:`threading`, or the like."""

    def acquire(self) -> object: ...

    def release(self) -> object: ...


class _Waited(NamedTuple):
    rank: int
    lock: Lock
    leave_in_child: Callable[[], object]


_waited: list[_Waited] = []
_forking = threading.local()  # the locks that a thread has taken in order to fork


def hold_over_fork(whose: str, lock: Lock, leave_in_child: Callable[[], object] | None = None) -> None:
    """Let no process fork while another thread has ``lock``, one of those in ``ORDER``.

    ``leave_in_child`` is called in a child instead of the lock's ``release``, and must release it.
    """
    _waited.append(_Waited(ORDER.index(whose), lock, leave_in_child or lock.release))


def _before() -> None:
    """Take all locks, at a moment in which nothing is being imported."""
    deadline = time.monotonic() + PATIENCE
    _take()
    while _is_importing() and time.monotonic() < deadline:
        _after_in_parent()
        time.sleep(1e-3)
        _take()


def _take() -> None:
    _forking.taken = []
    for waited in sorted(_waited, key=lambda waited: waited.rank):
        waited.lock.acquire()
        _forking.taken.append(waited)


def _after_in_parent() -> None:
    while _forking.taken:
        _forking.taken.pop().lock.release()


def _after_in_child() -> None:
    while _forking.taken:
        _forking.taken.pop().leave_in_child()
    if sys.version_info < (3, 12) and "networkx" in sys.modules:
        _renew_property_locks(sys.modules["networkx"])


def _renew_property_locks(networkx: ModuleType) -> None:
    """Give the cached properties of graphs new locks: Python 3.11 computes under one (see :mod:`zenith.cached`)."""
    for name in ("Graph", "DiGraph", "MultiGraph", "MultiDiGraph"):
        for member in vars(getattr(networkx, name, object)).values():
            if isinstance(member, functools.cached_property):
                member.lock = threading.RLock()  # type: ignore[attr-defined]


def _is_importing() -> bool:
    """Whether another thread is importing a module of Zenith or of what its compiler needs.

    A module's lock, which is private to ``importlib``, is taken before the module is even looked for.
    """
    locks = [lock() for name, lock in list(_module_locks.items()) if name.partition(".")[0] in LIBRARIES]
    return any(lock is not None and lock.owner not in (None, threading.get_ident()) for lock in locks)


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
