"""Fixed memory: what is the same in every call of a program until weights change.

These are constants, weights, and what is *prepared* from both, such as packed panels and casts: computed when the
program is linked, and again when a weight in it changes. Programs of one table share prepared results, by the code and
the versions of what it reads. A call keeps the state with which it began. A change first drops the stale results of all
programs, so that new ones are prepared in the memory that this frees.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from zenith.backends.steps import FIXED, PreparedStep, Weight, walk
from zenith.backends.weights import Array, WeightTable

State = TypeVar("State")
State_co = TypeVar("State_co", covariant=True)


class Processor(Protocol[State_co]):
    """What runs a program: its executable."""

    def run_once(self, launch: Any, arrays: list[Array]) -> None:
        """Run a prepared launch."""
        ...

    def fix(self, arrays: dict[str, Array]) -> State_co:
        """What a call needs of the arrays in all fixed allocations that steps read, by the allocations' names."""
        ...


class Steps(Protocol):
    """A plan, or a backend's program for it."""

    @property
    def constants(self) -> Mapping[str, Array]: ...

    @property
    def weights(self) -> Mapping[str, Weight]: ...

    @property
    def prepared(self) -> tuple[Any, ...]: ...

    @property
    def steps(self) -> tuple[Any, ...]: ...


class FixedMemory(Generic[State]):
    """The fixed memory of one program. ``codes`` identifies kernels' code by name; equal code has equal values.

    ``state`` is for a call that begins now; None after a change of weights, until :meth:`bind`.
    """

    def __init__(self, plan: Steps, table: WeightTable, codes: Mapping[str, Hashable]) -> None:
        self.table, self.codes = table, codes
        self.state: State | None = None
        self._when_stale: list[Callable[[], None]] = []
        self._constants = {name: table.residence.constant(a) for name, a in plan.constants.items()}
        self._weights = plan.weights
        self._prepared = plan.prepared  # each after those whose results it reads
        self._read = {p.name: p for s in walk(plan.steps) for p in s.allocations if p.kind in FIXED}
        self._cached: dict[str, Array] = {}
        self._ancestors = self._weight_ancestors()
        self._descendants: dict[str, list[str]] = {}  # a weight -> the read allocations computed from it
        for name in self._read:
            for weight in self._ancestors[name]:
                self._descendants.setdefault(weight, []).append(name)
        table.add_program(self)

    def forget_stale(self, changed: Iterable[str]) -> None:
        """Drop everything that a change of weights made stale. The caller holds the table's lock.

        The state goes first: calls that still have it are waited for.
        """
        stale = [name for weight in changed for name in self._descendants.get(weight, ())]
        if not stale:
            return
        self.state = None
        notified, self._when_stale = self._when_stale, []
        for notify in notified:
            notify()
        self.table.residence.settle()
        for name in stale:
            self._cached.pop(name, None)

    def when_stale(self, state: State, notify: Callable[[], None]) -> None:
        """Call ``notify`` when a state goes, before the change that makes it go has ended; at once if it has gone."""
        with self.table.lock:
            if self.state is state:
                self._when_stale.append(notify)
                return
        notify()

    @property
    def read_weights(self) -> set[str]:
        """The weights that every call reads."""
        return {self._weights[a.name].name for a in self._read.values() if a.kind == "weight"}

    @property
    def prepared_weights(self) -> set[str]:
        """The weights that something is prepared from."""
        return {name for a in self._read.values() if a.kind == "prepared" for name in self._ancestors[a.name]}

    def bind(self, processor: Processor[State]) -> State:
        """The state for a call that begins now; missing results are prepared on ``processor``."""
        with self.table.lock:
            if self.state is None:
                self._cached.update(self._materialized(set(self._read) - set(self._cached), processor))
                self.state = processor.fix(dict(self._cached))
                self.table.drop_free()
            return self.state

    def arrays(self, processor: Processor[State]) -> dict[str, Array]:
        """The arrays that calls which begin now read, by the names of the fixed allocations."""
        with self.table.lock:
            self.bind(processor)
            return dict(self._cached)

    def sources(self) -> dict[str, Array]:
        """Constants, and weights as they are now, by their allocations' names; ZenithError when one was released."""
        with self.table.lock:
            weights = {name: self.table.dense(weight.name, weight.type) for name, weight in self._weights.items()}
            return {**self._constants, **weights}

    def _weight_ancestors(self) -> dict[str, frozenset[str]]:
        """The weights from which the contents of each allocation are computed."""
        found = {name: frozenset[str]() for name in self._constants}
        found.update((name, frozenset([weight.name])) for name, weight in self._weights.items())
        for step in self._prepared:
            found.update(dict.fromkeys(_results(step), frozenset().union(*(found[name] for name in _sources(step)))))
        return found

    def _keys(self) -> dict[str, Hashable]:
        """What the contents of each allocation are computed from: a digest, since texts would repeat what is shared."""
        keys: dict[str, Hashable] = {name: ("constant", name) for name in self._constants}
        keys.update((name, self.table.version(weight.name)) for name, weight in self._weights.items())
        for step in self._prepared:
            read = [keys[p.name] for p in step.launch.allocations if p.name not in _results(step)]
            derivation = self.codes[step.launch.kernel.name], read
            digest = hashlib.sha256(repr(derivation).encode()).digest()
            keys.update((name, (digest, i)) for i, name in enumerate(_results(step)))
        return keys

    def _materialized(self, wanted: set[str], processor: Processor[State]) -> dict[str, Array]:
        """Arrays of allocations: those that programs share, and others that are prepared now, each launch run once."""
        keys, found = self._keys(), dict[str, Array]()
        missing = self._missing(wanted, keys, found)
        pending_reads = Counter(name for step in missing for name in _sources(step))
        for step in missing:
            found.update({name: self._source(name) for name in _sources(step) if name not in found})
            for name, array in self._prepare(step, found, processor).items():
                self.table.prepared[keys[name]] = found[name] = array
            pending_reads.subtract(_sources(step))
            for name in {*_sources(step), *_results(step)}:
                if not pending_reads[name] and name not in wanted:
                    del found[name]
        return {name: found[name] if name in found else self._source(name) for name in wanted}

    def _missing(
        self, wanted: Iterable[str], keys: Mapping[str, Hashable], found: dict[str, Array]
    ) -> list[PreparedStep]:
        """The launches that must run for ``wanted``, in order; what other programs prepared is put into ``found``."""
        needed, missing = set(wanted), list[PreparedStep]()
        for step in reversed(self._prepared):
            shared = {name: self.table.prepared.get(keys[name]) for name in _results(step) if name in needed}
            found.update({name: array for name, array in shared.items() if array is not None})
            if any(array is None for array in shared.values()):
                missing.append(step)
                needed.update(_sources(step))
        return missing[::-1]

    def _source(self, name: str) -> Array:
        """A constant, or a weight as it is now."""
        if name in self._constants:
            return self._constants[name]
        return self.table.dense(self._weights[name].name, self._weights[name].type)

    def _prepare(
        self, step: PreparedStep, arrays: Mapping[str, Array], processor: Processor[State]
    ) -> dict[str, Array]:
        """Run a launch for its results."""
        new = {name: self.table.residence.vector(size, dtype, self.table) for name, dtype, size in step.results}
        processor.run_once(step.launch, [{**arrays, **new}[p.name] for p in step.launch.allocations])
        return new


def _results(step: PreparedStep) -> list[str]:
    return [name for name, _, _ in step.results]


def _sources(step: PreparedStep) -> list[str]:
    """The allocations that a launch reads, each once."""
    return [name for name in dict.fromkeys(p.name for p in step.launch.allocations) if name not in _results(step)]
