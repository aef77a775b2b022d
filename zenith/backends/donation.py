"""Donated arguments: arrays that the caller gives up, whose memory results may take.

A result takes the memory of an argument of its size if every step that touches the argument comes before the first one
that touches the result. No kernel then reads and writes the same memory, and of a program nothing changes but an
address. In a training step the update of one weight is written where that of an earlier one was read. Or the last step
that touches the argument copies it to the result, which is then written in place: on one memory the copy changes
nothing, and may be left out.

A result may also be *written* to one argument: its new contents, as of a tensor that PyTorch changes in place. Then
only that argument is taken, also if its memory is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from zenith.backends.steps import walk
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType

Named = Sequence[tuple[str, ArrayType]]
Pairs = tuple[tuple[int, int], ...]


class _Program(Protocol):
    """A plan, or what a backend made of it."""

    @property
    def steps(self) -> Iterable[Any]: ...

    @property
    def inputs(self) -> Iterable[str]: ...

    @property
    def outputs(self) -> Named: ...


class Donation:
    """Which inputs of a program are donated, and when its steps touch inputs and results.

    ``written`` maps the number of a result to that of the input to which it is written.
    """

    def __init__(
        self, steps: Iterable[Any], inputs: Named, outputs: Named, donated: Sequence[bool],
        written: Mapping[int, int] | None = None,
    ) -> None:  # fmt: skip
        self.inputs, self.outputs, self.written = inputs, outputs, dict(written or {})
        self.given = sorted({i for i, flag in enumerate(donated) if flag} | {*self.written.values()})
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self.copies: dict[tuple[int, int], int] = {}  # a result and the input that a step copies to it -> the step
        for number, step in enumerate(steps):
            self._note_copy(number, step)
            for name in {a.name for inner in walk([step]) for a in inner.allocations}:
                self._first.setdefault(name, number)
                self._last[name] = number

    @classmethod
    def of(
        cls, program: _Program, graph: Graph, donated: Sequence[bool], written: Mapping[int, int]
    ) -> Donation | None:
        """The donation of a program's inputs, which are those of ``graph``; None where no memory is given away."""
        if not (any(donated) or written):
            return None
        types = [value.type for value in graph.inputs if isinstance(value.type, ArrayType)]
        return cls(program.steps, list(zip(program.inputs, types, strict=True)), program.outputs, donated, written)

    def pairs(self, sizes: Mapping[str, int]) -> Pairs:
        """Pairs of a result and the donated input, by number, whose memory it takes; each at most once."""
        free = {i: _kind(self.inputs[i][1], sizes) for i in self.given}
        found = []
        for result in sorted(range(len(self.outputs)), key=self._begin):
            kind, begin = _kind(self.outputs[result][1], sizes), self._begin(result)
            fitting = [i for i, own in free.items() if own == kind and self._is_over(i, result, begin)]
            fitting = [i for i in fitting if self._is_meant(i, result)]
            argument = min(fitting, key=lambda i: (result, i) not in self.copies, default=None)
            if argument is not None:
                del free[argument]
                found.append((result, argument))
        return tuple(found)

    def _note_copy(self, number: int, step: Any) -> None:
        inputs = {name: i for i, (name, _) in enumerate(self.inputs)}
        outputs = {name: i for i, (name, _) in enumerate(self.outputs)}
        if getattr(step, "copies", False):
            source, target = (a.name for a in step.allocations)
            if source in inputs and target in outputs:
                self.copies[outputs[target], inputs[source]] = number

    def _is_over(self, argument: int, result: int, begin: int) -> bool:
        """Whether an argument is dead when a result's first step runs, but for a step that copies it there."""
        last = self._last.get(self.inputs[argument][0], -1)
        return last < begin or last == begin == self.copies.get((result, argument))

    def _is_meant(self, argument: int, result: int) -> bool:
        """Whether a result may take an argument's memory: one that is written to an argument takes no other's."""
        own = self.written.get(result)
        return own == argument if own is not None else argument not in self.written.values()

    def _begin(self, result: int) -> int:
        return self._first.get(self.outputs[result][0], -1)


class Adapter(Protocol):
    """Decides whether an array's memory may be taken (see :mod:`zenith.arrays`)."""

    def is_sole_owner(self, array: object) -> bool: ...

    def dense_address(self, array: object) -> int | None: ...


def results_in(
    pairs: Pairs,
    makers: Sequence[Callable[[], object]],
    arrays: Sequence[object],
    adapters: Sequence[Adapter],
    addresses: Sequence[int | None],
    results: object,
    alignment: int = 1,
    written: Mapping[int, int] | None = None,
) -> list[object]:
    """Memory for results: of donated arguments where these share theirs with nothing else in the call, else new.

    An argument is taken if it is an array of the library of ``results``, at a multiple of ``alignment``; one in
    ``written`` is taken even if its memory is shared.
    """
    given: dict[int, object] = {}
    for result, argument in pairs:
        array, adapter, address = arrays[argument], adapters[argument], addresses[argument]
        if adapter is not results or address is None or address % alignment or addresses.count(address) > 1:
            continue
        meant = address and written is not None and written.get(result) == argument
        owned = meant and adapter.dense_address(array) == address  # not that of a dense copy
        if owned or adapter.is_sole_owner(array):
            given[result] = array
    return [given[i] if i in given else make() for i, make in enumerate(makers)]


def _kind(type: ArrayType, sizes: Mapping[str, int]) -> tuple[Hashable, ...]:
    return type.dtype, tuple(size.evaluate(sizes) for size in type.shape)
