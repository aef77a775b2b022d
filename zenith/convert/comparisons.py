"""Comparisons of tuples and lists that hold values of the program: by the first items that differ, as Python's."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zenith.convert.conditions import as_truth, truth
from zenith.convert.expressions import choose
from zenith.convert.lists import GrowingList, sized_list
from zenith.convert.values import holds_traced
from zenith.trace.operators import python_number

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge,
}  # fmt: skip


def compared(name: str, left: Any, right: Any) -> Any:
    """``left < right`` and its like, by the name that :mod:`ast` has for the operator."""
    if not (_are_sequences(left, right) and (holds_traced(left) or holds_traced(right))):
        return _OPERATORS[name](left, right)
    if name == "Eq":
        return _are_equal(left, right)
    if name == "NotEq":
        equal = _are_equal(left, right)
        return not equal if isinstance(equal, bool) else python_number(np.logical_not(equal))
    return _by_first_difference(name, left, right)


def best_of(name: str, items: Sequence[Any]) -> Any:
    """``max`` or ``min`` of tuples: the first of those that are best."""
    found, *others = items
    for other in others:
        found = choose(compared("Gt" if name == "max" else "Lt", other, found), _always(other), _always(found))
    return found


def are_compared(items: Sequence[Any]) -> bool:
    """Whether all items are tuples or lists, of which one holds values of the program."""
    pairs = itertools.pairwise(items)
    return len(items) > 1 and all(_are_sequences(*pair) for pair in pairs) and any(map(holds_traced, items))


def _are_sequences(left: Any, right: Any) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return all(type(side).__eq__ is tuple.__eq__ and type(side).__lt__ is tuple.__lt__ for side in (left, right))
    return all(type(side) in (list, GrowingList) and sized_list(side) is None for side in (left, right))


def _are_equal(left: Sequence[Any], right: Sequence[Any]) -> Any:
    if len(left) != len(right):
        return False
    found: Any = True
    for one, other in zip(left, right, strict=True):
        equal = one is other or as_truth(compared("Eq", one, other))
        if equal is False:
            return False
        found = equal if found is True else found if equal is True else np.logical_and(found, equal)
    return found if isinstance(found, bool) else python_number(found)


def _by_first_difference(name: str, left: Sequence[Any], right: Sequence[Any]) -> Any:
    if not (left and right):
        return _OPERATORS[name](len(left), len(right))
    equal = left[0] is right[0] or compared("Eq", left[0], right[0])
    known = truth(equal)
    if known:
        return _by_first_difference(name, left[1:], right[1:])
    differing = as_truth(compared(name, left[0], right[0]))
    if known is False:
        return differing
    further = as_truth(_by_first_difference(name, left[1:], right[1:]))
    both = np.logical_and(equal, further), np.logical_and(np.logical_not(equal), differing)
    return python_number(np.logical_or(*both))


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value
