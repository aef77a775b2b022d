"""What Python code may do beside computing: a body that is traced once may not, since it would happen once.

Before a body is traced, the lists, dicts, sets and objects that it can reach from its names are noted; after it they
must hold the same. What has changed is put back, and the change refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from zenith.errors import TraceError, user_line
from zenith.trace.dispatch import Traced

_MOST = 20_000  # objects that are looked at


class Watched:
    """The containers that can be reached from some values, and what they held."""

    def __init__(self, values: Iterable[object]) -> None:
        self._held: list[tuple[Any, Any]] = []
        self._arrays: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        seen: set[int] = set()
        pending = list(values)
        while pending and len(seen) < _MOST:
            value = pending.pop()
            if id(value) in seen or isinstance(value, (Traced, ModuleType, FunctionType, type, str, bytes, int, float)):
                continue
            seen.add(id(value))
            if isinstance(value, np.ndarray):
                if value.flags.writeable and value.size <= _MOST:
                    self._arrays.append((value, value.copy()))
                continue
            for container in _containers(value):
                self._held.append((container, _copy(container)))
            pending.extend(_inside(value))

    def changed(self) -> object:
        """One of the containers that hold something else now; None where none does."""
        for container, before in self._held:
            if not _equal(container, before):
                return container
        return next(
            (a for a, before in self._arrays if not np.array_equal(a, before, equal_nan=a.dtype.kind in "fc")), None
        )

    def restore(self) -> None:
        """Put back what the containers held."""
        for container, before in self._held:
            if not _equal(container, before):
                _refill(container, before)
        for array, values in self._arrays:
            if not np.array_equal(array, values, equal_nan=array.dtype.kind in "fc"):
                array[...] = values

    def check(self) -> None:
        """TraceError where something has changed, which is put back."""
        found = self.changed()
        if found is not None:
            self.restore()
            kind = "array that NumPy made" if isinstance(found, np.ndarray) else type(found).__name__
            raise TraceError(
                f"a loop or branch whose turns the program decides changes a {kind} of Python's, which it cannot",
                where=user_line(), fix="use arrays, or names that the loop assigns, for what changes in it",
            )  # fmt: skip


def _containers(value: object) -> Iterator[Any]:
    if isinstance(value, (list, dict, set, bytearray)):
        yield value
    elif type(value).__module__ not in ("numpy", "builtins") and not type(value).__module__.startswith("zenith."):
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            yield attributes


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set)):
        return list(value)
    found = getattr(value, "__dict__", None) if type(value).__module__ != "builtins" else None
    return list(found.values()) if isinstance(found, dict) and not isinstance(value, type) else []


def _copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else type(container)(container)


def _equal(container: Any, before: Any) -> bool:
    if len(container) != len(before):
        return False
    if isinstance(container, dict):
        return all(k in container and container[k] is v for k, v in before.items())
    if isinstance(container, set):
        return bool(container == before)
    return all(a is b for a, b in zip(container, before, strict=True))


def _refill(container: Any, before: Any) -> None:
    if isinstance(container, (list, bytearray)):
        container[:] = before
    else:
        container.clear()
        container.update(before)


def reached(function: FunctionType, depth: int = 3) -> list[object]:
    """The values of the names that a function, and those that it uses, read of the functions and the module around."""
    found: list[object] = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # a name that is not set yet
            continue
        found += reached(value, depth - 1) if isinstance(value, FunctionType) and depth else [value]
    names = set(function.__code__.co_names)
    return found + [
        value for name, value in function.__globals__.items() if name in names and not name.startswith("__")
    ]
