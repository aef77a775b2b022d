"""Python's and NumPy's iterators over what has turns: ``range``, ``zip``, ``itertools`` and the like.

Each gives the turns of a loop where the program decides something about them, and else what the original one gives.
"""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from zenith.convert import lookups
from zenith.convert.turns import ENDLESS, NamedIterator, Turns, at_least_zero, range_of, turns_of
from zenith.convert.typing import Function, Integer
from zenith.errors import DTypeError, user_line
from zenith.ir.dims import minimum
from zenith.numpy.typing import ArrayLike
from zenith.trace.dispatch import Unsized
from zenith.trace.operators import python_number
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, UserSize, size_dim, user_size
from zenith.trace.tracer import Tracer

_Iterables: TypeAlias = "tuple[Iterable[object], ...]"

_FEW = 64  # combinations of Python's own numbers that stay Python's, so that loops over them are unrolled


def range_(*bounds: object) -> Turns | range:
    """``range``, whose bounds may be sizes and traced integers."""
    known = tuple(map(_bound, bounds))
    if not any(isinstance(bound, (Tracer, TracedSize)) for bound in known):
        return builtins.range(*cast("tuple[int, ...]", known))  # or its error
    start, stop, *rest = known if len(known) > 1 else (0, *known)
    return range_of(start, stop, *rest)


def _bound(bound: object) -> Integer:
    """A bound of a range: what is computed is a size where it is a formula of sizes and of the turns of loops."""
    bound = bound.array() if isinstance(bound, Unsized) else bound
    if isinstance(bound, TracedSize):
        return bound.of_python()
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


def _named_like(iterables: Sequence[object], made: Iterator[object]) -> Iterator[object] | NamedIterator:
    """What goes over some iterables; if one of them is an iterator with a name, an iterator of that kind."""
    return NamedIterator(made) if any(isinstance(i, NamedIterator) for i in iterables) else made


def enumerate_(iterable: object, start: Integer = 0) -> Iterable[object]:
    """``enumerate`` of what has turns."""
    turns = turns_of(iterable)
    if turns is None:
        return _named_like([iterable], builtins.enumerate(cast(Iterable[object], iterable), cast(int, start)))
    start = start.of_python() if isinstance(start, TracedSize) else start
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
    times = times.of_python() if isinstance(times, TracedSize) else times
    return Turns(at_least_zero(times), lambda k: object)


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
    turns = _grid([range_(n) for n in array.shape], few=-1)  # a shape may have a zero
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
