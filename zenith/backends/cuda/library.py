"""Doors to libraries: what those to cuBLASLt and cuDNN have in common.

A library's Python binding is imported when somebody asks, and why that cannot be done is found once. Each thread has a
handle of its own on each device. What was made for a problem (an algorithm, a graph) is kept for those who ask the
same, as many as are bounded. A test puts another binding in the place of the real one (:meth:`Door.using`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any


class _Handles(threading.local):
    def __init__(self) -> None:
        self.of: dict[tuple[int, int], tuple[Any, Any]] = {}  # a binding lives as long as its handles


class Door:
    """The way to one library.

    Parameters
    ----------
    name: what plans and reports call it. package: what pip installs it with.
    load: gives the binding, or raises ImportError. check: calls the library, or raises what it raises when it cannot
        be loaded. create: makes a handle on the current device; both get the binding.
    kept: how many results of :meth:`known` are kept; what was asked for longest ago goes first.
    """

    def __init__(
        self, name: str, package: str, load: Callable[[], Any], check: Callable[[Any], Any],
        create: Callable[[Any], Any], kept: int,
    ) -> None:  # fmt: skip
        self.name, self.kept = name, kept
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
        """Why the library cannot be called here; empty when it can. It is looked for once."""
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
        """Within this block another binding stands for the real one, or none, for a reason; nothing is known yet."""
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
        if key not in self._handles.of:
            self._handles.of[key] = self.binding, self._create(self.binding)
        return self._handles.of[key][1]

    def known(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What was made for a key, made now when it was not."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
            while len(self._known) > self.kept:
                self._known.popitem(last=False)
        return found

    @property
    def count(self) -> int:
        """How many results are kept."""
        return len(self._known)
