"""The inline cache of a function: native code that answers calls like the one before."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from zenith.arrays import NUMPY
from zenith.backends.backend import CacheableCall, CachedCall

if TYPE_CHECKING:
    from zenith.api.programs import Specialization

FIRST, LATER = 4, 32  # equal calls in a row before one is cached: making a cached call takes as long as some 30 others


def cached_call(program: Specialization, leaves: Sequence[object], sizes: Mapping[str, int]) -> CachedCall | None:
    """What answers calls of a program with positional arguments like these leaves; None where nothing can."""
    make, result, results, writes = program.where.inline_cache, program.origin.result, program.results, program.writes
    is_native = not result.converts if results is NUMPY else results.exchange is not None
    if make is None or not is_native or program.computed or not result.is_flat:
        return None
    size_numbers = [position for position, _ in program.binding.numbers]
    written, returned = (writes.written, writes.returned) if writes is not None else ({}, {})
    nested, numbers = result.nested(), result.numbers if results is NUMPY else ()
    returns_tuple = isinstance(nested, tuple)
    items = len(nested) if isinstance(nested, tuple) else nested is not None
    if items + len(written) != len(program.origin.graph.outputs):
        return None  # there are others, such as buffers of a module, that the builder of results writes
    call = CacheableCall(leaves, results, sizes, size_numbers, numbers, written, returned, returns_tuple)
    return make(program.executable, call)


class InlineCache:
    """At most one cached call of a function, with its program; ``function`` is None where there is none.

    The call that is cached is one that repeats: calls that keep changing are left alone, and those that change now and
    then are soon answered again.
    """

    def __init__(self) -> None:
        self.function: Callable[..., object] | None = None
        self.program: Specialization | None = None
        self._sizes: Mapping[str, int] | None = None
        self._count: Callable[[], int] = int
        self._before = 0  # calls that earlier ones have answered
        self._needed = FIRST
        self._latest: tuple[Specialization, Mapping[str, int]] | None = None
        self._repeats = 0

    @property
    def hits(self) -> int:
        """How many calls have been answered."""
        return self._before + self._count()

    @property
    def is_due(self) -> bool:
        """Whether the call that was seen last shall be cached."""
        return self._repeats == self._needed

    def see(self, program: Specialization, sizes: Mapping[str, int]) -> None:
        """Note a call that was looked up. One that is cached has met another thread's, or its arrays are unlike."""
        if program is self.program and sizes == self._sizes:
            return
        latest = self._latest
        alike = latest is not None and latest[0] is program and latest[1] == sizes
        self._repeats = self._repeats + 1 if alike else 1
        if not alike:
            self._latest = program, sizes

    def take(self, call: CachedCall, program: Specialization, sizes: Mapping[str, int]) -> None:
        """Answer calls like this one from now on."""
        self.drop()
        self.function, self.program, self._sizes, self._count = call.function, program, sizes, call.hits
        self._needed = LATER

    def watch(self, call: CachedCall) -> None:
        """Forget a call that was taken as soon as weights are others, so that their memory is free."""
        reference = weakref.WeakMethod(self.drop)

        def forget() -> None:
            drop = reference()
            if drop is not None:
                drop()

        call.when_stale(forget)

    def drop(self, *programs: Specialization) -> None:
        """Answer no calls, or none by some programs."""
        if not programs or self.program in programs:
            self._before, self._count = self.hits, int
            self.function = self.program = self._sizes = None
        if not programs or (self._latest is not None and self._latest[0] in programs):
            self._latest, self._repeats = None, 0
