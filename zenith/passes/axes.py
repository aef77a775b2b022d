"""Which axes a reshape leaves alone: the arithmetic behind moving it.

>>> from zenith.ir.dims import dims, symbol
>>> b, s = symbol("b"), symbol("s")
>>> align(dims((b, s, 8)), dims((b * s, 8)))
Alignment(axes={2: 1}, old_rest=(0, 1), new_rest=(0,))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenith.ir.dims import Dim

Shape = Sequence[Dim]


@dataclass(frozen=True, slots=True)
class Alignment:
    """``axes`` maps old axes to the new axes that keep their index; the rests are mixed; axes of size 1 are in none."""

    axes: dict[int, int]
    old_rest: tuple[int, ...]
    new_rest: tuple[int, ...]


def proper_axes(shape: Shape) -> list[int]:
    """The axes whose size is not the number 1."""
    return [a for a, n in enumerate(shape) if n != 1]


def align(old: Shape, new: Shape) -> Alignment:
    """How a row-major reshape from ``old`` to ``new`` treats axes: equal leading and trailing sizes stay in place."""
    left, right = proper_axes(old), proper_axes(new)
    axes: dict[int, int] = {}
    while left and right and old[left[0]] == new[right[0]]:
        axes[left.pop(0)] = right.pop(0)
    while left and right and old[left[-1]] == new[right[-1]]:
        axes[left.pop()] = right.pop()
    return Alignment(axes, tuple(left), tuple(right))


def inserts_units(old: Shape, new: Shape) -> bool:
    """Whether a reshape from ``old`` to ``new`` only adds axes of size 1."""
    return len(new) > len(old) and subsequence(old, new) is not None


def subsequence(part: Shape, whole: Shape) -> tuple[int, ...] | None:
    """Places in ``whole`` of the sizes of ``part``, in order, where everything between them is 1; else None."""
    places: list[int] = []
    for place, size in enumerate(whole):
        if len(places) < len(part) and size == part[len(places)]:
            places.append(place)
        elif size != 1:
            return None
    return tuple(places) if len(places) == len(part) else None
