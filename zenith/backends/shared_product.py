"""A product tile that a team of threads computes together, here as an ordinary function on NumPy arrays.

On a GPU a block of threads computes a tile of a product: it stages the next terms of both operands in shared memory,
and each thread sums some elements in registers (Volkov and Demmel, "Benchmarking GPUs to tune dense linear
algebra", SC 2008). The tile is *guarded*: a thread asks whether its element is inside, so that one form serves every
remainder, one row as well as a whole tile, and nothing needs to be padded or packed. Each printer writes it
differently; the function here is the reference of all of them, with which kernels run undecorated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.backends.tf32 import rounded_to_tf32
from zenith.ir.types import NDArray

Step = int | tuple[Any, ...]  # from one element to the next of an axis, which may be folded


def shared_product(
    ROWS: int, COLUMNS: int, height: int, width: int,
    c: NDArray, c_at: int, c_row: int, c_column: int,
    a: NDArray, a_at: int, a_row: Step, a_k: Step,
    b: NDArray, b_at: int, b_k: int, b_column: int,
    k: int, onto: int,
) -> None:  # fmt: skip
    """Compute ``C[r, j] = sum over kk of A[r, kk] * B[kk, j]`` for ``r < height`` and ``j < width``.

    ``A[r, kk]`` is ``a[a_at + r*a_row + kk*a_k]``, and so on: positions and strides are counted in elements. An axis of
    A that is folded has ``(first, (extent, step), ...)`` as its stride: digits of ``first + r``, outermost first. The
    three buffers have one element type: float32, float64, int32, int64 or uint32, whose sums wrap; with a C of float32,
    A and B may be of 16-bit floats. Unless ``onto`` is 0, the sums are added to C's elements. C overlaps neither A nor
    B; ``k``, ``height`` and ``width`` may be 0. ROWS and COLUMNS, the most that height and width can be, are literals
    in compiled code; the result does not depend on them.

    >>> c, a, b = np.zeros(6, np.float32), np.arange(6, dtype=np.float32), np.ones(12, np.float32)
    >>> shared_product(4, 4, 2, 2, c, 0, 3, 1, a, 0, 3, 1, b, 0, 4, 1, 3, 0)
    >>> c
    array([ 3.,  3.,  0., 12., 12.,  0.], dtype=float32)
    """
    rows, terms, columns = np.arange(height)[:, None], np.arange(k), np.arange(width)
    left = a[a_at + _along(rows, a_row) + _along(terms, a_k)].astype(c.dtype, copy=False)
    right = b[b_at + terms[:, None] * b_k + columns * b_column].astype(c.dtype, copy=False)
    at = c_at + rows * c_row + columns * c_column
    with np.errstate(all="ignore"):
        c[at] = left @ right + (c[at] if onto else c.dtype.type(0))


def _along(numbers: NDArray, step: Step) -> NDArray:
    """The offsets of elements along an axis, which may be folded, from its first element."""
    if not isinstance(step, tuple):
        return numbers * step
    first, *digits = step
    at, rest = 0, numbers + first
    for extent, of_digit in digits[:0:-1]:
        at, rest = at + rest % max(extent, 1) * of_digit, rest // max(extent, 1)
    return at + rest * digits[0][1]


def tf32_product(
    ROWS: int, COLUMNS: int, height: int, width: int,
    c: NDArray, c_at: int, c_row: int, c_column: int,
    a: NDArray, a_at: int, a_row: Step, a_k: Step,
    b: NDArray, b_at: int, b_k: int, b_column: int,
    k: int, onto: int,
) -> None:  # fmt: skip
    """The same with operands of float32 that are rounded to TF32."""
    left, right = rounded_to_tf32(a), rounded_to_tf32(b)
    shared_product(ROWS, COLUMNS, height, width, c, c_at, c_row, c_column,
                   left, a_at, a_row, a_k, right, b_at, b_k, b_column, k, onto)  # fmt: skip
