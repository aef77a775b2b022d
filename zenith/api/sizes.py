"""Declared sizes: ``Dim`` names a size, says what is known of it, and ties axes of several arguments together.

>>> str(Dim("batch", min=1, multiple_of=8))
"Dim('batch', min=1, multiple_of=8)"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.api.binding import Condition
from zenith.errors import ShapeError
from zenith.ir import dims
from zenith.trace import InputSpec


@dataclass(frozen=True)
class Dim:
    """A declared size. Equal names are one size.

    Parameters
    ----------
    name: an identifier; it appears in graphs, messages and kernels.
    min, max: the range, both ends included. A call outside raises ShapeError.
    multiple_of: a number that divides the size.
    """

    name: str
    min: int = 0
    max: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ShapeError(
                f"a size is named by an identifier, not {self.name!r}",
                fix="name it with letters, digits and _, as 'batch'",
            )
        if self.min < 0 or self.multiple_of < 1 or (self.max is not None and self.max < self.min):
            raise ShapeError(f"no size is like {self}", fix="use min >= 0, max >= min and multiple_of >= 1")

    def __str__(self) -> str:
        words = [repr(self.name)]
        words += [f"min={self.min}"] if self.min else []
        words += [f"max={self.max}"] if self.max is not None else []
        words += [f"multiple_of={self.multiple_of}"] if self.multiple_of > 1 else []
        return f"Dim({', '.join(words)})"

    def conditions(self) -> list[Condition]:
        """What every call must keep."""
        tests = [f"{self.name} >= {self.min}"] if self.min else []
        tests += [f"{self.name} <= {self.max}"] if self.max is not None else []
        tests += [f"{self.name} % {self.multiple_of} == 0"] if self.multiple_of > 1 else []
        return [Condition(test, True, f"declared as {self}") for test in tests]


Declared = Mapping[str, Sequence[Any]]


def declare(specs: Sequence[InputSpec], declared: Declared) -> tuple[list[InputSpec], list[Condition]]:
    """Inputs with the sizes that ``declared`` gives by input name: a Dim, a name, an int, or None for a free axis.

    Raises ShapeError when an input of that name does not exist or has another rank.
    """
    known = {spec.name: spec for spec in specs}
    for name, sizes in declared.items():
        if name not in known or len(sizes) != len(known[name].sizes):
            what = "is no argument" if name not in known else f"has {len(known[name].sizes)} axes, not {len(sizes)}"
            raise ShapeError(f"dims declares {name}, which {what}", fix="the arguments are " + ", ".join(known))
    conditions: dict[Condition, None] = {}
    result = []
    for spec in specs:
        sizes = []
        for size, declaration in zip(spec.sizes, declared.get(spec.name, [None] * len(spec.sizes)), strict=True):
            if isinstance(declaration, Dim):
                conditions.update(dict.fromkeys(declaration.conditions()))
            sizes.append(_size(size, declaration))
        result.append(InputSpec(spec.name, spec.dtype, tuple(sizes), spec.hints, spec.weak))
    return result, list(conditions)


def _size(size: dims.Dim, declaration: Any) -> dims.Dim:
    if declaration is None:
        return size
    if isinstance(declaration, Dim):
        return dims.symbol(declaration.name)
    return dims.symbol(declaration) if isinstance(declaration, str) else dims.dim(declaration)
