"""Steps of sorting networks on lanes, here as ordinary functions on NumPy arrays.

Lane l of the vectors ``words[i * LANES : (i + 1) * LANES]`` is a sequence of its own, and all lanes are sorted at once:
which elements are compared does not depend on them (K. E. Batcher, "Sorting networks and their applications", AFIPS
1968). Sequences of neighbouring lanes can then be merged: a group of lanes is a sequence that goes down the first lane,
then down the next one. Each function works on a few vectors, which are in registers in compiled code
(:mod:`zenith.backends.cpu.sorting_network_code`), and so on several levels of a network for one load and store of each.
The functions here are its twins, with which kernels run undecorated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.ir.types import NDArray

EIGHT = (
    (0, 1), (2, 3), (4, 5), (6, 7), (0, 2), (1, 3), (4, 6), (5, 7), (1, 2), (5, 6),
    (0, 4), (1, 5), (2, 6), (3, 7), (2, 4), (3, 5), (1, 2), (3, 4), (5, 6),
)  # fmt: skip
"""The comparators of Batcher's odd-even merge sort of eight."""


def comparators(count: int, mirrored: bool) -> list[tuple[int, int]]:
    """Those that make a bitonic sequence of ``count`` ascending; if ``mirrored``, two ascending halves."""
    half = count // 2
    found = [(i, count - 1 - i if mirrored else i + half) for i in range(half)]
    while half > 1:
        half //= 2
        found += [(i, i + half) for i in range(count) if i % (2 * half) < half]
    return found


def sort_words(LANES: int, words: NDArray, first: int, many: int) -> None:
    """Sort the ``many`` runs of eight vectors from vector ``first`` on, lane by lane.

    What is in capitals is a literal in compiled code, here and below.

    >>> words = np.array([7, 0, 6, 1, 5, 2, 4, 3, 3, 4, 2, 5, 1, 6, 0, 7])
    >>> sort_words(2, words, 0, 1)
    >>> words.reshape(8, 2).T.tolist()
    [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]]
    """
    for run in range(many):
        _compare(_vectors(LANES, words, range(first + 8 * run, first + 8 * run + 8)), EIGHT)


def merge_words(
    LANES: int, COUNT: int, MIRRORED: int, words: NDArray, first: int, last: int, step: int, many: int
) -> None:  # fmt: skip
    """The first levels of merges, each on COUNT vectors (2, 4 or 8): half of them from ``first`` up, half to ``last``.

    They are ``step`` apart. Of each of the ``many`` merges ``first`` is one vector further. If MIRRORED is 0, what is
    merged is bitonic, and ``last`` is further, too. Else two runs that ascend are merged, and ``last`` goes down: two
    runs in each lane if it is 1, two that go through all lanes if it is 2.

    >>> words = np.array([1, 5, 2, 4])
    >>> merge_words(1, 4, 1, words, 0, 3, 1, 1)
    >>> words.tolist()
    [1, 2, 4, 5]
    """
    half = range(COUNT // 2)
    for run in range(many):
        end = last - run if MIRRORED else last + run
        vectors = [first + run + i * step for i in half] + [end - i * step for i in reversed(half)]
        found = _vectors(LANES, words, vectors)
        if MIRRORED == 2:
            found[COUNT // 2 :] = [vector[::-1] for vector in found[COUNT // 2 :]]
        _compare(found, comparators(COUNT, bool(MIRRORED)))


def merge_lanes(LANES: int, GROUP: int, MIRRORED: int, words: NDArray, first: int, last: int, many: int) -> None:
    """The levels of a merge that compare lanes, for each group of GROUP lanes, on two vectors at a time.

    Of each of the ``many`` pairs ``first`` is one vector further, and ``last``, too, if a group is bitonic. If
    MIRRORED, its two halves ascend, and ``last`` goes down: both vectors are equally far from the ends of their lanes,
    and the first level compares each element with its mirror image in the group. Then each lane is bitonic.

    >>> words = np.array([1, 2, 4, 3])
    >>> merge_lanes(2, 2, 1, words, 0, 1, 1)
    >>> words.reshape(2, 2).T.tolist()
    [[1, 2], [4, 3]]
    """
    for run in range(many):
        vectors = _vectors(LANES, words, (first + run, last - run if MIRRORED else last + run))
        pair, stride = np.stack(vectors).reshape(2, -1, GROUP), GROUP // 2
        if MIRRORED:
            low, high = pair[:, :, :stride], pair[::-1, :, : stride - 1 : -1]
            pair[:, :, :stride], high[:] = np.minimum(low, high), np.maximum(low, high)
            stride //= 2
        while stride:
            halves = pair.reshape(2, -1, 2, stride)
            pair = np.stack([halves.min(2), halves.max(2)], 2)
            stride //= 2
        vectors[0][:], vectors[1][:] = pair.reshape(2, LANES)


def transpose_words(LANES: int, source: NDArray, first: int, to: NDArray, to_first: int) -> None:
    """Write the transposed square of the LANES vectors of ``source`` from vector ``first`` on to ``to``.

    >>> words, square = np.array([0, 0, 1, 2, 3, 4]), np.zeros(4, int)
    >>> transpose_words(2, words, 1, square, 0)
    >>> square.tolist()
    [1, 3, 2, 4]
    """
    square = source[first * LANES : (first + LANES) * LANES].reshape(LANES, LANES)
    to[to_first * LANES : (to_first + LANES) * LANES] = square.T.reshape(-1)


def _vectors(lanes: int, words: NDArray, numbers: Iterable[int]) -> list[NDArray]:
    return [words[at * lanes : (at + 1) * lanes] for at in numbers]


def _compare(vectors: Sequence[NDArray], pairs: Sequence[tuple[int, int]]) -> None:
    """The smaller ones of each pair of vectors go to its first, the larger ones to its second."""
    for i, j in pairs:
        vectors[i][:], vectors[j][:] = np.minimum(vectors[i], vectors[j]), np.maximum(vectors[i], vectors[j])
