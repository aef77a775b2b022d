"""Specialisation: which compiled program serves a call, and the bounded cache of them.

A call is looked up in two steps. Its *key* (structure, element types, ranks, static values) finds an entry; the
entry's specialisations are tried in turn by their generated bindings (:mod:`zenith.api.binding`). When none binds, the
program is traced and compiled, once however many threads ask, and the miss is recorded with its reason. Sizes never
specialise by themselves, so an entry usually has one specialisation.
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

from zenith.api.binding import SourceGuard, make_binding
from zenith.api.data_dependent import DataDependentSizes
from zenith.api.devices import Where
from zenith.api.inline_cache import InlineCache, cached_call
from zenith.api.leaves import LeafKind
from zenith.api.log import tell_loaded, tell_program
from zenith.api.programs import LazyLowering, Specialization, TracedProgram
from zenith.api.recompilation import (
    CLEARED,
    EVICTED,
    FIRST,
    MANY,
    Miss,
    Reason,
    broken_assumptions,
    check_allowed,
    dropped,
    new_call,
    warn_of_many,
    warn_of_widening,
)
from zenith.backends.backend import MISS
from zenith.collection import without_collection
from zenith.compile import link_graph, lower_graph
from zenith.config import config
from zenith.errors import ArgumentError, depth_checked, user_line
from zenith.ir.numerics import EXACT, Numerics
from zenith.ir.text import print_graph
from zenith.progress import shown
from zenith.trace import TraceResult
from zenith.trace.recorder import WideningReport

REMEMBERED = 256  # misses whose reasons are retained


@dataclass(frozen=True)
class Request:
    """One call, flattened: its leaves, their names for messages, where it runs, how to trace it when nothing fits."""

    leaves: Sequence[object]
    build: Callable[[], TracedProgram]
    describe: Callable[[], tuple[str, ...]]
    where: Where
    donated: Sequence[bool] = ()  # the leaves whose memory results may take
    written: Mapping[int, int] = field(default_factory=dict)  # results that are new contents of leaves, by number
    reusable: Sequence[str] = ()  # names of leaves whose memory is the program's once it has read them


@dataclass(eq=False)
class Specializations:
    """The specialisations of one key; ``lock`` is held while another is compiled."""

    description: tuple[str, ...]
    lock: threading.RLock = field(default_factory=threading.RLock)
    specializations: tuple[Specialization, ...] = ()


class Specializer:
    """Finds or makes the program for a call; thread-safe.

    ``name`` appears in messages, and more than ``max_compilations`` (None: any number) are refused. ``numerics`` is
    what kernels may do; ``warns`` says whether the user hears of many compilations.
    """

    def __init__(
        self, name: str, max_compilations: int | None = None, numerics: Numerics = EXACT, warns: bool = True
    ) -> None:
        if max_compilations is not None and not (isinstance(max_compilations, Integral) and max_compilations >= 0):
            raise ArgumentError(f"max_compilations is {max_compilations!r}", where=user_line(),
                                fix="give a number of programs, or None for any number")  # fmt: skip
        self.name, self.max_compilations, self.numerics = name, max_compilations, numerics
        self.repacked = 0
        self.compilations = 0
        self.unasked = 0  # compilations in calls, other than those of programs that the user had dropped
        self.warns, self._warned = warns, set[object]()  # of many compilations, and of widenings at lines
        self.misses: deque[Miss] = deque(maxlen=REMEMBERED)
        self.evicted = 0
        self.latest: Specialization | None = None
        self._looked_up = 0  # calls of cached programs that no inline cache has answered
        self.inline_cache = InlineCache()
        self._entries: dict[Hashable, Specializations] = {}
        self._dropped: dict[Hashable, str] = {}
        self._lock = threading.Lock()
        _ALL.add(self)

    def find_positional(self, kinds: Mapping[type, Callable[[object], Hashable]], args: tuple[object, ...]) -> Any:
        """:meth:`find` for a call of which every argument is a leaf: the path of most calls.

        ``kinds`` describes a leaf by its type. ``self``, too, when an argument is no leaf.
        """
        for answer in self.inline_cache.others:
            found = answer(*args)
            if found is not MISS:
                return found
        try:
            key = tuple([kinds[type(a)](a) for a in args])
        except KeyError:
            return self
        found = self.find(key, args)
        if self.inline_cache.is_due and found is not self:
            self._cache(key, args)
        return found

    @property
    def hits(self) -> int:
        """How many calls have run a cached program."""
        return self._looked_up + self.inline_hits

    @property
    def inline_hits(self) -> int:
        """How many of them the inline cache has answered."""
        return self.inline_cache.hits

    def _cache(self, key: Hashable, args: tuple[object, ...]) -> None:
        """Have the inline cache answer calls like this one, where the backend can."""
        program = self.match(key, args)
        sizes = program.bind(args) if program is not None else None
        if program is None or sizes is None:
            return
        try:
            call = cached_call(program, args, sizes)
        except MemoryError:
            return  # this call has its results: they are not lost for want of memory to cache the next one
        if call is None:
            return
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and program in entry.specializations:
                self.inline_cache.take(call, program, sizes)
        self.inline_cache.watch(call)

    def find(self, key: Hashable, leaves: Sequence[object]) -> Any:
        """The results of a call that has been compiled for, or ``self`` when there is no such program yet."""
        entry = self._entries.get(key)
        if entry is None:
            return self
        for specialization in entry.specializations:
            sizes = specialization.bind(leaves)
            if sizes is not None:
                self.count_hit(specialization, sizes)
                return specialization.run(leaves, sizes)
        return self

    def count_hit(self, specialization: Specialization, sizes: Mapping[str, int] | None = None) -> None:
        """Record that a call runs a cached program, with sizes where it may be cached itself."""
        with self._lock:
            self._looked_up += 1
            if sizes is not None:
                self.inline_cache.see(specialization, sizes)
            specialization.used = self._looked_up + self.compilations

    def match(self, key: Hashable, leaves: Sequence[object]) -> Specialization | None:
        """The program that is compiled for a call, or None."""
        entry = self._entries.get(key)
        fitting = (s for s in entry.specializations if s.binding.function(leaves) is not None) if entry else iter(())
        return next(fitting, None)

    def make(self, key: Hashable, request: Request) -> object:
        """Compile for a call that :meth:`find` did not find, unless another thread has meanwhile, and run it."""
        specialization = self.obtain(key, request)
        sizes = specialization.binding.function(request.leaves)
        assert sizes is not None, "a program must bind the call that it was traced for"
        return specialization.run(request.leaves, sizes)

    def obtain(self, key: Hashable, request: Request, lowering: LazyLowering | None = None) -> Specialization:
        """The program for a call, compiled when there is none; ``lowering`` when it has been lowered already."""
        while True:
            with self._lock:
                entry = self._entries.setdefault(key, Specializations(request.describe()))
            with entry.lock:
                if self._entries.get(key) is not entry:
                    continue  # it failed to compile in another thread, or was evicted, while this one waited
                found = self.match(key, request.leaves)
                if found is not None:
                    self.count_hit(found)
                    return found
                try:
                    with without_collection(), shown(self.name), depth_checked(self.name):
                        return self._compile(key, entry, request, lowering)
                finally:
                    self._drop_if_empty(key, entry)

    def lower(self, request: Request) -> LazyLowering:
        """Trace, optimise and plan the program for a call."""
        start = time.perf_counter()
        program = request.build()
        traced = time.perf_counter()
        where = request.where
        lowered = lower_graph(program.traced.graph, where.backend, where.device, self.numerics, request.reusable)
        guards = [*program.conditions, *map(SourceGuard.of, program.traced.guards)]
        binding = make_binding(program.traced.inputs, guards, _sizes_of(program.traced), program.traced.definitions)
        return LazyLowering(program, lowered, binding, (traced - start, time.perf_counter() - traced))

    def clear(self, why: str) -> None:
        """Forget all programs; counters stay, and ``why`` explains the misses that follow."""
        with self._lock:
            self._dropped.update(dict.fromkeys(self._entries, why))
            self._entries.clear()
            self.inline_cache.drop()

    def forget(self, key: Hashable) -> None:
        """Release the programs of one key, which no call will have again; without a lock, for finalizers."""
        entry = self._entries.pop(key, None)
        if entry is not None and entry.specializations:
            self.inline_cache.drop(*entry.specializations)

    def specializations(self) -> list[Specialization]:
        """All programs that are cached, oldest key first."""
        return [s for _, entry in self.entries() for s in entry.specializations]

    def entries(self) -> list[tuple[Hashable, Specializations]]:
        """All keys with their programs, the oldest first."""
        with self._lock:
            return list(self._entries.items())

    def add(self, key: Hashable, description: tuple[str, ...], specialization: Specialization, why: str) -> None:
        """Take a program that was compiled elsewhere; ``why`` is recorded in place of a miss's reason."""
        with self._lock:
            self._entries.setdefault(key, Specializations(description)).specializations += (specialization,)
            self.misses.append(Miss(description, why))
            self.latest = specialization
        tell_loaded(self.name, description, why, sum(specialization.seconds))

    def _compile(
        self, key: Hashable, entry: Specializations, request: Request, lowering: LazyLowering | None = None
    ) -> Specialization:
        reason = self._reason(key, entry, request.leaves)
        miss = Miss(entry.description, reason.why, reason.fix)
        check_allowed(self.name, miss, list(self.misses), self.max_compilations, self.compilations)
        made = self._linked(request, lowering or self.lower(request))
        with self._lock:
            self.compilations += 1
            self.unasked += lowering is None and reason.why != CLEARED
            made.used = self._looked_up + self.compilations
            entry.specializations += (made,)
            self._dropped.pop(key, None)
            self.misses.append(miss)
            self.latest = made
            self._evict()
        tell_program(self.name, miss.call, reason, sum(made.seconds), made.executable.report)
        self._warn(reason, made.origin.widenings)
        return made

    def _warn(self, reason: Reason, widenings: Sequence[WideningReport]) -> None:
        """Warn of what the latest program shows, once of many programs and once of each line."""
        if not self.warns:
            return
        with self._lock:
            wide = {w.line: w for w in widenings if w.line not in self._warned}
            many = self.unasked >= MANY and MANY not in self._warned
            self._warned |= {*wide, *([MANY] if many else ())}
        for widening in wide.values():
            warn_of_widening(self.name, widening)
        if many:
            warn_of_many(self.name, reason)

    def _linked(self, request: Request, lowering: LazyLowering) -> Specialization:
        """The machine code of a program, for arrays like those of a call."""
        kinds = tuple(map(LeafKind.of, request.leaves))
        if request.where.is_gpu:
            _refuse_capture(self.name, kinds)
        start = time.perf_counter()
        writes, written = lowering.program.writes, dict(request.written)
        if writes is not None:
            written |= writes.in_place(request.leaves, [kind.adapter for kind in kinds])
        executable = link_graph(lowering.lowered, request.donated, written)
        seconds = (lowering.seconds[0], lowering.seconds[1] + time.perf_counter() - start)
        made = Specialization(lowering, executable, kinds, seconds, request.where, writes=writes)
        made.computed = DataDependentSizes.of(lowering.program.traced)
        made.raised = lowering.program.traced.raised
        return made

    def _reason(self, key: Hashable, entry: Specializations, leaves: Sequence[object]) -> Reason:
        """Why no program fits a call."""
        programs = entry.specializations
        if programs:
            specialized = [pair for s in programs for pair in s.origin.specialized]
            return broken_assumptions([s.binding.first_false(leaves) for s in programs], specialized)
        if not self.misses:
            return FIRST
        if key in self._dropped:
            return dropped(self._dropped[key])
        return new_call(entry.description, self.misses[-1].call)

    def _evict(self) -> None:
        """Drop the least recently used programs beyond the bound; the lock is held."""
        for program in self.inline_cache.programs:
            program.used = self._looked_up + self.compilations
        programs = [(s.used, number, key) for number, (key, s) in enumerate(self._programs())]
        for _, _, key in sorted(programs, key=lambda item: item[:2])[: max(0, len(programs) - config.executables)]:
            entry = self._entries[key]
            oldest = min(entry.specializations, key=lambda s: s.used)
            entry.specializations = tuple(s for s in entry.specializations if s is not oldest)
            self.inline_cache.drop(oldest)
            self.evicted += 1
            self._dropped[key] = EVICTED
            if not entry.specializations:
                del self._entries[key]

    def after_fork(self) -> None:
        """Renew the locks in a child, which may lack the threads that hold them; what those compiled is recompiled."""
        self._lock = threading.Lock()
        self.inline_cache.drop()  # in which a thread may have been
        for entry in self._entries.values():
            entry.lock = threading.RLock()

    def _programs(self) -> list[tuple[Hashable, Specialization]]:
        return [(key, s) for key, entry in self._entries.items() for s in entry.specializations]

    def _drop_if_empty(self, key: Hashable, entry: Specializations) -> None:
        """Remove the entry again when the user's function raised."""
        with self._lock:
            if not entry.specializations and self._entries.get(key) is entry:
                del self._entries[key]


def _sizes_of(traced: TraceResult) -> tuple[str, ...]:
    """The sizes that a program needs: of its arguments, those that Python computes, and integers that are sizes."""
    text = print_graph(traced.graph) if traced.definitions else ""
    computed = (name for name, _ in traced.definitions if re.search(rf"\b{name}\b", text))
    numbers = (str(spec.size) for spec in traced.inputs if spec.size is not None)
    return (*traced.graph.symbols(), *computed, *numbers)


_ALL: weakref.WeakSet[Specializer] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for specializer in list(_ALL):
        specializer.after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _refuse_capture(name: str, kinds: Iterable[LeafKind]) -> None:
    """Raise CaptureError when a stream of the arrays is captured: loading kernels and constants needs the device."""
    from zenith.backends.cuda.capture import refuse_capture

    adapters = {kind.adapter for kind in kinds}
    refuse_capture(f"compiling {name}", {adapter.stream() for adapter in adapters if not adapter.on_host})
