"""Writes into arguments: a program gives the new contents of an array as a further result, and the call stores it.

The executable makes that result in the argument's own memory where the order of its steps allows it
(:mod:`zenith.backends.donation`); elsewhere it is copied there when the program has run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.arrays import NUMPY, Adapter
from zenith.errors import ArgumentError
from zenith.ir.types import NDArray


def _overlaps_itself(array: NDArray) -> bool:
    """Whether several elements of an array may lie at one place, as in views by ``numpy.lib.stride_tricks``."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return False
    reach = array.itemsize
    for stride, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False


def _share_memory(one: object, other: object) -> bool:
    """Whether two leaves have elements in common; of tensors, whether they may have."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.shares_memory(one, other)
    mine, theirs = _extent(one), _extent(other)
    return mine is not None and theirs is not None and mine[0] < theirs[1] and theirs[0] < mine[1]


def _extent(leaf: Any) -> tuple[int, int] | None:
    """The first byte of an array of NumPy's or PyTorch's, and the one after its last; None for other leaves."""
    if isinstance(leaf, np.ndarray):
        return np.lib.array_utils.byte_bounds(leaf) if leaf.size else None
    if not hasattr(leaf, "data_ptr") or not leaf.numel():
        return None
    last = sum((n - 1) * stride for n, stride in zip(leaf.shape, leaf.stride(), strict=True))
    begin = int(leaf.data_ptr())
    return begin, begin + (last + 1) * int(leaf.element_size())


@dataclass(frozen=True)
class Writes:
    """What a program writes: ``written`` maps results, which follow the function's own, to leaves by number.

    ``returned`` are the function's own results that are such a leaf; ``names`` are those of all leaves. The elements of
    leaves in ``in_rows`` must lie row by row without gaps, since the function reshapes them: elsewhere NumPy copies.
    """

    written: Mapping[int, int]
    returned: Mapping[int, int]
    names: Sequence[str]
    in_rows: frozenset[int] = frozenset()

    def check(self, leaves: Sequence[Any]) -> None:
        """ArgumentError for a leaf that is read-only, or shares memory with another leaf."""
        for number in self.written.values():
            leaf = leaves[number]
            for other, array in enumerate(leaves):
                if other != number and _share_memory(leaf, array):
                    self._refuse(number, other)
            if not isinstance(leaf, np.ndarray):
                continue
            if _overlaps_itself(leaf):
                raise ArgumentError(f"the function writes into {self.names[number]}, whose elements overlap each other",
                                    fix=f"pass {self.names[number]}.copy()")  # fmt: skip
            if not leaf.flags.writeable:
                raise ArgumentError(f"the function writes into {self.names[number]}, which is read-only",
                                    fix=f"pass {self.names[number]}.copy()")  # fmt: skip
            if number in self.in_rows and not leaf.flags.c_contiguous:
                raise ArgumentError(f"the function reshapes {self.names[number]} and writes into it, and its elements "
                                    "do not lie row by row, so that NumPy might copy them",
                                    fix=f"pass numpy.ascontiguousarray({self.names[number]})")  # fmt: skip

    def _refuse(self, number: int, other: int) -> None:
        raise ArgumentError(
            f"the function writes into {self.names[number]}, whose memory is also that of {self.names[other]}",
            fix=f"pass {self.names[other]}.copy(), or call the function without jit",
        )

    def stored(self, results: list[Any], leaves: Sequence[Any], adapters: Sequence[Adapter]) -> list[Any]:
        """The function's own results, once the others are in the memory of the leaves."""
        for result, number in self.written.items():
            if results[result] is not leaves[number]:
                adapters[number].assign(leaves[number], results[result])
        own = results[: len(results) - len(self.written)]
        for result, number in self.returned.items():
            own[result] = leaves[number]
        return own

    def in_place(self, leaves: Sequence[Any], adapters: Sequence[Adapter]) -> dict[int, int]:
        """The results that the executable may make in the memory of their leaves.

        NumPy's alone: other libraries count the writes.
        """
        return {r: n for r, n in self.written.items() if adapters[n] is NUMPY and isinstance(leaves[n], np.ndarray)}
