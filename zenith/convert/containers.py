"""What can change in an object while Python code runs: items, attributes, how far an iterator has come.

A container is a list, dict, set, queue or array of Python's, or a view of an object, class or module by its attributes.
"""

from __future__ import annotations

import functools
import operator
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeAlias, TypeGuard, cast

import numpy as np

from zenith.errors import is_library
from zenith.trace.dispatch import Traced
from zenith.trace.recorder import current_recorder

Container: TypeAlias = (
    "list[object] | MutableMapping[Any, object] | set[object] | bytearray | deque[object] | array[int] | Progress"
)


class Guarded:
    """A container that refuses itself what a body may not do; ``held`` is what is in it."""

    __slots__ = ()

    def held(self) -> list[object]:
        """What is in it."""
        raise NotImplementedError


def kind_of_change(found: object) -> str:
    """What has changed, in a word."""
    if isinstance(found, (np.ndarray, CellType)):
        return "nonlocal name" if isinstance(found, CellType) else "array that NumPy made"
    owner = found.iterator if isinstance(found, Progress) else found.owner if isinstance(found, Attributes) else found
    return type(owner).__name__


def is_leaf(value: object) -> bool:
    """Whether nothing in a value can change, or is Zenith's; what a proxy stands for may be gone."""
    kind = type(value)
    if kind in weakref.ProxyTypes:
        try:
            kind = value.__class__
        except ReferenceError:
            return True
    return issubclass(kind, (Traced, FunctionType, str, bytes, int, float))


def containers(value: object) -> Iterator[Container]:
    """The containers that a value itself is or has; those in it are not looked for."""
    if isinstance(value, Guarded):
        return
    if isinstance(value, (list, dict, set, bytearray, deque, array)):
        yield value
    elif _is_iterator(value):
        yield Progress(value)
    elif is_users_object(value):
        yield Attributes(value)


def _is_iterator(value: object) -> TypeGuard[Iterator[object]]:
    """Whether a value is an iterator of Python's own."""
    return isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools")


def is_users_object(value: object) -> bool:
    """Whether a value is an object of a class of the user's, such a class itself, or a module."""
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, ModuleType):
        return not is_library(getattr(value, "__file__", None) or "")
    return kind.__module__ not in ("numpy", "builtins") and not kind.__module__.startswith("zenith.")


def inside(value: object) -> Iterable[object]:
    """What is in a value: items, attributes, what a method is bound to."""
    if isinstance(value, Guarded):
        return value.held()
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set, deque)):
        return list(value)
    if isinstance(value, (MethodType, BuiltinMethodType)):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    is_object = not (isinstance(value, (type, ModuleType)) or _is_iterator(value)) and is_users_object(value)
    return list(Attributes(value).values()) if is_object else []


class Attributes(MutableMapping[str, object]):
    """The attributes that an object, class or module itself has, those in slots too; not Python's own."""

    def __init__(self, owner: object) -> None:
        self.owner = owner

    def __iter__(self) -> Iterator[str]:
        slots = [] if isinstance(self.owner, type) else [_slots(kind) for kind in type(self.owner).__mro__]
        names = [*_own_attributes(self.owner), *(name for inner in slots for name in inner)]
        return (name for name in names if not name.startswith("__") and self._has(name))

    def _has(self, name: str) -> bool:
        return name in _own_attributes(self.owner) or hasattr(self.owner, name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> object:
        own = _own_attributes(self.owner)
        if name in own:
            return own[name]
        try:
            return getattr(self.owner, name)
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: object) -> None:
        if isinstance(self.owner, type):
            setattr(self.owner, name, value)
        else:
            object.__setattr__(self.owner, name, value)  # of frozen ones, too

    def __delitem__(self, name: str) -> None:
        if isinstance(self.owner, type):
            delattr(self.owner, name)
        else:
            object.__delattr__(self.owner, name)


def _own_attributes(owner: object) -> Mapping[str, object]:
    """The dict of an object, if it is one: foreign libraries answer to any name."""
    found = getattr(owner, "__dict__", None)
    return found if isinstance(found, (dict, MappingProxyType)) else {}


def _slots(kind: type) -> tuple[str, ...]:
    """The attributes that a class keeps in slots."""
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an iterator has come, as far as Python tells."""

    iterator: Iterator[object]

    def state(self) -> object:
        """What changes as it goes on."""
        if isinstance(self.iterator, GeneratorType):
            frame = self.iterator.gi_frame
            return None if frame is None else (frame.f_lasti, *map(id, frame.f_locals.values()))
        if type(self.iterator).__module__ == "itertools":
            return object()  # which Python does not tell
        if isinstance(self.iterator, (enumerate, zip, map, filter)):
            return tuple(Progress(inner).state() for inner in self.iterator.__reduce__()[1] if _is_iterator(inner))
        return operator.length_hint(self.iterator, -1)

    def put_back(self, before: object) -> None:
        """Have it go on from where it was; the error of the trace where Python has no way to."""
        setstate, left = getattr(self.iterator, "__setstate__", None), self.state()
        if setstate is not None and isinstance(before, int) and isinstance(left, int) and left:
            setstate(cast(int, self.iterator.__reduce__()[2]) + left - before)
        recorder = current_recorder()
        if self.state() != before and recorder is not None:
            recorder.raises.refuse(
                f"a {type(self.iterator).__name__} goes on in a loop or branch whose turns the program decides",
                "use an index, or go over a list of it: list(iterator)",
            )


def copied(container: Container) -> object:
    """What a container holds, to compare it with later."""
    if isinstance(container, Progress):
        return container.state()
    if isinstance(container, MutableMapping):
        return dict(container)
    return container[:] if isinstance(container, array) else _kind_of_copy(container)(container)


def _kind_of_copy(container: object) -> Callable[..., object]:
    """The class of Python's own that a container's copy has: classes that inherit from it may be made otherwise."""
    return next(kind for kind in (list, set, bytearray, deque) if isinstance(container, kind))


def holds_same(container: Container, before: Any) -> bool:
    """Whether a container holds the very objects that it held before."""
    if isinstance(container, Progress):
        return container.state() == before
    if len(container) != len(before):
        return False
    if isinstance(container, MutableMapping):
        return all(k in container and container[k] is v for k, v in before.items())
    if isinstance(container, (set, array, bytearray)):
        return bool(container == before)
    return all(a is b for a, b in zip(container, before, strict=True))


def put_back(container: Container, before: Any) -> None:
    """Have a container hold what it held before."""
    if isinstance(container, Progress):
        container.put_back(before)
    elif isinstance(container, (list, bytearray, array)):
        container[:] = before
    elif isinstance(container, deque):
        container.clear()
        container.extend(before)
    else:
        container.clear()
        container.update(before)
