"""The register tile of block-scaled products, as an ordinary function on NumPy arrays.

In compiled code it is LLVM vectors (:mod:`zenith.backends.cpu.scaled_tile_code`); the function here is its twin, with
which kernels run undecorated. The sums of a group are exact, and added to the row's in the order of the groups, in
float32: an element depends on its terms alone, not on the tile or on who computes it.
"""

from __future__ import annotations

import numpy as np

from zenith.ir.ops.scaled_product import middle, unpacked
from zenith.ir.types import NDArray


def scaled_tile(
    ROWS: int, VECTORS: int, LANES: int, BITS: int, GROUP: int,
    c: NDArray, c_at: int, c_row: int,
    a: NDArray, a_at: int, a_row: int,
    a_scales: NDArray, a_scales_at: int, a_scales_row: int, a_scales_group: int,
    b: NDArray, b_at: int,
    b_scales: NDArray, b_scales_at: int,
    groups: int, onto: int,
) -> None:  # fmt: skip
    """Compute ROWS rows of VECTORS * LANES columns of C, float32.

    ``C[r, j]`` is the sum over groups g of ``a_scales[r, g] * b_scales[g, j]`` times the sum over the GROUP terms k of
    the group of ``A[r, k] * (level[k, j] - 2**(BITS - 1))``. A is int8, ``a[a_at + r*a_row + k]``. B is a panel of
    uint32, whose words are four neighbours in a column of bytes as :mod:`zenith.ir.ops.scaled_product` has them. Scales
    are float32, those of A at any two strides, those of B a panel with a row for each group. Unless ``onto`` is 0, C
    has the sums of earlier groups, to which these are added.
    """
    rows, width, terms = np.arange(ROWS)[:, None], VECTORS * LANES, groups * GROUP
    words = b[b_at : b_at + terms * BITS // 32 * width].reshape(-1, width)
    stored = np.moveaxis(np.ascontiguousarray(words).view(np.uint8).reshape(-1, width, 4), -1, 1).reshape(-1, width)
    right = unpacked(stored, BITS).astype(np.int32) - middle(BITS)
    left = a[a_at + rows * a_row + np.arange(terms)].astype(np.int32)
    at = c_at + rows * c_row + np.arange(width)
    total = c[at] if onto else np.zeros((ROWS, width), np.float32)
    for group in range(groups):
        span = slice(group * GROUP, (group + 1) * GROUP)
        of_rows = a_scales[a_scales_at + rows * a_scales_row + group * a_scales_group]
        of_columns = b_scales[b_scales_at + group * width : b_scales_at + (group + 1) * width]
        with np.errstate(all="ignore"):
            total = total + (left[:, span] @ right[span]).astype(np.float32) * (of_rows * of_columns)
    c[at] = total
