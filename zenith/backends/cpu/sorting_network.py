"""Steps of sorting networks on lanes, here as ordinary functions on NumPy arrays.

Lane l of the vectors ``words[i * LANES : (i + 1) * LANES]`` is a sequence of its own, and all lanes are sorted at once:
which elements are compared does not depend on them (K. E. Batcher, "Sorting networks and their applications", AFIPS
1968). Each function works on a few vectors, which are in registers in compiled code
(:mod:`zenith.backends.cpu.sorting_network_code`), and so on several levels of a network for one load and store of each.
The functions here are its twins, with which kernels run undecorated.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def sort_words(LANES: int, words: NDArray, at: int) -> None:
    """Sort the eight vectors from vector ``at`` on, lane by lane; LANES is a literal in compiled code.

    >>> words = np.array([7, 0, 6, 1, 5, 2, 4, 3, 3, 4, 2, 5, 1, 6, 0, 7])
    >>> sort_words(2, words, 0)
    >>> words.reshape(8, 2).T.tolist()
    [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]]
    """
    _compare(LANES, words, range(at, at + 8), EIGHT)


def merge_words(
    LANES: int, COUNT: int, MIRRORED: int, words: NDArray, first: int, last: int, step: int
) -> None:  # fmt: skip
    """The first levels of a merge, on COUNT vectors (2, 4 or 8): half of them from ``first`` up, half to ``last``.

    They are ``step`` apart. If MIRRORED, what is merged are two runs that both ascend, else it is bitonic. What is in
    capitals is a literal in compiled code.

    >>> words = np.array([1, 5, 2, 4])
    >>> merge_words(1, 4, 1, words, 0, 3, 1)
    >>> words.tolist()
    [1, 2, 4, 5]
    """
    half = range(COUNT // 2)
    vectors = [first + i * step for i in half] + [last - i * step for i in reversed(half)]
    _compare(LANES, words, vectors, comparators(COUNT, bool(MIRRORED)))


def transpose_words(LANES: int, source: NDArray, first: int, to: NDArray, to_first: int) -> None:
    """Write the transposed square of the LANES vectors of ``source`` from vector ``first`` on to ``to``.

    >>> words, square = np.array([0, 0, 1, 2, 3, 4]), np.zeros(4, int)
    >>> transpose_words(2, words, 1, square, 0)
    >>> square.tolist()
    [1, 3, 2, 4]
    """
    square = source[first * LANES : (first + LANES) * LANES].reshape(LANES, LANES)
    to[to_first * LANES : (to_first + LANES) * LANES] = square.T.reshape(-1)


def _compare(lanes: int, words: NDArray, vectors: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
    """The smaller ones of each pair of vectors go to its first, the larger ones to its second."""
    rows = [words[at * lanes : (at + 1) * lanes] for at in vectors]
    for i, j in pairs:
        rows[i][:], rows[j][:] = np.minimum(rows[i], rows[j]), np.maximum(rows[i], rows[j])
