"""Results whose sizes the program computes: their memory is as large as they can be, and they keep what they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from zenith.arrays import NUMPY, Adapter
from zenith.backends.backend import AxisSize
from zenith.ir.types import ArrayType, NDArray
from zenith.trace import TraceResult


@dataclass(frozen=True)
class DataDependentSizes:
    """The sizes of a program's results that it computes: ``numbers``, results number ``first`` and following.

    ``types`` are those of the results that have such sizes, by number.
    """

    numbers: tuple[str, ...]
    first: int
    types: Mapping[int, ArrayType]

    @classmethod
    def of(cls, traced: TraceResult) -> DataDependentSizes | None:
        """Those of a trace; None where it has none."""
        if not traced.computed:
            return None
        first = len(traced.outputs_weak)
        outputs = [v.type for v in traced.graph.outputs[:first]]
        names = set(traced.computed)
        arrays = {i: t for i, t in enumerate(outputs) if isinstance(t, ArrayType)}
        varying = {i: t for i, t in arrays.items() if any(n.symbols() & names for n in t.shape)}
        return cls(traced.computed, first, varying)

    def axes(self) -> dict[int, list[AxisSize]] | None:
        """The axes of these sizes by result; None where a size follows from one of them, and is not it."""
        known = {name: self.first + i for i, name in enumerate(self.numbers)}
        found = {
            number: [(axis, str(size)) for axis, size in enumerate(type.shape) if size.symbols() & known.keys()]
            for number, type in self.types.items()
        }
        if not all(name in known for axes in found.values() for _, name in axes):
            return None
        return {number: [AxisSize(axis, known[name]) for axis, name in axes] for number, axes in found.items()}

    def trimmed(
        self, made: Sequence[Any], sizes: Mapping[str, int], adapter: Adapter, leaves: Sequence[object]
    ) -> list[Any]:
        """The results as they are, without the numbers; some may be in the memory of the call's ``leaves``."""
        found, numbers = list(made), made[self.first : self.first + len(self.numbers)]
        known = {**sizes, **{name: int(adapter.numpy(n)) for name, n in zip(self.numbers, numbers, strict=True)}}
        for number, type in self.types.items():
            shape = tuple(size.evaluate(known) for size in type.shape)
            if adapter is NUMPY and _is_new(made[number], leaves):
                found[number].resize(shape, refcheck=False)  # what is not needed is freed
                continue
            found[number] = adapter.maker(shape, type.dtype)()
            elements = adapter.numpy(made[number]).reshape(-1)[: prod(shape)]
            adapter.numpy(found[number])[...] = elements.reshape(shape)
        del found[self.first : self.first + len(self.numbers)]
        return found


def _is_new(array: NDArray, leaves: Sequence[object]) -> bool:
    """Whether nobody else has an array, or its memory, which a donated argument may have given."""
    return array.base is None and all(array is not leaf for leaf in leaves)
