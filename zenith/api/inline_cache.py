"""The inline cache of a function: native code that answers calls like the one before."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from zenith.arrays import NUMPY
from zenith.backends.backend import CacheableCall, CachedCall

if TYPE_CHECKING:
    from zenith.api.programs import Specialization

REPEATED = 4  # calls before one is cached, then with twice as many each: those that keep changing are left alone


def is_worth_it(calls: int) -> bool:
    """Whether a call is cached when so many have been looked up."""
    return calls >= REPEATED and calls & (calls - 1) == 0


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
    """At most one cached call of a function, with its program; ``function`` is None where there is none."""

    def __init__(self) -> None:
        self.function: Callable[..., object] | None = None
        self.program: Specialization | None = None
        self._count: Callable[[], int] = int
        self._before = 0  # calls that earlier ones have answered

    @property
    def hits(self) -> int:
        """How many calls have been answered."""
        return self._before + self._count()

    def take(self, call: CachedCall, program: Specialization) -> None:
        """Answer calls like this one from now on."""
        self.drop()
        self.function, self.program, self._count = call.function, program, call.hits

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
            self.function = self.program = None
