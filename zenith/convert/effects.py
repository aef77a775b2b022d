"""What Python code may do beside computing: a body that is traced once may not, since it would happen once.

Before a body is traced, the lists, dicts, sets and objects that it can reach from its names are noted; after it they
must hold the same. What has changed is put back, and the change refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import (
    CodeType,
    FunctionType,
    ModuleType,
)

import numpy as np

from zenith.convert.closures import UNSET, cells, content_of, free_variables, stored_cells
from zenith.convert.containers import (
    Container,
    containers,
    copied,
    holds_same,
    inside,
    is_leaf,
    is_users_object,
    kind_of_change,
    put_back,
)
from zenith.errors import SourceLine, TraceError, is_library, user_line
from zenith.ir.types import NDArray
from zenith.trace.dispatch import Traced

_MOST = 20_000  # objects that are looked at
_LARGEST = 4_000_000  # elements of an array that is compared
_MOST_CAPTURED = 16_000_000  # elements of all captured arrays that are


class Watched:
    """The containers that functions can reach, and the names around functions that they call, and what they held."""

    def __init__(self, functions: Sequence[FunctionType], names: Sequence[str] = ()) -> None:
        """``names`` are those of functions around that the functions may assign."""
        reaching: set[FunctionType] = set()
        values = [value for function in functions for value in reached(function, reaching)]
        own = {id(cell) for function in functions for cell in stored_cells(function)}
        own |= {id(c) for f in functions for n, c in cells(f).items() if n in names}
        called = {id(cell): cell for function in reaching for cell in stored_cells(function)}
        self._cells = [(cell, content_of(cell)) for number, cell in called.items() if number not in own]
        self._held: list[tuple[Container, object]] = []
        self._arrays: list[tuple[NDArray, NDArray]] = []
        seen: set[int] = set()
        pending = values
        while pending and len(seen) < _MOST:
            value = pending.pop()
            if type(value) is FunctionType and value not in reaching and not is_library(value.__code__.co_filename):
                pending.extend(reached(value, reaching))
            if id(value) in seen or is_leaf(value):
                continue
            seen.add(id(value))
            if isinstance(value, np.ndarray):
                if value.flags.writeable and value.size <= _LARGEST:
                    self._arrays.append((value, value.copy()))
                continue
            for container in containers(value):
                self._held.append((container, copied(container)))
            pending.extend(inside(value))

    def changed(self) -> object:
        """One of the containers that hold something else now; None where none does."""
        for cell, content in self._cells:
            if content_of(cell) is not content:
                return cell
        for container, before in self._held:
            if not holds_same(container, before):
                return container
        return next(
            (a for a, before in self._arrays if not np.array_equal(a, before, equal_nan=a.dtype.kind in "fc")), None
        )

    def restore(self) -> None:
        """Put back what the containers held."""
        for cell, content in self._cells:
            if content is not UNSET:
                cell.cell_contents = content
        for container, before in self._held:
            if not holds_same(container, before):
                put_back(container, before)
        for found, values in self._arrays:
            if not np.array_equal(found, values, equal_nan=found.dtype.kind in "fc"):
                found[...] = values

    def check(self) -> None:
        """TraceError where something has changed, which is put back."""
        found = self.changed()
        if found is not None:
            self.restore()
            kind = kind_of_change(found)
            raise TraceError(
                f"a loop or branch whose turns the program decides changes a {kind} of Python's, which it cannot",
                where=user_line(), fix="use arrays, or names that the loop assigns, for what changes in it",
            )  # fmt: skip


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
        self._defaults = [(v, copied(v)) for v in defaults if isinstance(v, (list, dict, set))]
        self._arrays = [(found, found.copy()) for found in _arrays_in(values)]

    def check(self) -> None:
        """The check."""
        for default, held in self._defaults:
            if not holds_same(default, held) and (isinstance(default, list) or _has_traced_item(default)):
                put_back(default, held)
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


def _arrays_in(values: Sequence[object]) -> Iterator[NDArray]:
    """The arrays among values, and in their containers and attributes, that can be written and are not too large."""
    seen: set[int] = set()
    pending, left = list(values), _MOST_CAPTURED
    while pending and len(seen) < _MOST:
        value = pending.pop()
        if id(value) in seen or is_leaf(value):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray) and value.flags.writeable and value.size <= min(_LARGEST, left):
            left -= value.size
            yield value
        elif not isinstance(value, np.ndarray):
            pending.extend(inside(value))


def _has_traced_item(container: Iterable[object]) -> bool:
    """Whether a key or item of a container is traced."""
    return any(isinstance(value, Traced) for value in (*container, *inside(container)))


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
    values = list(free_variables(function).values())
    values += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    names = _names(function.__code__)
    values += [v for name, v in function.__globals__.items() if name in names and not name.startswith("__")]
    owners: set[int] = set()  # which may hold their own instances, as enumerations do
    for value in values:
        owner = value if isinstance(value, (ModuleType, type)) else type(value)
        if is_users_object(value) and id(owner) not in owners:
            owners.add(id(owner))
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
