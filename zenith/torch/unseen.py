"""Writes to weights that their version counters do not count, counted here for each storage.

Three kinds are known. Optimisers that step in one kernel, ``fused=True``, and those that are not PyTorch's own: PyTorch
calls a hook after every step, which numbers the memory of the parameters. Tensors of the same memory with a version
counter of their own, ``weight.data``: :mod:`zenith.torch.aliases` gives them a counter that is read here. NumPy's
arrays on a weight's memory, whose writes nobody counts: while there is one, the memory counts as written to, again and
again. So do inference tensors, which have no version counter.

Only memory that programs prepared something from is watched, as long as a :class:`Watch` lives. It is identified by
its storage, which views share as they share a version.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from itertools import count

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

_numbers = count(1)
_newest = [0]  # the last number of all: as long as it stays, no step was made, and no alias was added
_MOST_COUNTERS = 8

version = torch.Tensor._version.__get__  # type: ignore[attr-defined]


class WatchedMemory:
    """Watched memory, and what may write to it uncounted.

    Attributes
    ----------
    roots: by element type, a tensor with whose version counter aliases are made.
    counters: all tensors whose version counters count writes.
    owners: objects during whose lifetime there may be writes that nothing counts.
    successor: what a weight has instead since its ``.data`` was replaced; watched until somebody looks.
    """

    def __init__(self) -> None:
        self.roots: dict[torch.dtype, torch.Tensor] = {}
        self.counters: list[torch.Tensor] = []
        self.owners: list[weakref.ref[object]] = []
        self.successor: WatchedMemory | None = None
        self.written = 0

    def write(self) -> None:
        """Number a write, or the start of a period of writes."""
        self.written = _newest[0] = next(_numbers)

    def count(self, tensor: torch.Tensor) -> None:
        """Read this tensor's version counter from now on; without one, or with too many, each look finds a write."""
        if tensor.is_inference() or len(self.counters) >= _MOST_COUNTERS:
            self.own(self)
        else:
            self.counters.append(tensor)
            _newest[0] = next(_numbers)

    def own(self, owner: object) -> None:
        """Count this memory as written to as long as ``owner`` lives."""
        self.owners.append(weakref.ref(owner))
        self.write()

    def number(self) -> int:
        """A number that grows with every write."""
        if self.owners:
            self.owners = [owner for owner in self.owners if owner() is not None]
            self.written = next(_numbers)
        return self.written + sum(map(version, self.counters))


_watched: weakref.WeakValueDictionary[int, WatchedMemory] = weakref.WeakValueDictionary()  # by the storage's identity


class Watch:
    """The memory of some tensors, which it does not keep alive."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._memories = list(map(memory_of, tensors))
        self._inference = [index for index, tensor in enumerate(tensors) if tensor.is_inference()]
        self._read()

    def numbers(self) -> list[int]:
        """For each tensor a number that differs after every uncounted write to its memory.

        >>> weight = torch.nn.Parameter(torch.ones(3))
        >>> watch, optimizer = Watch([weight]), torch.optim.SGD([weight], lr=0.1, fused=True)
        >>> weight.sum().backward()
        >>> before = weight._version, watch.numbers()
        >>> optimizer.step()
        >>> weight._version == before[0], watch.numbers() == before[1]
        (True, False)
        """
        newest, counters, versions, open_, numbers = self._state
        if newest == _newest[0] and not open_ and (not counters or list(map(version, counters)) == versions):
            return numbers
        return self._read()

    def _read(self) -> list[int]:
        """Read everything, first what shows later that it is out of date."""
        newest = _newest[0]
        counters = [counter for memory in self._memories for counter in memory.counters]
        versions = list(map(version, counters))
        open_ = bool(self._inference) or any(memory.owners for memory in self._memories)
        numbers = [memory.number() for memory in self._memories]
        for index in self._inference:
            numbers[index] = next(_numbers)
        self._state = newest, counters, versions, open_, numbers  # at once: other threads read it
        return numbers


def memory_of(tensor: torch.Tensor) -> WatchedMemory:
    """The record of a tensor's memory, which is watched from now on."""
    identity: int = tensor.untyped_storage()._cdata
    found = _watched.get(identity)
    if found is None:
        found = _watched[identity] = WatchedMemory()
    return found


def watched(tensor: torch.Tensor) -> WatchedMemory | None:
    """The record of a tensor's memory if it is watched."""
    return _watched.get(tensor.untyped_storage()._cdata) if _watched else None


def refresh() -> None:
    """Have all modules compiled by :func:`zenith.from_torch` and by ``torch.compile`` look at their weights again.

    Only for writes that cannot be seen: of another process, by an address, through DLPack, or through a tensor or array
    of the same memory that is older than the compiled module. ``refresh()`` of a compiled module does so for it alone.
    """
    for memory in list(_watched.values()):
        memory.write()


def _note(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
    """Number what a step wrote to without being counted. TorchDynamo may record this as a part of the step."""
    foreign = not type(optimizer).__module__.startswith("torch.optim.")
    for group in optimizer.param_groups:
        if foreign or group.get("fused"):
            _number(group["params"], foreign)


@torch._disable_dynamo
def _number(parameters: Sequence[object], foreign: bool) -> None:
    """Give new numbers to all of these that have a gradient; a foreign step may have taken it away."""
    for parameter in parameters:
        if isinstance(parameter, torch.Tensor) and (foreign or parameter.grad is not None):
            memory = watched(parameter)
            if memory is not None:
                memory.write()


register_optimizer_step_post_hook(_note)
