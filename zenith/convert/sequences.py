"""Python's functions of sequences whose items or length the program decides.

``any``, ``all``, ``sorted``, ``map``, ``filter``, ``list``, and ``min`` and ``max`` by a key, are written in Python and
converted as the user's code is: loops of the program.
"""

from __future__ import annotations

import builtins
import functools
import operator
import types
from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from typing import TypeAlias, TypeGuard, TypeVar, cast

from zenith.convert.converted import converted
from zenith.convert.list_items import ItemForm, Rows
from zenith.convert.lists import GrowingList, list_of_rows, rows_of_numbers, sized_list
from zenith.convert.turns import NamedIterator, Turns, turns_of
from zenith.convert.typing import Function, Integer
from zenith.convert.values import PYTHON_TYPES
from zenith.trace.operators import python_number
from zenith.trace.recorder import current_recorder
from zenith.trace.tracer import Tracer

Items: TypeAlias = "Turns | Tracer | GrowingList | Sequence[object]"  # the program's, or Python's
T = TypeVar("T", bound=Function)


def own_loop(function: T) -> T:
    """A function of Zenith's in Python code, converted."""
    assert isinstance(function, types.FunctionType)
    return cast(T, converted(function))


def lazily(iterable: Iterable[object], make: Callable[[object], object]) -> Iterable[object]:
    """``(make(item) for item in iterable)``."""
    turns = turns_of(iterable) if is_of_program(iterable) else None
    if turns is not None:
        return Turns(turns.count, lambda k: make(turns.item(k)), turns.lists)
    made = (make(item) for item in iterable)
    return NamedIterator(made) if isinstance(iterable, NamedIterator) else made


def is_of_program(items: object) -> TypeGuard[Turns | Tracer | GrowingList]:
    """Whether the program goes over a sequence: an array, a list that it stacks, what has turns."""
    return isinstance(items, Turns) or (isinstance(items, Tracer) and items.ndim > 0) or sized_list(items) is not None


def yields_traced(items: object) -> bool:
    """Whether a sequence of Python's has traced items, or makes them."""
    if isinstance(items, (list, tuple)):
        return any(isinstance(item, Tracer) for item in items)
    return isinstance(items, (Generator, NamedIterator))


def _length(items: Turns | Tracer | GrowingList) -> Integer:
    if isinstance(items, Turns):
        return items.count
    return items.size if isinstance(items, GrowingList) else items.shape[0]


def after_first(items: Items) -> Iterable[object]:
    """The items but the first one of a sequence of the program's, or of a list of Python's."""
    return items.after(1) if isinstance(items, Turns) else items[1:]


def first(items: Items) -> object:
    """The first item of a sequence of the program's, or of a list of Python's."""
    return items.item(0) if isinstance(items, Turns) else items[0]


def some(name: str) -> Function:
    """``any`` or ``all``."""
    plain = getattr(builtins, name)
    loop = _any if name == "any" else _all

    def holds(items: Iterable[object]) -> object:
        numbers = rows_of_numbers(items)
        if isinstance(numbers, Tracer) and numbers.ndim == 1:
            return python_number(getattr(numbers, name)())
        return own_loop(loop)(items) if is_of_program(items) or yields_traced(items) else plain(items)

    return holds


def next_of(function: Function, items: Iterable[object], make: Function, keep: Function, *default: object) -> object:
    """``next((make(item) for item in items if keep(item)), *default)``, if that name means Python's ``next``."""
    if function is not next or not (is_of_program(items) or yields_traced(items)):
        return function((make(item) for item in items if keep(item)), *default)
    return own_loop(_next_or if default else _next)(items, make, keep, *default)


def _next_or(items: Iterable[object], make: Function, keep: Function, default: object) -> object:
    for item in _each(items):
        if keep(item):
            return make(item)
    return default


def _next(items: Iterable[object], make: Function, keep: Function) -> object:
    for item in _each(items):
        if keep(item):
            return make(item)
    raise StopIteration


def _each(items: Iterable[object]) -> Iterable[object]:
    """A sequence that nobody else goes on with."""
    return items


def _any(items: Iterable[object]) -> bool:
    for item in _each(items):  # noqa: SIM110  a loop of the program
        if item:
            return True
    return False


def _all(items: Iterable[object]) -> bool:
    for item in _each(items):  # noqa: SIM110  a loop of the program
        if not item:
            return False
    return True


def best_by(name: str, items: Iterable[object], key: Function) -> object:
    """``min`` or ``max`` by a key: the first of the items with the smallest or largest one."""
    if not is_of_program(items):
        items = list(items)
    if not is_of_program(items) and not items:
        return getattr(builtins, name)(items, key=key)  # Python's error
    return own_loop(_best_by)(items, key, BETTER[name], name)


BETTER = {"min": operator.lt, "max": operator.gt}  # whether an item replaces the best one so far


def _best_by(items: Items, key: Function, better: Function, name: str) -> object:
    if length_of(items) == 0:
        raise ValueError(f"{name}() arg is an empty sequence")
    found = first(items)
    best = key(found)
    for item in after_first(items):
        value = key(item)
        if better(value, best):
            found, best = item, value
    return found


def length_of(items: Items) -> Integer:
    """How many items there are."""
    return _length(items) if is_of_program(items) else len(cast(Sized, items))


def listed_(*items: Iterable[object]) -> list[object]:
    """``list``."""
    return list_of(items[0]) if len(items) == 1 and is_of_program(items[0]) else list(*items)


def tolist(array: Tracer) -> object:
    """``ndarray.tolist`` of a vector or number: of Python's numbers."""
    if array.ndim > 1 or array.dtype.kind not in PYTHON_TYPES:
        return array.tolist()
    return array.item() if not array.ndim else own_loop(_items)(array)


def _items(array: Iterable[Tracer]) -> list[complex]:
    return [v.item() for v in array]


def called(function: Function, *items: object) -> object:
    """What a function gives, which is converted where this is."""
    return function(*items)


def mapped(function: Function, *iterables: Iterable[object]) -> Iterable[object]:
    """``map`` of Python's sequences."""
    return map(functools.partial(own_loop(called), function), *iterables)


def map_(function: Function, *iterables: Iterable[object]) -> Iterable[object]:
    """``map`` of one sequence of the program's: each result is computed when it is asked for."""
    of_program = len(iterables) == 1 and (is_of_program(iterables[0]) or yields_traced(iterables[0]))
    if not (of_program and _stacks()):
        return mapped(function, *iterables)
    return lazily(iterables[0], lambda item: own_loop(called)(function, item))


def filter_(function: Function | None, items: Iterable[object]) -> Iterable[object]:
    """``filter`` of a sequence of the program's, as the list of what it keeps."""
    if not (is_of_program(items) and _stacks()):
        return filter(function, items)
    return own_loop(_kept)(items) if function is None else own_loop(_filtered)(function, items)


def _stacks() -> bool:
    """Whether lists of the trace may be stacked."""
    recorder = current_recorder()
    return recorder is not None and recorder.lists is not None


def list_of(items: Iterable[object]) -> list[object]:
    """The list of a sequence of the program's items; those of a vector are stacked already."""
    if isinstance(items, Tracer) and items.ndim == 1 and _stacks():
        return list_of_rows(Rows((items.renewed(),), ItemForm.of(items.dtype.type(0))))
    return own_loop(_listed)(items)


def _listed(items: Iterable[object]) -> list[object]:
    return [item for item in items]  # noqa: C416  comprehensions are converted


def _filtered(function: Function, items: Iterable[object]) -> list[object]:
    return [item for item in items if function(item)]


def _kept(items: Iterable[object]) -> list[object]:
    return [item for item in items if item]


MAPPING: dict[object, Function] = {map: map_, filter: filter_}
