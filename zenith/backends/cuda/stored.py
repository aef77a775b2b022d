"""Saved programs of a GPU: the inputs of planning, with machine code, as one record.

It is a module of its own, since whoever reads a file must know the record, and not every machine has a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zenith.backends.codec import record
from zenith.errors import SourceLine
from zenith.ir.numerics import Numerics
from zenith.ir.types import NDArray


@record
@dataclass(frozen=True, slots=True)
class CudaProgram:
    """All of a program but its graph's text: where it runs, the user's line of every node, arrays, and code.

    ``plan`` is the digest of the plan's text. ``codes`` has PTX and machine code of every form of a kernel that was
    loaded, by the name of its code.
    """

    device: int
    arch: str
    numerics: Numerics
    lines: tuple[SourceLine | None, ...]
    plan: str
    constants: Mapping[str, NDArray]
    weights: Mapping[str, NDArray]
    codes: Mapping[str, tuple[bytes, bytes]]

    @property
    def arrays(self) -> list[NDArray]:
        """The arrays that it brings."""
        return [*self.constants.values(), *self.weights.values()]
