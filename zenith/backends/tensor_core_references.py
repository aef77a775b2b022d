"""Tiles for products on tensor cores, as NumPy functions: staging copies, and products with sums in registers.

They are references of the statements of these names (:mod:`zenith.backends.tiles`): with them a kernel runs on plain
arrays. Tiles are row-major here. On a GPU, :mod:`zenith.backends.cuda.register_matrices` writes both in the layout of
the instructions.
"""

from __future__ import annotations

import numpy as np

from zenith.ir.types import DTYPES, NDArray

_TYPES = {str(t): t.numpy for t in DTYPES}


def stage_tile(
    ROWS: int, COLUMNS: int, to: NDArray, source: NDArray, at: int, row: int, column: int, height: int, width: int,
    offset: int,
) -> None:  # fmt: skip
    """Copy ``source[at + r * row + j * column]`` to ``to[offset + r * COLUMNS + j]``, ``r < height`` and ``j < width``.

    The rest of the tile of ROWS x COLUMNS elements becomes zero.

    >>> tile = np.ones(8)
    >>> stage_tile(2, 4, tile, np.arange(6.0), 1, 3, 1, 2, 2, 0)
    >>> tile
    array([1., 2., 0., 0., 4., 5., 0., 0.])
    """
    tile = to[offset : offset + ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    tile[...] = 0
    rows, columns = np.arange(height)[:, None], np.arange(width)
    tile[:height, :width] = source[at + rows * row + columns * column]


def register_product(
    ROWS: int, COLUMNS: int, TERMS: int, TRANSPOSED: int, ONTO: int, KIND: str, target: NDArray, a: NDArray,
    b: NDArray, offset: int,
) -> None:  # fmt: skip
    """``target[r, j] = sum over k of a[r, k] * b[j, k]``, of ``b[k, j]`` where TRANSPOSED, added to it where ONTO.

    ``a`` is rounded to elements of the type KIND, which ``b`` has, from ``offset`` on.

    >>> target = np.zeros(2, np.float32)
    >>> register_product(1, 2, 2, 0, 0, "f16", target, np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0, 6.0]), 0)
    >>> target
    array([11., 17.], dtype=float32)
    """
    with np.errstate(all="ignore"):
        left = a[: ROWS * TERMS].reshape(ROWS, TERMS).astype(_TYPES[KIND]).astype(np.float32)
        lines = b[offset : offset + COLUMNS * TERMS]
        right = lines.reshape(TERMS, COLUMNS) if TRANSPOSED else lines.reshape(COLUMNS, TERMS).T
        sums = target[: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
        sums[...] = left @ right.astype(np.float32) + (sums if ONTO else np.float32(0))
