"""Python's functions of sequences whose items or length the program decides.

``any``, ``all``, ``sorted``, ``map``, ``filter``, ``list``, and ``min`` and ``max`` by a key, are written in Python and
converted as the user's code is: loops of the program.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import operator
import types
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.convert.converted import converted
from zenith.convert.list_items import ItemForm, Rows, need_plain_lists
from zenith.convert.lists import GrowingList, list_of_rows, rows_of_numbers, sized_list
from zenith.convert.lookups import item as item_at
from zenith.convert.turns import NamedIterator, Turns, turns_of
from zenith.convert.typing import Function, Integer
from zenith.convert.values import holds_traced
from zenith.numpy.typing import Array, ArrayLike
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
    turns = turns_of(iterable) if _is_of_program(iterable) else None
    if turns is not None:
        return Turns(turns.count, lambda k: make(turns.item(k)), turns.lists)
    made = (make(item) for item in iterable)
    return NamedIterator(made) if isinstance(iterable, NamedIterator) else made


def _is_of_program(items: object) -> TypeGuard[Turns | Tracer | GrowingList]:
    """Whether the program goes over a sequence: an array, a list that it stacks, what has turns."""
    return isinstance(items, Turns) or (isinstance(items, Tracer) and items.ndim > 0) or sized_list(items) is not None


def _yields_traced(items: object) -> bool:
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
        return own_loop(loop)(items) if _is_of_program(items) or _yields_traced(items) else plain(items)

    return holds


def next_of(function: Function, items: Iterable[object], make: Function, keep: Function, *default: object) -> object:
    """``next((make(item) for item in items if keep(item)), *default)``, if that name means Python's ``next``."""
    if function is not next or not (_is_of_program(items) or _yields_traced(items)):
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
    if not _is_of_program(items):
        items = list(items)
    if not _is_of_program(items) and not items:
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
    return _length(items) if _is_of_program(items) else len(cast(Sized, items))


def sorted_(items: Iterable[object], /, *, key: Function | None = None, reverse: object = False) -> list[object]:
    """``sorted``: a list of the program's, in the order of its items or of keys; tuples item by item."""
    if not _is_of_program(items):
        items = list(items)
        keys = items if key is None else [own_loop(_called)(key, one) for one in items]
        known = keys if not _yields_traced([leaf for k in keys for leaf in tree.flatten(k)[0]]) else _known_parts(keys)
        if known is keys or _differ(known):
            given: Iterator[Any] = iter(known)  # which are called in the order of the items
            return sorted(items, key=lambda _: next(given), reverse=bool(reverse))
        return _sorted_few(items, keys, reverse)
    found = _list_of(items)
    if isinstance(found, GrowingList) and (found.rows is not None or found):
        return found.copied(_sorted_rows(found, key, reverse))
    return sorted_(found, key=key, reverse=reverse)


def _known_parts(keys: list[object]) -> list[tuple[object, ...]]:
    """Of keys that are tuples, the items before any that the program computes."""
    tuples = [key for key in keys if isinstance(key, tuple)]
    if len(tuples) < len(keys):
        return [()] * len(keys)
    traced = [[_yields_traced(tree.flatten(part)[0]) for part in key] for key in tuples]
    known = min(*(len(key) for key in tuples), *([*of_key, True].index(True) for of_key in traced))
    return [key[:known] for key in tuples]


def _differ(keys: Sequence[object]) -> bool:
    """Whether no two keys are equal."""
    if not holds_traced(keys):  # the hash of a size would fix it
        with contextlib.suppress(TypeError):  # of what has no hash, such as a list
            return len(set(keys)) == len(keys)
    return not any(a == b for k, a in enumerate(keys) for b in keys[:k])


def sort(items: GrowingList, /, **how: Any) -> None:
    """``list.sort`` of a list of the program's."""
    if items.rows is None or items.frozen:
        items.sort(**how)
    else:
        items.reorder(_sorted_rows(items, how.get("key"), how.get("reverse", False)))


def first_of_sorted(items: GrowingList, reverse: bool) -> object:
    """The smallest or largest of a list of the program's, whose items are tuples."""
    return items.copied(_sorted_rows(items, None, reverse))[0]


def _sorted_rows(items: GrowingList, key: Function | None, reverse: object) -> Rows:
    rows = _rows(items)
    keys = rows if key is None else _rows(own_loop(_mapped)(key, items))
    return rows.taken(_order(keys, reverse))


def _sorted_few(items: list[object], keys: list[object], reverse: object) -> list[object]:
    """A list of Python's, of numbers of the program or tuples of them, in the order of keys."""
    order = _ranks(tuple(_columns(keys)), reverse)
    if any(getattr(leaf, "ndim", 0) for of_items in map(tree.flatten, items) for leaf in of_items[0]):
        return [item_at(items, order[k]) for k in range(len(items))]
    columns = [znp.take(column, order) for column in _columns(items)]
    pythons = [all(map(_is_pythons, column)) for column in _leaves(items)]
    treedef = tree.flatten(items[0])[1]
    return [
        tree.unflatten(
            treedef,
            [
                python_number(column[k]) if is_pythons else column[k]
                for is_pythons, column in zip(pythons, columns, strict=True)
            ],
        )
        for k in range(len(items))
    ]


def _is_pythons(number: object) -> bool:
    return number.weak if isinstance(number, Tracer) else type(number) in (bool, int, float, complex)


def _leaves(items: Iterable[object]) -> list[tuple[ArrayLike, ...]]:
    """For each number in an item that of all items."""
    return list(zip(*(tree.flatten(item)[0] for item in items), strict=True))


def _columns(items: Iterable[object]) -> list[Array]:
    """For each number in an item an array of those of all items."""
    return [znp.stack([znp.asarray(leaf) for leaf in column]) for column in _leaves(items)]


def _called(function: Function, *items: object) -> object:
    return function(*items)


def _rows(items: object) -> Rows:
    """The items of a list stacked; PlainListsNeeded where they have to be Python's."""
    if isinstance(items, GrowingList) and items.rows is None and items:
        items.stack(ItemForm.of(items[0]))
    if not isinstance(items, GrowingList) or items.rows is None:
        need_plain_lists()
    return items.rows


def _order(keys: Rows, reverse: object) -> Array:
    """The numbers of the items in order, equal ones as they were; ``keys`` are numbers, or tuples of them."""
    if any(array.ndim != 1 for array in keys.arrays):
        need_plain_lists()
    return _ranks(keys.arrays, reverse)


def _ranks(columns: Sequence[Array], reverse: object) -> Array:
    """The numbers of rows in order, by the first column, then the second one."""
    if reverse:
        columns = tuple(column[::-1] for column in columns)
    order = np.lexsort(columns[::-1]) if len(columns) > 1 else np.argsort(columns[0], kind="stable")
    return order.shape[0] - 1 - order[::-1] if reverse else order


def listed_(*items: Iterable[object]) -> list[object]:
    """``list``."""
    return _list_of(items[0]) if len(items) == 1 and _is_of_program(items[0]) else list(*items)


def tolist(array: Tracer) -> object:
    """``ndarray.tolist`` of a vector or number: of Python's numbers."""
    kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}.get(array.dtype.kind)
    if array.ndim > 1 or kind is None:
        return array.tolist()
    return array.item() if not array.ndim else own_loop(_items)(array)


def _items(array: Iterable[Tracer]) -> list[complex]:
    return [v.item() for v in array]


def mapped(function: Function, *iterables: Iterable[object]) -> Iterable[object]:
    """``map`` of Python's sequences."""
    return map(functools.partial(own_loop(_called), function), *iterables)


def map_(function: Function, *iterables: Iterable[object]) -> Iterable[object]:
    """``map`` of one sequence of the program's: each result is computed when it is asked for."""
    of_program = len(iterables) == 1 and (_is_of_program(iterables[0]) or _yields_traced(iterables[0]))
    if not (of_program and _stacks()):
        return mapped(function, *iterables)
    return lazily(iterables[0], lambda item: own_loop(_called)(function, item))


def filter_(function: Function | None, items: Iterable[object]) -> Iterable[object]:
    """``filter`` of a sequence of the program's, as the list of what it keeps."""
    if not (_is_of_program(items) and _stacks()):
        return filter(function, items)
    return own_loop(_kept)(items) if function is None else own_loop(_filtered)(function, items)


def _stacks() -> bool:
    """Whether lists of the trace may be stacked."""
    recorder = current_recorder()
    return recorder is not None and recorder.lists is not None


def _list_of(items: Iterable[object]) -> list[object]:
    """The list of a sequence of the program's items; those of a vector are stacked already."""
    if isinstance(items, Tracer) and items.ndim == 1 and _stacks():
        return list_of_rows(Rows((items.renewed(),), ItemForm.of(items.dtype.type(0))))
    return own_loop(_listed)(items)


def _listed(items: Iterable[object]) -> list[object]:
    return [item for item in items]  # noqa: C416  comprehensions are converted


def _mapped(function: Function, items: Iterable[object]) -> list[object]:
    return [function(item) for item in items]


def _filtered(function: Function, items: Iterable[object]) -> list[object]:
    return [item for item in items if function(item)]


def _kept(items: Iterable[object]) -> list[object]:
    return [item for item in items if item]


MAPPING: dict[object, Function] = {map: map_, filter: filter_}
