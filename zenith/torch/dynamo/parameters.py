"""The parameters and buffers that an instance of a model gives to a graph in every call of inference.

A program has them as weights: packed once, and again when a tensor was written to or has other memory. Several
instances may share a graph (equal layers, copies of a model); the tensors themselves identify the one that calls.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import torch

from zenith.backends.weights import WeightTable
from zenith.torch.unseen import Watch, version
from zenith.torch.weights import array_of, residence_of

_numbers = count(1)


class Parameters:
    """The static tensors of one instance, by the names that they have in the graph.

    Attributes
    ----------
    key: differs for every instance.
    table: their arrays, which programs share and follow.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor], forget: Callable[[], None]) -> None:
        self.key = next(_numbers)
        self._names = list(tensors)
        # They are not kept alive; a new tensor could have the identity of one that is gone.
        self._tensors = [weakref.ref(t, lambda _: forget()) for t in tensors.values()]
        self._versioned = [i for i, t in enumerate(tensors.values()) if not t.is_inference()]
        self._watch = Watch([*tensors.values()])
        self._marks = self._look([*tensors.values()])
        self._lock = threading.Lock()
        arrays = {name: array_of(name, tensor) for name, tensor in tensors.items()}
        self.table = WeightTable(arrays, residence_of([*tensors.values()]))

    def follow(self, tensors: Sequence[torch.Tensor]) -> int | None:
        """Update programs where tensors changed since the last call; return how many did.

        None where one has other numbers now that are fixed in the instance's programs, which are of no use then.
        """
        now = self._look(tensors)
        if now == self._marks:
            return 0
        with self._lock:
            watch = Watch(tensors)  # of what replaced other memory
            marks = *now[:2], watch.numbers()
            addresses, versions, numbers = (zip(a, b, strict=True) for a, b in zip(self._marks, now, strict=True))
            changed = {i for i, (before, after) in enumerate(addresses) if before != after}
            changed |= {i for i, (before, after) in zip(self._versioned, versions, strict=True) if before != after}
            changed |= {i for i, (before, after) in enumerate(numbers) if before != after}
            arrays = {self._names[i]: array_of(self._names[i], tensors[i]) for i in changed}
            if self.table.refutes(arrays):
                return None
            self.table.change(arrays)
            self._watch, self._marks = watch, marks  # last: other threads take it that programs are updated
        return len(changed)

    def _look(self, tensors: Sequence[torch.Tensor]) -> tuple[list[int], list[int], list[int]]:
        """The addresses of the tensors, and what counts the writes to them."""
        numbers = self._watch.numbers()
        versions = [version(tensors[i]) for i in self._versioned]
        return list(map(torch.Tensor.data_ptr, tensors)), versions, numbers


class Instances:
    """The parameters of all instances that call a graph, found by the tensors themselves."""

    def __init__(self, names: Sequence[str], forget: Callable[[int], None]) -> None:
        self._names, self._forget = names, forget
        self._known: dict[tuple[int, ...], Parameters] = {}
        self._lock = threading.RLock()

    def of(self, tensors: Sequence[torch.Tensor]) -> Parameters:
        """The instance that has these tensors."""
        identity = tuple(map(id, tensors))
        found = self._known.get(identity)
        if found is None:
            with self._lock:
                found = self._known.get(identity) or self._added(identity, tensors)
        return found

    def again(self, tensors: Sequence[torch.Tensor]) -> Parameters:
        """The same instance, begun anew without its programs."""
        with self._lock:
            self._drop(tuple(map(id, tensors)))
            return self.of(tensors)

    def _drop(self, identity: tuple[int, ...]) -> None:
        parameters = self._known.pop(identity, None)
        if parameters is not None:
            self._forget(parameters.key)

    def _added(self, identity: tuple[int, ...], tensors: Sequence[torch.Tensor]) -> Parameters:
        own = weakref.ref(self)

        def forget() -> None:
            instances = own()
            if instances is not None:
                instances._drop(identity)

        self._known[identity] = parameters = Parameters(dict(zip(self._names, tensors, strict=True)), forget)
        return parameters
