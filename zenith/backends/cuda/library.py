"""Doors to libraries: the interface that cuBLASLt, cuDNN and CuPy share.

A library's Python binding is imported at the first use, and a failure of that is found once. Each thread has a handle
of its own on each device. The result for a problem (an algorithm, a graph) is cached, in a cache of bounded size that
evicts the oldest. A test replaces the real binding by another one (:meth:`Door.using`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any


class _Handles(threading.local):
    def __init__(self) -> None:
        self.by_key: dict[tuple[int, int], tuple[Any, Any]] = {}  # a binding lives as long as its handles


class Door:
    """Access to one library.

    Parameters
    ----------
    name: its name in plans and reports. package: its name for pip.
    load: returns the binding, or raises ImportError. check: calls the library, or raises its error when it cannot be
        loaded. create: makes a handle on the current device; both get the binding.
    capacity: how many results of :meth:`known` are cached; the oldest is evicted first.
    """

    def __init__(
        self, name: str, package: str, load: Callable[[], Any], check: Callable[[Any], Any],
        create: Callable[[Any], Any], capacity: int,
    ) -> None:  # fmt: skip
        self.name, self.capacity = name, capacity
        self._package, self._load, self._check, self._create = package, load, check, create
        self._binding: Any = None
        self._why: str | None = None
        self._handles = _Handles()
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    @property
    def binding(self) -> Any:
        """The binding; ImportError where it is not installed."""
        if self._binding is None:
            self._binding = self._load()
        return self._binding

    def problem(self) -> str:
        """Why the library cannot be called here; empty when it can. It is checked once."""
        if self._why is None:
            try:
                self._check(self.binding)
                self._why = ""
            except ModuleNotFoundError as error:
                self._why = f"{error.name} is not installed (pip install {self._package})"
            except (ImportError, OSError, RuntimeError) as error:
                self._why = f"the library cannot be loaded: {str(error).partition(chr(10))[0]}"
        return self._why

    @contextmanager
    def using(self, other: Any, why: str | None = None) -> Iterator[None]:
        """Within this block another binding replaces the real one, or none does, for a reason; the cache is empty."""
        before = self._binding, self._why
        self._binding, self._why = other, why
        self._known.clear()
        try:
            yield
        finally:
            self._binding, self._why = before
            self._known.clear()

    def handle(self, device: int) -> Any:
        """This thread's handle for its current device."""
        key = id(self.binding), device
        if key not in self._handles.by_key:
            self._handles.by_key[key] = self.binding, self._create(self.binding)
        return self._handles.by_key[key][1]

    def known(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result for a key, from the cache or made now."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
            while len(self._known) > self.capacity:
                self._known.popitem(last=False)
        return found

    @property
    def count(self) -> int:
        """How many results are cached."""
        return len(self._known)
