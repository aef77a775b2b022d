"""What a loop goes over, as a number of turns and the item of each: ranges, arrays, and what is made of them."""

from __future__ import annotations

import builtins
import functools
import gc
import itertools
import math
import operator
import sys
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from dataclasses import dataclass
from types import GeneratorType
from typing import Any, TypeAlias, cast

import numpy as np

import zenith.numpy as znp
from zenith.convert import lookups
from zenith.convert.lists import GrowingList, sized_list
from zenith.convert.typing import Function, Integer
from zenith.errors import DTypeError, user_line
from zenith.ir.dims import maximum, minimum
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.dispatch import Unsized
from zenith.trace.operators import python_number
from zenith.trace.recorder import current_recorder
from zenith.trace.size_relations import VaryingSize
from zenith.trace.sizes import TracedSize, UserSize, size_dim, user_size
from zenith.trace.tracer import Tracer

_Iterables: TypeAlias = "tuple[Iterable[object], ...]"

ENDLESS = 2**62  # turns: more than there will ever be
_FEW = 64  # combinations of Python's own numbers that stay Python's, so that loops over them are unrolled


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


def _named_like(iterables: Sequence[object], made: Iterator[object]) -> Iterator[object] | NamedIterator:
    """What goes over some iterables; if one of them is an iterator with a name, an iterator of that kind."""
    return NamedIterator(made) if any(isinstance(i, NamedIterator) for i in iterables) else made


def turns_of(iterable: object) -> Turns | None:
    """What is iterated as turns; None for Python's other objects."""
    if isinstance(iterable, Turns):
        return iterable
    if isinstance(iterable, Unsized):
        return turns_of(iterable.array())
    if isinstance(iterable, builtins.range):
        return _range(iterable.start, iterable.stop, iterable.step)
    if isinstance(iterable, Tracer) and iterable.ndim:
        return Turns(iterable.shape[0], iterable.__getitem__)
    stacked = sized_list(iterable)
    return None if stacked is None else Turns(stacked.size, stacked.__getitem__, (stacked,))


def _range(start: Integer, stop: Integer, step: Integer = 1) -> Turns:
    if isinstance(step, Tracer):
        return _range_of_steps(start, stop, step)
    if step == 0:
        raise ValueError("range() arg 3 must not be zero")
    distance = stop - start if step > 0 else start - stop
    size = abs(step)
    count = distance if size == 1 else (distance + (size - 1)) // size
    plain = type(start) is int and start == 0 and step == 1
    return Turns(_at_least_zero(count), (lambda k: k) if plain else lambda k: start + k * step)


def _range_of_steps(start: Integer, stop: Integer, step: Array) -> Turns:
    """A range whose step the program computes, of either sign; a step of 0 is an index out of bounds."""
    step = step * znp.ones(1, np.int64)[znp.where(step == 0, 1, 0)]
    count = -((start - stop) // step)  # rounded up
    return Turns(_at_least_zero(cast(Tracer, count)), lambda k: start + k * step)


def _at_least_zero(count: Integer) -> Integer:
    if isinstance(count, Tracer):
        return python_number(cast(Tracer, np.maximum(count, 0)))
    if isinstance(count, TracedSize) and count.recorder.varies(count.dim):
        try:
            return count if count.asked.holds(count.dim, ">=", 0) else 0
        except VaryingSize:
            return user_size(maximum(count.dim, 0), count.recorder)
    return count if count > 0 else 0


def range_(*bounds: object) -> Turns | range:
    """``range``, whose bounds may be sizes and traced integers."""
    known = tuple(map(_bound, bounds))
    if not any(isinstance(bound, (Tracer, TracedSize)) for bound in known):
        return builtins.range(*cast("tuple[int, ...]", known))  # or its error
    start, stop, *rest = known if len(known) > 1 else (0, *known)
    return _range(start, stop, *rest)


def _bound(bound: object) -> Integer:
    """A bound of a range: what is computed is a size where it is a formula of sizes and of the turns of loops."""
    bound = bound.array() if isinstance(bound, Unsized) else bound
    if not isinstance(bound, Tracer):
        return int(bound) if isinstance(bound, np.integer) else cast(UserSize, bound)
    if bound.ndim or bound.dtype.kind not in "iub":
        raise DTypeError("the bounds of a range must be integers", where=user_line(), types=(bound.type,),
                         fix="cast them: int(n)")  # fmt: skip
    size = bound.size_of()
    if size is not None:
        return user_size(size, current_recorder())
    is_python = bound.weak and bound.dtype == np.int64
    return bound if is_python else python_number(bound.astype(np.int64).renewed())


def enumerate_(iterable: object, start: Integer = 0) -> Iterable[object]:
    """``enumerate`` of what has turns."""
    turns = turns_of(iterable)
    if turns is None:
        return _named_like([iterable], builtins.enumerate(cast(Iterable[object], iterable), cast(int, start)))
    plain = type(start) is int and start == 0
    return Turns(turns.count, lambda k: (k if plain else k + start, turns.item(k)), turns.lists)


def zip_(*iterables: object, strict: bool = False) -> Iterable[object]:
    """``zip`` of what has turns."""
    found = [turns_of(i) for i in iterables]
    if not found or any(t is None or t.is_computed for t in found):
        return _named_like(iterables, builtins.zip(*cast(_Iterables, iterables), strict=strict))
    every = [t for t in found if t is not None]
    count = every[0].count
    for turns in every[1:]:
        if strict and not turns.count == count:
            raise ValueError("zip() arguments have different lengths")
        count = _shorter(count, turns.count)
    return Turns(count, lambda k: tuple(t.item(k) for t in every), tuple(one for t in every for one in t.lists))


def _shorter(one: Integer, other: Integer) -> Integer:
    """The smaller of two lengths."""
    found = other < one
    if not isinstance(found, Tracer):
        return other if found else one
    return user_size(minimum(size_dim(one), size_dim(other)), current_recorder())


def reversed_(iterable: object) -> Iterable[object]:
    """``reversed`` of what has turns."""
    turns = turns_of(iterable)
    if turns is None or turns.count is ENDLESS:
        return builtins.reversed(cast(Sequence[object], iterable))  # of what is endless Python's error
    return Turns(turns.count, lambda k: turns.item(turns.count - 1 - k))


def count_(start: Integer = 0, step: Integer = 1) -> Iterable[object]:
    """``itertools.count`` of integers, which ends where an int64 would: a loop that values leave is the program's."""
    if current_recorder() is None or not all(isinstance(n, int | TracedSize) for n in (start, step)):
        return itertools.count(cast(int, start), cast(int, step))
    return Turns(ENDLESS, lambda k: start + k * step)


def repeat_(object: object, times: Integer = ENDLESS) -> Iterable[object]:
    """``itertools.repeat``."""
    if current_recorder() is None or not isinstance(times, (int, TracedSize, Tracer)):
        return itertools.repeat(object, cast(int, times))
    return Turns(_at_least_zero(times), lambda k: object)


def cycle_(iterable: Iterable[object]) -> Iterable[object]:
    """``itertools.cycle`` of what has turns, and of Python's lists and tuples."""
    turns = turns_of(_read_once(iterable))
    if turns is None and isinstance(iterable, list | tuple):
        items = tuple(iterable)
        turns = Turns(len(items), lambda k: lookups.item(items, k))
    if turns is None or turns.is_computed or current_recorder() is None:
        return itertools.cycle(iterable)
    every = turns
    return Turns(ENDLESS if every.count != 0 else 0, lambda k: every.item(k % every.count))


# --- several counters in one loop ----------------------------------------------------------------------------------


def ndindex_(*shape: object) -> Iterable[object]:
    """``numpy.ndindex``: the indices of a shape, row by row."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return _grid([range_(n) for n in sizes]) or np.ndindex(*cast("tuple[int, ...]", shape))


def ndenumerate_(array: ArrayLike) -> Iterable[object]:
    """``numpy.ndenumerate``: the indices of a traced array, each with its element."""
    if not isinstance(array, Tracer) or not array.ndim:
        return np.ndenumerate(array)
    turns = _grid([range_(n) for n in array.shape], few=0)
    assert turns is not None
    index = turns.item
    return Turns(turns.count, lambda k: (index(k), array[index(k)]))


def product_(*iterables: object, repeat: int = 1) -> Iterable[object]:
    """``itertools.product`` of what has turns."""
    return _grid(iterables * repeat) or itertools.product(*cast(_Iterables, iterables), repeat=repeat)


def _grid(iterables: Sequence[object], few: int = _FEW) -> Turns | None:
    """All combinations of items, the last of which change fastest; None for Python's objects and for few numbers."""
    found = [turns_of(_read_once(i)) for i in iterables]
    every = [t for t in found if t is not None and not t.is_computed]
    if not every or len(every) < len(found) or current_recorder() is None:
        return None
    counts = [t.count for t in every]
    known = [n for n in counts if type(n) is int]
    if len(known) == len(counts) and math.prod(known) <= few:
        return None

    def item(k: Integer) -> tuple[object, ...]:
        places = []
        for n in reversed(counts[1:]):
            k, place = k // n, k % n
            places.append(place)
        return tuple(t.item(place) for t, place in zip(every, (k, *reversed(places)), strict=True))

    return Turns(functools.reduce(operator.mul, counts), item)


def _read_once(iterable: object) -> object:
    """What itertools goes over: it reads all items first, and those of a row are numbers."""
    iterable = iterable.array() if isinstance(iterable, Unsized) else iterable
    return iterable.copy() if isinstance(iterable, Tracer) and iterable.ndim == 1 else iterable


def combinations_(iterable: Iterable[object], r: int) -> Iterable[object]:
    """``itertools.combinations`` of what has turns: its pairs."""
    turns = turns_of(_read_once(iterable))
    if turns is None or turns.is_computed or type(turns.count) is int or r != 2:
        return itertools.combinations(iterable, r)
    n: Any = turns.count  # whose operators also take floats

    def item(k: Any) -> tuple[object, object]:
        root = np.sqrt((2.0 * n - 1.0) ** 2 - 8.0 * k)  # exact where it is whole
        first = python_number(np.floor(0.5 * (2.0 * n - 1.0 - root)).astype(np.int64))
        return turns.item(first), turns.item(k - first * (2 * n - first - 3) // 2 + 1)

    return Turns(n * (n - 1) // 2, item)


ITERATORS: dict[object, Function] = {
    range: range_, enumerate: enumerate_, zip: zip_, reversed: reversed_,
    itertools.count: count_, itertools.repeat: repeat_, itertools.cycle: cycle_,
    itertools.product: product_, itertools.combinations: combinations_,
    np.ndindex: ndindex_, np.ndenumerate: ndenumerate_,
}  # fmt: skip
