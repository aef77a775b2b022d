"""Comparisons of tuples and lists that hold values of the program: by the first items that differ, as Python's."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import numpy as np

from zenith.convert.conditions import as_truth, truth
from zenith.convert.expressions import choose
from zenith.convert.lists import GrowingList, sized_list
from zenith.convert.typing import Function
from zenith.convert.values import holds_traced, negated
from zenith.trace.operators import python_number
from zenith.trace.tracer import Tracer

T = TypeVar("T")

_OPERATORS: dict[str, Function] = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt,
    "GtE": operator.ge,
}  # fmt: skip


def compared(name: str, left: object, right: object) -> object:
    """``left < right`` and its like, by the name that :mod:`ast` has for the operator."""
    pair = _sequences(left, right)
    if pair is None or not (holds_traced(left) or holds_traced(right)):
        return _OPERATORS[name](left, right)
    if name == "Eq":
        return _are_equal(*pair)
    if name == "NotEq":
        equal = _are_equal(*pair)
        return not equal if isinstance(equal, bool) else negated(equal)
    return _by_first_difference(name, *pair)


def best_of(name: str, items: Sequence[object]) -> object:
    """``max`` or ``min`` of tuples: the first of those that are best."""
    found, *others = items
    for other in others:
        found = choose(compared("Gt" if name == "max" else "Lt", other, found), _always(other), _always(found))
    return found


def are_compared(items: Sequence[object]) -> bool:
    """Whether all items are tuples or lists, of which one holds values of the program."""
    pairs = itertools.pairwise(items)
    return len(items) > 1 and all(_sequences(*pair) is not None for pair in pairs) and any(map(holds_traced, items))


def _sequences(left: object, right: object) -> tuple[Sequence[object], Sequence[object]] | None:
    """Both sides, where they are tuples or lists that Python compares item by item; None for others."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        plain = all(type(side).__eq__ is tuple.__eq__ and type(side).__lt__ is tuple.__lt__ for side in (left, right))
        return (left, right) if plain else None
    if not (isinstance(left, list) and isinstance(right, list)):
        return None
    plain = all(type(side) in (list, GrowingList) and sized_list(side) is None for side in (left, right))
    return (left, right) if plain else None


def _are_equal(left: Sequence[object], right: Sequence[object]) -> bool | Tracer:
    if len(left) != len(right):
        return False
    found: bool | Tracer = True
    for one, other in zip(left, right, strict=True):
        equal = one is other or as_truth(compared("Eq", one, other))
        if equal is False:
            return False
        both = equal if found is True else found if equal is True else np.logical_and(found, equal)
        found = cast("bool | Tracer", both)
    return found if isinstance(found, bool) else python_number(found)


def _by_first_difference(name: str, left: Sequence[object], right: Sequence[object]) -> object:
    undecided: list[tuple[Tracer, bool | Tracer]] = []  # whether items in front are equal, and what they decide else
    found: object = _OPERATORS[name](len(left), len(right))  # where all pairs are equal
    for one, other in zip(left, right, strict=False):
        equal = one is other or compared("Eq", one, other)
        known = truth(equal)
        if known:
            continue
        differing = as_truth(compared(name, one, other))
        if known is False:
            found = differing
            break
        undecided.append((cast(Tracer, equal), differing))
    for equal, differing in reversed(undecided):
        both = np.logical_and(equal, as_truth(found)), np.logical_and(np.logical_not(equal), differing)
        found = python_number(np.logical_or(*both))
    return found


def _always(value: T) -> Callable[[], T]:
    return lambda: value
