"""``sorted``, and the order of items that the program knows: by a stable sort of their keys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.convert.list_items import ItemForm, Rows, need_plain_lists
from zenith.convert.lists import GrowingList
from zenith.convert.lookups import item as item_at
from zenith.convert.sequences import called, is_of_program, list_of, own_loop, yields_traced
from zenith.convert.typing import Function
from zenith.convert.values import holds_traced
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.operators import python_number
from zenith.trace.tracer import Tracer


def sorted_(items: Iterable[object], /, *, key: Function | None = None, reverse: object = False) -> list[object]:
    """``sorted``: a list of the program's, in the order of its items or of keys; tuples item by item."""
    if not is_of_program(items):
        items = list(items)
        keys = items if key is None else [own_loop(called)(key, one) for one in items]
        known = keys if not yields_traced([leaf for k in keys for leaf in tree.flatten(k)[0]]) else _known_parts(keys)
        if known is keys or _differ(known):
            given: Iterator[Any] = iter(known)  # which are called in the order of the items
            return sorted(items, key=lambda _: next(given), reverse=bool(reverse))
        return _sorted_few(items, keys, reverse)
    found = list_of(items)
    if isinstance(found, GrowingList) and (found.rows is not None or found):
        return found.copied(_sorted_rows(found, key, reverse))
    return sorted_(found, key=key, reverse=reverse)


def _known_parts(keys: list[object]) -> list[tuple[object, ...]]:
    """Of keys that are tuples, the items before any that the program computes."""
    tuples = [key for key in keys if isinstance(key, tuple)]
    if len(tuples) < len(keys):
        return [()] * len(keys)
    traced = [[yields_traced(tree.flatten(part)[0]) for part in key] for key in tuples]
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


def _mapped(function: Function, items: Iterable[object]) -> list[object]:
    return [function(item) for item in items]
