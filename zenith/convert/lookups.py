"""Items of Python's lists, tuples and dicts by numbers of the program: ``table[k % 4]``, ``costs[kind]``.

All items are one value with another number in it, so that those numbers are stacked, and one is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeGuard, cast

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.convert.list_items import show
from zenith.convert.lists import GrowingList, stacked_rows
from zenith.convert.optional import value_of
from zenith.convert.python_list import CHANGES
from zenith.convert.values import Opened, common, open_value
from zenith.errors import TraceError, user_line
from zenith.ir.types import ArrayType
from zenith.trace.bind import b
from zenith.trace.memory import LISTED, NUMBER
from zenith.trace.tracer import Tracer


class ChosenList(list[object]):
    """A list that values have chosen among others: it cannot change, since it is none of them."""

    __slots__ = ()


def _refuse(self: ChosenList, *args: object, **kwargs: object) -> NoReturn:
    raise TraceError("a list changes that values choose among others", where=user_line(),
                     fix="use an array with an axis more, and index it with both numbers")  # fmt: skip


for _name in ("append", "extend", "__setitem__", *CHANGES):
    setattr(ChosenList, _name, _refuse)
tree.register_node(ChosenList, lambda found: (list(found), None), lambda _, items: list(items))


def item(value: Any, index: object) -> object:
    """``value[index]``."""
    index = index_of(index)
    if type(value) in (list, tuple, ChosenList) and value and _is_integer(index):
        items = list(value)
    elif type(value) is dict and value and _is_integer(index) and all(type(k) is int for k in value):
        items, index = list(value.values()), _position(list(value), index)
    else:
        return value[index]
    found = _taken(items, index)
    return value[index] if found is None else found[0]


def index_of(index: object) -> object:
    """An index, of which lists of the program's are arrays."""
    if type(index) is tuple:
        return tuple(map(index_of, index))
    return stacked_rows(value_of(index)) if isinstance(index, GrowingList) else value_of(index)


def _is_integer(index: object) -> TypeGuard[Tracer]:
    return isinstance(index, Tracer) and not index.ndim and index.dtype.kind in "iub"


def _position(keys: Sequence[int], key: Tracer) -> Tracer:
    """Where a key of a dict is; an error of the program where it has none."""
    equal = np.equal(znp.array(keys), key)
    at = np.argmax(equal).astype(np.int64)
    return b.error_if(at, np.logical_not(np.any(equal)), why="a dict has no such key")


def _taken(items: Sequence[object], index: Tracer) -> tuple[object] | None:
    """The item with a number, in a tuple; None where they are not one value but for numbers and arrays."""
    if not all(map(_is_plain, items)):
        return None
    opened = [open_value("item", value) for value in items]
    if not opened[0].arrays or not all(opened[0].alike(other) for other in opened[1:]):
        return None
    found = [_chosen(opened, k, index) for k in range(len(opened[0].leaves))]
    known = [one[0] for one in found if one is not None]
    return (_unchanging(opened[0].closed(known)),) if len(known) == len(found) else None


def _is_plain(value: object) -> bool:
    """Whether nothing but arrays in a value, and lists, could change."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return tree.is_leaf(value)


def _unchanging(value: object) -> object:
    if type(value) is list:
        return ChosenList(map(_unchanging, value))
    return tuple(map(_unchanging, value)) if type(value) is tuple else value


def _chosen(opened: Sequence[Opened], k: int, index: Tracer) -> tuple[object] | None:
    """Number or array ``k`` of the item with a number, in a tuple; None where those of all have no common type.

    An array cannot be written, as it is none of the items themselves.
    """
    leaves = [o.leaves[k] for o in opened]
    if any(type(leaf) is int and not -(2**63) <= leaf < 2**63 for leaf in leaves):
        return None
    met = common("item", [(o.types[k], o.weak[k]) for o in opened])
    if met is None:
        return None
    found = _stacked(leaves, met[0])[index].renewed()
    found.weak = met[1]
    if found.memory.access != NUMBER:
        found.memory.access = LISTED
    for leaf in leaves:
        show(found, leaf)
    return (found,)


def _stacked(leaves: Sequence[object], type: ArrayType) -> Tracer:
    if not any(isinstance(leaf, Tracer) for leaf in leaves):
        return cast(Tracer, znp.array(np.array(leaves, type.dtype.numpy)))
    return cast(Tracer, znp.stack([znp.asarray(leaf, dtype=type.dtype.numpy) for leaf in leaves]))
