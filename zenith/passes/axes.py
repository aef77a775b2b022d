"""Which axes a reshape leaves alone, and which it splits or joins: the arithmetic of moving reshapes.

>>> from zenith.ir.dims import dims, symbol
>>> b, s = symbol("b"), symbol("s")
>>> align(dims((b, s, 8)), dims((b * s, 8)))
Alignment(axes={2: 1}, old_rest=(0, 1), new_rest=(0,))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from zenith.ir.dims import Dim

Shape = Sequence[Dim]


@dataclass(frozen=True, slots=True)
class Alignment:
    """``axes`` maps old axes to the new axes of the same elements; the rests are mixed; axes of size 1 are in none."""

    axes: dict[int, int]
    old_rest: tuple[int, ...]
    new_rest: tuple[int, ...]


def proper_axes(shape: Shape) -> list[int]:
    """The axes whose size is not the number 1."""
    return [a for a, n in enumerate(shape) if n != 1]


def align(old: Shape, new: Shape) -> Alignment:
    """How a row-major reshape from ``old`` to ``new`` treats axes: equal leading and trailing sizes are unmixed."""
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


def subsequence(sizes: Shape, whole: Shape) -> tuple[int, ...] | None:
    """The axes of ``whole`` that have ``sizes``, in order, where all axes between them are of size 1; else None."""
    axes: list[int] = []
    for axis, size in enumerate(whole):
        if len(axes) < len(sizes) and size == sizes[len(axes)]:
            axes.append(axis)
        elif size != 1:
            return None
    return tuple(axes) if len(axes) == len(sizes) else None


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Neighbouring axes of the old shape, and those of the new one that index the same elements."""

    old: tuple[int, ...]
    new: tuple[int, ...]


def pieces(old: Shape, new: Shape) -> tuple[AxisGroup, ...]:
    """The smallest pieces of a reshape, from front to back; a single one for an array without elements.

    An axis of size 1 belongs to a neighbouring piece.

    >>> from zenith.ir.dims import dims, symbol
    >>> b, s = symbol("b"), symbol("s")
    >>> pieces(dims((b * s, 24)), dims((1, b, s, 3, 8)))
    (AxisGroup(old=(0,), new=(0, 1, 2)), AxisGroup(old=(1,), new=(3, 4)))
    """
    return _pieces(tuple(old), tuple(new))


@lru_cache(maxsize=1024)  # a program has few shapes
def _pieces(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> tuple[AxisGroup, ...]:
    if any(n == 0 for n in (*old, *new)):
        return (AxisGroup(tuple(range(len(old))), tuple(range(len(new)))),)
    found: list[AxisGroup] = []
    left, right = len(old), len(new)
    old_sizes, new_sizes = _suffix_sizes(old), _suffix_sizes(new)
    for start in (axis for axis in reversed(range(len(old))) if old[axis] != 1):
        match = next((axis for axis in reversed(range(right)) if new_sizes[axis] == old_sizes[start]), None)
        if match is not None:
            found.append(AxisGroup(tuple(range(start, left)), tuple(range(match, right))))
            left, right = start, match
    if left or right:
        last = found.pop() if found and not (left and right) else AxisGroup((), ())
        found.append(AxisGroup((*range(left), *last.old), (*range(right), *last.new)))
    return tuple(reversed(found))


def spread_axes(old: Shape, axes: Sequence[int], new: Shape) -> tuple[int, ...] | None:
    """The new axes, after a reshape, of the axes ``axes`` of ``old``; None where it mixes them with others.

    >>> from zenith.ir.dims import dims, symbol
    >>> b, s = symbol("b"), symbol("s")
    >>> spread_axes(dims((b, s, 8)), (0, 1), dims((b * s, 8)))
    (0,)
    """
    found: list[int] = []
    for piece in pieces(old, new):
        proper = [a for a in piece.old if old[a] != 1]
        inside = [a for a in proper if a in axes]
        if inside and inside != proper:
            return None
        found += [a for a in piece.new if inside and new[a] != 1]
    return tuple(found)


def _suffix_sizes(shape: Shape) -> list[Dim]:
    """For each axis the product of its size and the sizes of all later axes."""
    return [*accumulate(reversed(shape), Dim.__mul__)][::-1]
