"""Fixed memory: what is the same in every call of a program until weights change.

These are constants, weights, and what is *prepared* from both, such as packed panels and casts: computed when the
program is linked, and again when a weight in it changes. Programs of one table share what they prepare, by the code and
the versions of what it reads. A call keeps the state with which it began. A change first takes the stale results from
all programs, so that new ones are prepared in memory that nobody uses any more and that is there already.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from zenith.backends.steps import FIXED, Place, Prepared, Weight, walk
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
        self._made_by = {name: p for p in plan.prepared for name in _results(p)}
        self._read = {p.name: p for s in walk(plan.steps) for p in s.places if p.kind in FIXED}
        self._held: dict[str, Array] = {}
        self._followers: dict[str, list[str]] = {}  # the read places that follow from a weight
        for name, place in self._read.items():
            for weight in self._sources(place):
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
        return {name for place in self._read.values() if place.kind == "prepared" for name in self._sources(place)}

    def bind(self, processor: Processor[State]) -> State:
        """The state for a call that begins now; what is missing in it is prepared on ``processor``."""
        with self.table.lock:
            if self.state is None:
                for name, place in self._read.items():
                    if name not in self._held:
                        self._held[name] = self._array(place, processor)
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

    def _sources(self, place: Place) -> set[str]:
        """The weights that a place's contents follow from."""
        if place.kind == "weight":
            return {self._weights[place.name].name}
        made_by = self._made_by.get(place.name)
        others = [p for p in made_by.launch.places if p.name not in _results(made_by)] if made_by else []
        return {name for other in others for name in self._sources(other)}

    def _key(self, place: Place) -> Hashable:
        """What the contents of a place follow from."""
        if place.kind == "constant":
            return "constant", place.name
        if place.kind == "weight":
            return self.table.version(self._weights[place.name].name)
        made_by = self._made_by[place.name]
        results = _results(made_by)
        sources = tuple(self._key(p) for p in made_by.launch.places if p.name not in results)
        return self.codes[made_by.launch.kernel.name], results.index(place.name), sources

    def _array(self, place: Place, processor: Processor[State]) -> Array:
        if place.kind == "constant":
            return self._constants[place.name]
        if place.kind == "weight":
            return self.table.dense(self._weights[place.name].name, self._weights[place.name].type)
        found = self.table.prepared.get(self._key(place))
        return self._prepare(self._made_by[place.name], processor)[place.name] if found is None else found

    def _prepare(self, prepared: Prepared, processor: Processor[State]) -> dict[str, Array]:
        """Run a launch for its results, after those that it reads."""
        places, results = prepared.launch.places, _results(prepared)
        sources = {p.name: self._array(p, processor) for p in places if p.name not in results}
        table = self.table
        made = {name: table.residence.vector(size, dtype, table) for name, dtype, size in prepared.results}
        processor.run_once(prepared.launch, [{**sources, **made}[p.name] for p in places])
        for place in places:
            if place.name in made:
                self.table.prepared[self._key(place)] = made[place.name]
                if place.name in self._read:
                    self._held[place.name] = made[place.name]
        return made


def _results(prepared: Prepared) -> list[str]:
    return [name for name, _, _ in prepared.results]
