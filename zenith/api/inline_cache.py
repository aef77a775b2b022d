"""The inline cache of a function: native code that answers calls like the one before."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zenith import tree
from zenith.arrays import NUMPY
from zenith.backends.backend import CacheableCall, CachedCall

if TYPE_CHECKING:
    from zenith.api.programs import Specialization

FIRST, LATER = 4, 32  # equal calls before one is cached: making a cached call takes as long as some 30 others
MOST = 4  # cached calls of a function
WATCHED = 16  # different calls of which is known how often they came


def cached_call(program: Specialization, leaves: Sequence[object], sizes: Mapping[str, int]) -> CachedCall | None:
    """What answers calls of a program with positional arguments like these leaves; None where nothing can."""
    make, result, results, writes = program.where.inline_cache, program.origin.result, program.results, program.writes
    is_native = not result.converts if results is NUMPY else results.exchange is not None
    computed = program.computed
    varying = {} if computed is None else computed.axes()
    if make is None or not is_native or varying is None or program.raised:
        return None
    counts = range(computed.first, computed.first + len(computed.numbers)) if computed is not None else range(0)
    if counts and (results is not NUMPY or writes is not None):
        return None
    size_numbers = [position for position, _ in program.binding.numbers]
    written, returned = (writes.written, writes.returned) if writes is not None else ({}, {})
    nested = result.nested()
    items, treedef = tree.flatten(nested)
    if not all(isinstance(item, tree.Leaf) and item == tree.Leaf(i) for i, item in enumerate(items)):
        return None  # there are values that were computed while it was traced, or sizes
    if len(items) + len(written) + len(counts) != len(program.origin.graph.outputs):
        return None  # there are others, such as buffers of a module, that the builder of results writes
    numbers, of_python = (result.numbers, result.of_python) if results is NUMPY else ((), ())
    is_one = nested is None or isinstance(nested, tree.Leaf)
    is_tuple = type(nested) is tuple and nested == tuple(items)  # of the results themselves, and no named one
    finish = None if is_one or is_tuple else partial(tree.unflatten, treedef)
    call = CacheableCall(
        leaves, results, sizes, size_numbers, numbers, of_python, written, returned, not is_one, finish, varying,
        counts,
    )  # fmt: skip
    return make(program.executable, call)


class _Entry(NamedTuple):
    """A cached call, by the program and the sizes that it is for."""

    call: CachedCall
    program: Specialization
    sizes: Mapping[str, int]


class InlineCache:
    """Cached calls of a function: ``function`` answers those like the one that was cached last, or is None.

    ``others`` answer calls like earlier ones (polymorphic inline caches: Hoelzle, Chambers and Ungar, ECOOP 1991). What
    is cached are calls that come again and again; those that keep changing are left alone.
    """

    def __init__(self) -> None:
        self.function: Callable[..., object] | None = None
        self.others: tuple[Callable[..., object], ...] = ()
        self.is_due = False  # whether the call that was seen last shall be cached
        self._entries: tuple[_Entry, ...] = ()
        self._before = 0  # calls that earlier entries have answered
        self._needed = FIRST
        self._seen: dict[tuple[int, ...], int] = {}

    @property
    def hits(self) -> int:
        """How many calls have been answered."""
        return self._before + sum(entry.call.hits() for entry in self._entries)

    @property
    def programs(self) -> list[Specialization]:
        """The programs of cached calls."""
        return [entry.program for entry in self._entries]

    def see(self, program: Specialization, sizes: Mapping[str, int]) -> None:
        """Note a call that was looked up. One that is cached has met another thread's, or its arrays are unlike."""
        self.is_due = False
        if any(entry.program is program and entry.sizes == sizes for entry in self._entries):
            return
        key = (id(program), *sizes.values())
        if key not in self._seen and len(self._seen) >= WATCHED:
            self._seen.clear()
        count = self._seen[key] = self._seen.get(key, 0) + 1
        self.is_due = count == self._needed

    def take(self, call: CachedCall, program: Specialization, sizes: Mapping[str, int]) -> None:
        """Answer calls like this one from now on; the one that was taken first is given up if there are too many."""
        entry, self._needed = _Entry(call, program, sizes), LATER
        self._before += sum(old.call.hits() for old in self._entries[MOST - 1 :])
        self._keep(entry, *self._entries[: MOST - 1])

    def watch(self, call: CachedCall) -> None:
        """Forget what was taken as soon as weights are others, so that their memory is free."""
        reference = weakref.WeakMethod(self.drop)

        def forget() -> None:
            drop = reference()
            if drop is not None:
                drop()

        call.when_stale(forget)

    def drop(self, *programs: Specialization) -> None:
        """Answer no calls, or none by some programs."""
        hits = self.hits
        self._keep(*(entry for entry in self._entries if programs and entry.program not in programs))
        self._before += hits - self.hits
        self._seen.clear()

    def _keep(self, *entries: _Entry) -> None:
        self._entries = entries
        functions = [entry.call.function for entry in entries]
        self.function, self.others = (functions[0] if functions else None), tuple(functions[1:])
