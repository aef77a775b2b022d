"""Fixed memory: what is the same in every call of a program until weights change.

These are constants, weights, and what is *prepared* from both, such as packed panels and casts: computed when the
program is linked, and again when a weight in it changes. Programs of one table share what they prepare, by the code and
the versions of what it reads. A call keeps the state with which it began. A change first takes the stale results from
all programs, so that new ones are prepared in memory that nobody uses any more and that is there already.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from zenith.backends.steps import FIXED, Prepared, Weight, walk
from zenith.backends.weights import Array, WeightTable

State = TypeVar("State")
State_co = TypeVar("State_co", covariant=True)


class Processor(Protocol[State_co]):
    """What runs a program: its executable."""

    def run_once(self, launch: Any, arrays: list[Array]) -> None:
        """Run a prepared launch."""
        ...

    def fix(self, arrays: dict[str, Array]) -> State_co:
        """What a call needs of the arrays of all fixed places that steps read, by the places' names."""
        ...


class Steps(Protocol):
    """A plan, or what a backend makes of it."""

    @property
    def constants(self) -> Mapping[str, Array]: ...

    @property
    def weights(self) -> Mapping[str, Weight]: ...

    @property
    def prepared(self) -> tuple[Any, ...]: ...

    @property
    def steps(self) -> tuple[Any, ...]: ...


class FixedMemory(Generic[State]):
    """The fixed memory of one program. ``codes`` tells kernels apart by name; equal code has equal values.

    ``state`` is for a call that begins now; None after a change of weights, until :meth:`bind`.
    """

    def __init__(self, plan: Steps, table: WeightTable, codes: Mapping[str, Hashable]) -> None:
        self.table, self.codes = table, codes
        self.state: State | None = None
        self._constants = {name: table.residence.constant(a) for name, a in plan.constants.items()}
        self._weights = plan.weights
        self._prepared = plan.prepared  # each behind those that it reads
        self._read = {p.name: p for s in walk(plan.steps) for p in s.allocations if p.kind in FIXED}
        self._held: dict[str, Array] = {}
        self._from = self._weight_ancestors()
        self._followers: dict[str, list[str]] = {}  # the read places that follow from a weight
        for name in self._read:
            for weight in self._from[name]:
                self._followers.setdefault(weight, []).append(name)
        table.add_program(self)

    def forget_stale(self, changed: Iterable[str]) -> None:
        """Let go of everything that a change of weights made stale. The table's lock is held.

        The state goes first: a call that still finds it when it has started all of its work is waited for.
        """
        stale = [name for weight in changed for name in self._followers.get(weight, ())]
        if not stale:
            return
        self.state = None
        self.table.residence.settle()
        for name in stale:
            self._held.pop(name, None)

    @property
    def read_weights(self) -> set[str]:
        """The weights that every call reads."""
        return {self._weights[place.name].name for place in self._read.values() if place.kind == "weight"}

    @property
    def prepared_weights(self) -> set[str]:
        """The weights that something is prepared from."""
        return {name for place in self._read.values() if place.kind == "prepared" for name in self._from[place.name]}

    def bind(self, processor: Processor[State]) -> State:
        """The state for a call that begins now; what is missing in it is prepared on ``processor``."""
        with self.table.lock:
            if self.state is None:
                self._held.update(self._made(set(self._read) - set(self._held), processor))
                self.state = processor.fix(dict(self._held))
                self.table.drop_free()
            return self.state

    def arrays(self, processor: Processor[State]) -> dict[str, Array]:
        """What calls that begin now read, by the names of the fixed places."""
        with self.table.lock:
            self.bind(processor)
            return dict(self._held)

    def sources(self) -> dict[str, Array]:
        """Constants, and weights as they are now, by the names of their places; ZenithError when one was released."""
        with self.table.lock:
            weights = {name: self.table.dense(weight.name, weight.type) for name, weight in self._weights.items()}
            return {**self._constants, **weights}

    def _weight_ancestors(self) -> dict[str, frozenset[str]]:
        """The weights that the contents of each place follow from."""
        found = {name: frozenset[str]() for name in self._constants}
        found.update((name, frozenset([weight.name])) for name, weight in self._weights.items())
        for step in self._prepared:
            found.update(dict.fromkeys(_results(step), frozenset().union(*(found[name] for name in _sources(step)))))
        return found

    def _keys(self) -> dict[str, Hashable]:
        """What the contents of each place follow from: a digest, as it would be long where much is read twice."""
        keys: dict[str, Hashable] = {name: ("constant", name) for name in self._constants}
        keys.update((name, self.table.version(weight.name)) for name, weight in self._weights.items())
        for step in self._prepared:
            read = [keys[p.name] for p in step.launch.allocations if p.name not in _results(step)]
            made_of = self.codes[step.launch.kernel.name], read
            digest = hashlib.sha256(repr(made_of).encode()).digest()
            keys.update((name, (digest, i)) for i, name in enumerate(_results(step)))
        return keys

    def _made(self, wanted: set[str], processor: Processor[State]) -> dict[str, Array]:
        """Arrays of places: those that programs share, and others that are prepared now, by each launch once."""
        keys, found = self._keys(), dict[str, Array]()
        missing = self._missing(wanted, keys, found)
        to_come = Counter(name for step in missing for name in _sources(step))
        for step in missing:
            found.update({name: self._source(name) for name in _sources(step) if name not in found})
            for name, array in self._prepare(step, found, processor).items():
                self.table.prepared[keys[name]] = found[name] = array
            to_come.subtract(_sources(step))
            for name in {*_sources(step), *_results(step)}:
                if not to_come[name] and name not in wanted:
                    del found[name]
        return {name: found[name] if name in found else self._source(name) for name in wanted}

    def _missing(self, wanted: Iterable[str], keys: Mapping[str, Hashable], found: dict[str, Array]) -> list[Prepared]:
        """What must be prepared for some places, in order; what another program has prepared is put into ``found``."""
        needed, missing = set(wanted), list[Prepared]()
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

    def _prepare(self, step: Prepared, arrays: Mapping[str, Array], processor: Processor[State]) -> dict[str, Array]:
        """Run a launch for its results."""
        made = {name: self.table.residence.vector(size, dtype, self.table) for name, dtype, size in step.results}
        processor.run_once(step.launch, [{**arrays, **made}[p.name] for p in step.launch.allocations])
        return made


def _results(step: Prepared) -> list[str]:
    return [name for name, _, _ in step.results]


def _sources(step: Prepared) -> list[str]:
    """The places that a launch reads, each once."""
    return [name for name in dict.fromkeys(p.name for p in step.launch.allocations) if name not in _results(step)]
