"""What Python code may do beside computing: a body that is traced once may not, since it would happen once.

Before a body is traced, the lists, dicts, sets and objects that it can reach from its names are noted; after it they
must hold the same. What has changed is put back, and the change refused.
"""

from __future__ import annotations

import dis
import functools
import operator
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeGuard, cast

import numpy as np

from zenith.errors import SourceLine, TraceError, is_library, user_line
from zenith.trace.dispatch import Traced
from zenith.trace.recorder import current_recorder

_MOST = 20_000  # objects that are looked at
_LARGEST = 4_000_000  # elements of arrays that are compared


_MOST_CAPTURED = 16_000_000  # elements of all captured arrays that are


class Guarded:
    """A container that refuses itself what a body may not do; ``held`` is what is in it."""

    __slots__ = ()

    def held(self) -> list[Any]:
        """What is in it."""
        raise NotImplementedError


class Watched:
    """The containers that functions can reach, and the names around functions that they call, and what they held."""

    def __init__(self, functions: Sequence[FunctionType], names: Sequence[str] = ()) -> None:
        """``names`` are those of functions around that the functions may assign."""
        reaching: set[FunctionType] = set()
        values = [value for function in functions for value in reached(function, reaching)]
        own = {id(cell) for function in functions for cell in stored_cells(function)}
        own |= {id(c) for f in functions for n, c in _cells(f).items() if n in names}
        called = {id(cell): cell for function in reaching for cell in stored_cells(function)}
        self._cells = [(cell, _content(cell)) for number, cell in called.items() if number not in own]
        self._held: list[tuple[Any, Any]] = []
        self._arrays: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        seen: set[int] = set()
        pending = values
        while pending and len(seen) < _MOST:
            value = pending.pop()
            if type(value) is FunctionType and value not in reaching and not is_library(value.__code__.co_filename):
                pending.extend(reached(value, reaching))
            if id(value) in seen or _is_leaf(value):
                continue
            seen.add(id(value))
            if isinstance(value, np.ndarray):
                if value.flags.writeable and value.size <= _LARGEST:
                    self._arrays.append((value, value.copy()))
                continue
            for container in _containers(value):
                self._held.append((container, _copy(container)))
            pending.extend(_inside(value))

    def changed(self) -> object:
        """One of the containers that hold something else now; None where none does."""
        for cell, content in self._cells:
            if _content(cell) is not content:
                return cell
        for container, before in self._held:
            if not _equal(container, before):
                return container
        return next(
            (a for a, before in self._arrays if not np.array_equal(a, before, equal_nan=a.dtype.kind in "fc")), None
        )

    def restore(self) -> None:
        """Put back what the containers held."""
        for cell, content in self._cells:
            if content is not _UNSET:
                cell.cell_contents = content
        for container, before in self._held:
            if not _equal(container, before):
                _refill(container, before)
        for found, values in self._arrays:
            if not np.array_equal(found, values, equal_nan=found.dtype.kind in "fc"):
                found[...] = values

    def check(self) -> None:
        """TraceError where something has changed, which is put back."""
        found = self.changed()
        if found is not None:
            self.restore()
            kind = _kind_of(found)
            raise TraceError(
                f"a loop or branch whose turns the program decides changes a {kind} of Python's, which it cannot",
                where=user_line(), fix="use arrays, or names that the loop assigns, for what changes in it",
            )  # fmt: skip


def _kind_of(found: object) -> str:
    """What has changed, in a word."""
    if isinstance(found, (np.ndarray, CellType)):
        return "nonlocal name" if isinstance(found, CellType) else "array that NumPy made"
    owner = found.iterator if isinstance(found, _Progress) else found.owner if isinstance(found, Attributes) else found
    return type(owner).__name__


_UNSET = object()


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not set yet
        return _UNSET


def _is_leaf(value: object) -> bool:
    """Whether nothing in a value can change, or is Zenith's; what a proxy stands for may be gone."""
    kind = type(value)
    if kind in weakref.ProxyTypes:
        try:
            kind = value.__class__
        except ReferenceError:
            return True
    return issubclass(kind, (Traced, FunctionType, str, bytes, int, float))


def _containers(value: object) -> Iterator[Any]:
    if isinstance(value, Guarded):
        return
    if isinstance(value, (list, dict, set, bytearray, deque, array)):
        yield value
    elif _is_iterator(value):
        yield _Progress(value)
    elif _is_users(value):
        yield Attributes(value)


def _is_iterator(value: object) -> TypeGuard[Iterator[object]]:
    """Whether a value is an iterator of Python's own."""
    return isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools")


def _is_users(value: object) -> bool:
    """Whether a value is an object of a class of the user's, such a class itself, or a module."""
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, ModuleType):
        return not is_library(getattr(value, "__file__", None) or "")
    return kind.__module__ not in ("numpy", "builtins") and not kind.__module__.startswith("zenith.")


def _inside(value: object) -> Iterable[object]:
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
    is_object = not (isinstance(value, (type, ModuleType)) or _is_iterator(value)) and _is_users(value)
    return list(Attributes(value).values()) if is_object else []


class Attributes(MutableMapping[str, Any]):
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

    def __getitem__(self, name: str) -> Any:
        own = _own_attributes(self.owner)
        if name in own:
            return own[name]
        try:
            return getattr(self.owner, name)
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self.owner, type):
            setattr(self.owner, name, value)
        else:
            object.__setattr__(self.owner, name, value)  # of frozen ones, too

    def __delitem__(self, name: str) -> None:
        if isinstance(self.owner, type):
            delattr(self.owner, name)
        else:
            object.__delattr__(self.owner, name)


def _own_attributes(owner: object) -> Mapping[str, Any]:
    """The dict of an object, if it is one: foreign libraries answer to any name."""
    found = getattr(owner, "__dict__", None)
    return found if isinstance(found, (dict, MappingProxyType)) else {}


def _slots(kind: type) -> tuple[str, ...]:
    """The attributes that a class keeps in slots."""
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


@dataclass(frozen=True, slots=True)
class _Progress:
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
            return tuple(_Progress(inner).state() for inner in self.iterator.__reduce__()[1] if _is_iterator(inner))
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


def _copy(container: Any) -> Any:
    if isinstance(container, _Progress):
        return container.state()
    if isinstance(container, MutableMapping):
        return dict(container)
    return container[:] if isinstance(container, array) else _kind_of_copy(container)(container)


def _kind_of_copy(container: Any) -> Callable[[Any], Any]:
    """The class of Python's own that a container's copy has: classes that inherit from it may be made otherwise."""
    return next(kind for kind in (list, set, bytearray, deque) if isinstance(container, kind))


def _equal(container: Any, before: Any) -> bool:
    if isinstance(container, _Progress):
        return container.state() == before
    if len(container) != len(before):
        return False
    if isinstance(container, MutableMapping):
        return all(k in container and container[k] is v for k, v in before.items())
    if isinstance(container, (set, array, bytearray)):
        return bool(container == before)
    return all(a is b for a, b in zip(container, before, strict=True))


def _refill(container: Any, before: Any) -> None:
    if isinstance(container, _Progress):
        container.put_back(before)
    elif isinstance(container, (list, bytearray, array)):
        container[:] = before
    elif isinstance(container, deque):
        container.clear()
        container.extend(before)
    else:
        container.clear()
        container.update(before)


class ArraysStay:
    """TraceError at its end where a trace changed arrays that a function captures, or lists that are its defaults.

    They are put back. A dict that remembers results by numbers of Python's may change.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        functions = entries(function)
        code = functions[0].__code__ if functions else None
        self._where = None if code is None else SourceLine(code.co_filename, code.co_firstlineno, code.co_name)
        used: set[FunctionType] = set()
        values = [value for entry in functions for value in reached(entry, used)]
        defaults = [v for one in used for v in (*(one.__defaults__ or ()), *(one.__kwdefaults__ or {}).values())]
        self._defaults = [(v, _copy(v)) for v in defaults if isinstance(v, (list, dict, set))]
        self._arrays = [(found, found.copy()) for found in _arrays_in(values)]

    def check(self) -> None:
        """The check."""
        for default, held in self._defaults:
            if not _equal(default, held) and (isinstance(default, list) or _holds_traced(default)):
                _refill(default, held)
                raise TraceError(
                    "the function changes the default of an argument, which would happen once, and not in each call",
                    where=self._where, fix="make it None, and the list in the function",
                )  # fmt: skip
        for found, before in self._arrays:
            if found.tobytes() != before.tobytes():
                found[...] = before
                raise TraceError(
                    "the function writes into an array that it captures, which would happen once, and not in each "
                    "call", where=self._where, fix="pass the array as an argument",
                )  # fmt: skip


def _arrays_in(values: Sequence[object]) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays among values, and in their containers and attributes, that can be written and are not too large."""
    seen: set[int] = set()
    pending, left = list(values), _MOST_CAPTURED
    while pending and len(seen) < _MOST:
        value = pending.pop()
        if id(value) in seen or _is_leaf(value):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray) and value.flags.writeable and value.size <= min(_LARGEST, left):
            left -= value.size
            yield value
        elif not isinstance(value, np.ndarray):
            pending.extend(_inside(value))


def _holds_traced(container: Any) -> bool:
    return any(isinstance(value, Traced) for value in (*container, *_inside(container)))


def entries(function: Callable[..., object]) -> list[FunctionType]:
    """The functions of the user's program that a function of the runtime runs: those that it says, or itself."""
    if isinstance(function, functools.partial):
        return entries(function.func)
    said = getattr(function, "runs", None)
    if said is not None:
        return [one for part in said for one in entries(part)]
    return [function] if isinstance(function, FunctionType) else []


def reached(function: FunctionType, seen: set[FunctionType], depth: int = 8) -> list[object]:
    """The values of the names that a function, and those that it uses, read of the functions and the module around.

    Its defaults and attributes too; ``seen`` gets all these functions.
    """
    seen.add(function)
    found: list[object] = [vars(function)] if vars(function) else []
    values = [value for _, value in _free(function)]
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    names = _names(function.__code__)
    values += [v for name, v in function.__globals__.items() if name in names and not name.startswith("__")]
    for value in values:
        if _is_users(value):
            owner = value if isinstance(value, (ModuleType, type)) else type(value)
            values += [v for n, v in vars(owner).items() if n in names or n == "__call__"]
        if not isinstance(value, FunctionType):
            found.append(value)
        elif depth and value not in seen and not is_library(value.__code__.co_filename):
            found += reached(value, seen, depth - 1)
    return found


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> frozenset[str]:
    """The names of the module around, and of attributes, that a function and those inside of it read."""
    inner = (_names(c) for c in code.co_consts if isinstance(c, CodeType))
    return frozenset(code.co_names).union(*inner)


def _free(function: FunctionType) -> Iterator[tuple[CellType, object]]:
    """The cells of the names of functions around, and their values; without those that are not set."""
    for cell in function.__closure__ or ():
        try:
            yield cell, cell.cell_contents
        except ValueError:
            continue


def _cells(function: FunctionType) -> dict[str, CellType]:
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def stored_cells(function: FunctionType) -> list[CellType]:
    """The cells into which a function stores: names that are ``nonlocal`` there."""
    cells = _cells(function)
    return [cells[name] for name in _stored(function.__code__) if name in cells]


@functools.lru_cache(maxsize=1024)
def _stored(code: CodeType) -> frozenset[str]:
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inner = {name for c in code.co_consts if isinstance(c, CodeType) for name in _stored(c)}
    return frozenset((own | inner) & set(code.co_freevars))
