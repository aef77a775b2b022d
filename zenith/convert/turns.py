"""What a loop goes over, as a number of turns and the item of each: ranges, arrays, and what is made of them."""

from __future__ import annotations

import builtins
import gc
import itertools
import sys
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from dataclasses import dataclass
from types import GeneratorType
from typing import cast

import numpy as np

import zenith.numpy as znp
from zenith.convert.lists import GrowingList, sized_list
from zenith.convert.typing import Integer
from zenith.ir.dims import maximum
from zenith.numpy.typing import Array
from zenith.trace.dispatch import Unsized
from zenith.trace.operators import python_number
from zenith.trace.size_relations import VaryingSize
from zenith.trace.sizes import TracedSize, user_size
from zenith.trace.tracer import Tracer

ENDLESS = 2**62  # turns: more than there will ever be


@dataclass(frozen=True)
class Turns:
    """A sequence: its length (a size, or a number that the program computes) and its item at a position."""

    count: Integer
    item: Callable[[Integer], object]
    lists: tuple[GrowingList, ...] = ()  # whose items these are

    @property
    def is_computed(self) -> bool:
        """Whether the program computes the length."""
        return isinstance(self.count, Tracer)

    def __iter__(self) -> Iterator[object]:
        return (self.item(k) for k in builtins.range(int(self.count)))

    def after(self, first: int) -> Turns:
        """The turns without the first ones."""
        rest = self.count if self.count is ENDLESS else self.count - first
        return Turns(rest, lambda k: self.item(k + first))


class NamedIterator:
    """An iterator that has a name: others may go on with it where a loop leaves it."""

    def __init__(self, iterator: Iterator[object]) -> None:
        self.iterator = iterator

    def __iter__(self) -> Iterator[object]:
        return self.iterator


def is_endless(iterable: object) -> bool:
    """Whether nothing says that its items end."""
    if isinstance(iterable, Turns):
        return iterable.count is ENDLESS
    if isinstance(iterable, NamedIterator):
        return is_endless(iterable.iterator)
    if isinstance(iterable, GeneratorType):
        return iterable.gi_code is not GrowingList.__iter__.__code__
    return isinstance(iterable, _ENDLESS) or any(map(is_endless, _sources(iterable)))


def _sources(iterable: object) -> list[Iterator[object]]:
    """The iterators that one of Python's takes items from."""
    if not isinstance(iterable, Iterator):
        return []
    holders = [iterable, *(one for one in gc.get_referents(iterable) if isinstance(one, tuple))]
    return [one for holder in holders for one in gc.get_referents(holder) if isinstance(one, Iterator)]


def is_own(iterator: Iterator[object], iterable: object) -> bool:
    """Whether nothing else goes on with an iterator of an iterable, nor with one that it takes items from.

    Those of Python's containers are new ones; what else ``iter`` gives may be held, as ``iter(x)`` may be ``x``.
    """
    if isinstance(iterable, _CONTAINERS):
        return True
    return not (isinstance(iterable, NamedIterator) or type(iterator) in _OF_SEQUENCES or _takes_from_held(iterator))


def _takes_from_held(iterator: Iterator[object]) -> bool:
    if isinstance(iterator, GeneratorType):
        return False
    found = _sources(iterator)
    return any(sys.getrefcount(one) > _OWN_REFERENCES or _takes_from_held(one) for one in found)


_CONTAINERS = (list, tuple, range, str, dict, set, frozenset, KeysView, ValuesView, ItemsView)
_OF_SEQUENCES = tuple(map(type, (iter([]), iter(()), iter(range(0)), iter(""), iter({}), iter(set()))))
_ENDLESS = (itertools.count, itertools.cycle, itertools.repeat, type(iter(int, 1)))
_OWN_REFERENCES = 4  # to an iterator within another one: its own, and those of the list and loop that count


def turns_of(iterable: object) -> Turns | None:
    """What is iterated as turns; None for Python's other objects."""
    if isinstance(iterable, Turns):
        return iterable
    if isinstance(iterable, Unsized):
        return turns_of(iterable.array())
    if isinstance(iterable, builtins.range):
        return range_of(iterable.start, iterable.stop, iterable.step)
    if isinstance(iterable, Tracer) and iterable.ndim:
        return Turns(iterable.shape[0], iterable.__getitem__)
    stacked = sized_list(iterable)
    return None if stacked is None else Turns(stacked.size, stacked.__getitem__, (stacked,))


def range_of(start: Integer, stop: Integer, step: Integer = 1) -> Turns:
    """The turns of a range."""
    if isinstance(step, Tracer):
        return _range_of_steps(start, stop, step)
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    distance = stop - start if step > 0 else start - stop
    size = abs(step)
    count = distance if size == 1 else (distance + (size - 1)) // size
    plain = type(start) is int and start == 0 and step == 1
    return Turns(at_least_zero(count), (lambda k: k) if plain else lambda k: start + k * step)


def _range_of_steps(start: Integer, stop: Integer, step: Array) -> Turns:
    """A range whose step the program computes, of either sign; a step of 0 is an index out of bounds."""
    step = step * znp.ones(1, np.int64)[znp.where(step == 0, 1, 0)]
    count = -((start - stop) // step)  # rounded up
    return Turns(at_least_zero(cast(Tracer, count)), lambda k: start + k * step)


def at_least_zero(count: Integer) -> Integer:
    """How many turns there are, by a number that may be negative."""
    if isinstance(count, Tracer):
        return python_number(cast(Tracer, np.maximum(count, 0)))
    if isinstance(count, TracedSize) and count.recorder.varies(count.dim):
        try:
            return count if count.asked.holds(count.dim, ">=", 0) else 0
        except VaryingSize:
            return user_size(maximum(count.dim, 0), count.recorder)
    return count if count > 0 else 0
