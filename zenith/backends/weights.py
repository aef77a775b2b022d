"""Weights: named arrays whose contents change, shared by the programs that compute with them.

A :class:`WeightTable` belongs to one module, whose memory its arrays are. It counts changes, so that a program knows
what is stale, and caches what programs prepared from weights as long as one of them uses it, so that they share it.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from zenith.backends.constant_memory import HOST, Residence
from zenith.errors import ZenithError
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType, dtype_of

Array = np.ndarray[Any, Any]


class WeightReader(Protocol):
    """A program that reads weights: it is notified of changes, and states which it needs."""

    @property
    def read_weights(self) -> set[str]:
        """The weights that every call reads."""
        ...

    @property
    def prepared_weights(self) -> set[str]:
        """The weights that something is prepared from."""
        ...

    def forget_stale(self, changed: Iterable[str]) -> None:
        """Drop everything that a change of these weights made stale. The caller holds the table's lock."""
        ...


class WeightTable(dict[str, Array]):
    """Arrays by name, by reference: the ``graph.weights`` of graphs whose programs follow changes."""

    def __init__(self, arrays: Mapping[str, Array] | None = None, residence: Residence = HOST) -> None:
        super().__init__(arrays or {})
        self.residence = residence
        self.lock = threading.RLock()
        self.prepared: weakref.WeakValueDictionary[Hashable, Array] = weakref.WeakValueDictionary()
        self._changes: Counter[str] = Counter()
        self._released: set[str] = set()
        self._fixed: dict[str, Array] = {}
        self._dense: weakref.WeakValueDictionary[Hashable, Array] = weakref.WeakValueDictionary()
        self._programs: weakref.WeakSet[Any] = weakref.WeakSet()
        self._free: list[Array] = []
        self._recycles = False

    @classmethod
    def of(cls, graph: Graph) -> WeightTable:
        """The table of a graph's weights; for a graph with a plain dictionary one of its own."""
        return graph.weights if isinstance(graph.weights, WeightTable) else cls(graph.weights)

    def change(self, changed: Mapping[str, Array]) -> None:
        """Take new arrays, or new contents of the same ones, for some names; running calls keep the old ones."""
        with self.lock:
            self.update(changed)
            self._changes.update(changed.keys())
            self._recycles = True
            for program in list(self._programs):
                program.forget_stale(changed)
            self._recycles = False

    def fix(self, name: str) -> Array:
        """A copy of a weight that programs have as numbers, not as a weight: valid until ``refutes`` says otherwise."""
        with self.lock:
            return self._fixed.setdefault(name, np.array(self[name]))

    def refutes(self, changed: Mapping[str, Array]) -> bool:
        """Whether a change would be wrong for programs that have one of these weights as numbers."""
        return any(name in changed and not np.array_equal(changed[name], a) for name, a in self._fixed.items())

    def snapshot(self) -> dict[str, Array]:
        """All arrays as they are at this moment, by reference."""
        with self.lock:
            return dict(self)

    def add_program(self, program: WeightReader) -> None:
        """Notify ``program`` of changes while it is alive."""
        with self.lock:
            self._programs.add(program)

    def release(self) -> set[str]:
        """Drop the arrays from which programs only need what they prepared; returns their names."""
        with self.lock:
            programs: list[WeightReader] = list(self._programs)
            released = {n for p in programs for n in p.prepared_weights} - {n for p in programs for n in p.read_weights}
            self.drop(released)
            return released

    def drop(self, names: Iterable[str]) -> None:
        """Give up the memory of these arrays, which no program may need from now on."""
        with self.lock:
            for name in names:
                self[name] = np.broadcast_to(np.empty((), self[name].dtype), self[name].shape)
                self._released.add(name)

    def version(self, name: str) -> Hashable:
        """A key that differs after every change of a weight."""
        return "weight", name, self._changes[name]

    def dense(self, name: str, type: ArrayType) -> Array:
        """A weight in row-major order: its own memory, or one copy that all programs share."""
        if name in self._released:
            raise ZenithError(
                f"weight {name} was released, and a program for another kind of call, a folder or a file needs it",
                fix="make the calls of all kinds, save and eject before that, or keep them: release_weights=False",
            )
        array = self[name]
        dtype = dtype_of(array.dtype)
        if dtype is None or ArrayType(dtype, array.shape) != type:
            raise ZenithError(f"weight {name} is {array.dtype}{list(array.shape)}, but the program was made for {type}")
        key = self.version(name)
        found: Array | None = self._dense.get(key)
        if found is None:
            found = self.residence.dense(array)
            if found is not array:
                self._dense[key] = found
        return found

    def allocate(self, length: int) -> Array:
        """``length`` bytes, those of a stale result of this length if there is one; ``recycle`` takes them back."""
        owner = next((o for o in self._free if len(o) == length), None)
        if owner is None:
            return np.empty(length, np.uint8)
        self._free[:] = [o for o in self._free if o is not owner]
        return owner

    def drop_free(self) -> None:
        """Return unused memory of stale results to the system."""
        self._free.clear()

    def recycle(self, owner: Array) -> None:
        """Take memory that nobody uses any more, for the next allocation of its length during this change."""
        if self._recycles:
            self._free.append(owner)
