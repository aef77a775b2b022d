"""The register tile: the innermost part of every matrix product, here as an ordinary function on NumPy arrays.

``product_tile`` multiplies ROWS rows of A with a panel of VECTORS * LANES columns of B. Each of its ROWS * VECTORS
accumulators is one vector register while K runs, which no loop that a vectoriser has to transform can promise. A kernel
calls it on a small scratch tile C and then applies bias, activation and residual to C, still in the first-level cache,
with ordinary loops.

In compiled code it is LLVM vectors (:mod:`zenith.backends.cpu.tile_code`); the function here is its twin, with which
kernels run undecorated. In both, positions and strides are counted in elements.

Order of summation: a call takes its terms in order, starting from zero, and then adds its sums to what was in C.
Products cut K into blocks of ``BLOCK`` terms, one call each. Nothing else enters: an element depends on K and on
whether the instruction set fuses multiply and add, not on the tile, on its neighbours, or on who computes it. Short
blocks bound the rounding error of long sums, and a block of B stays in the second-level cache.

``pack_panel`` copies a block of B into a panel, which the tile reads at full speed. Where the processor adds several
products of narrow elements to a sum of 32 bits in one instruction, an element of a panel is a *word*: two bfloat16, or
four int8, neighbours in a column. The buffer of B is then one of uint32, and the distance of its rows is that of words.

The design of the tile and of the packed panels follows Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication" (ACM TOMS 34, 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.ir.types import NDArray, bfloat16

BLOCK = 512  # terms summed from zero before they join the total; 256, 384 and 768 were not faster at K = 768 and 3072
UNROLL = 4  # terms per iteration of the loop; 2 was 5 % slower, 8 doubles the code
LINE = 64  # bytes of a cache line
NEAR = 16  # terms by which a tile and a copy fetch B ahead: one row by 768x3072 takes 0.29 ms, without it 0.50


def lookahead(itemsize: int) -> int:
    """How many elements of B per term it is to fetch a cache line in every iteration of the loop."""
    return LINE // itemsize // UNROLL


def product_tile(
    ROWS: int, VECTORS: int, LANES: int, LINES: int,
    c: NDArray, c_at: int, c_row: int,
    a: NDArray, a_at: int, a_row: int, a_k: int,
    b: NDArray, b_at: int, b_k: int,
    k: int, ahead: int, onto: int,
) -> None:  # fmt: skip
    """Compute ``C[r, j] = sum over kk of A[r, kk] * B[kk, j]`` for ROWS rows and VECTORS * LANES columns.

    ``A[r, kk]`` is ``a[a_at + r*a_row + kk*a_k]``, ``B[kk, j]`` is ``b[b_at + kk*b_k + j]`` and ``C[r, j]`` is
    ``c[c_at + r*c_row + j]``. The three buffers have one element type: float32, float64, int32, int64 or uint32, whose
    sums wrap; with a C of float32, A and B may have 16-bit floats. A B of uint32 has words of bfloat16 for an A of that
    (and a C of float32), and of int8 for an A of uint8 (and a C of int32). The terms of A are then neighbours (``a_k``
    is 1), filled up to whole words with zeros, or with any bytes. A and B of uint32, and a C of float32, both have
    words of bfloat16, of which there are ``k``, ``a_k`` apart. All columns of C are written;
    unless ``onto`` is 0, the sums are added to what was there. C overlaps neither A nor B; ``k`` may be 0. Meanwhile
    ``k * LINES * lookahead(itemsize)`` elements of B from position ``ahead`` on are fetched into the second-level
    cache; a position outside the buffer is harmless. ROWS, VECTORS, LANES and LINES are literals in compiled code.

    >>> c, a, b = np.zeros(8, np.float32), np.arange(6, dtype=np.float32), np.ones(12, np.float32)
    >>> product_tile(2, 1, 4, 1, c, 0, 4, a, 0, 3, 1, b, 0, 4, 3, 0, 0)
    >>> c
    array([ 3.,  3.,  3.,  3., 12., 12., 12., 12.], dtype=float32)
    """
    rows, terms, columns = np.arange(ROWS)[:, None], np.arange(k), np.arange(VECTORS * LANES)
    left = a[a_at + rows * a_row + terms * a_k]
    if c.dtype != a.dtype and a.dtype == np.uint32:
        left = _terms_of(left.T, bfloat16.numpy).T
        right = _terms_of(b[b_at + terms[:, None] * b_k + columns], bfloat16.numpy).astype(c.dtype)
    elif c.dtype != b.dtype and b.dtype == np.uint32:
        words = b[b_at + np.arange(-(-k * a.itemsize // 4))[:, None] * b_k + columns]
        right = _terms_of(words, np.dtype(np.int8) if a.dtype == np.uint8 else a.dtype)[:k].astype(c.dtype)
    else:
        right = b[b_at + terms[:, None] * b_k + columns].astype(c.dtype, copy=False)
    left = left.astype(c.dtype, copy=False)
    at = c_at + rows * c_row + columns
    with np.errstate(all="ignore"):
        c[at] = left @ right + (c[at] if onto else c.dtype.type(0))


def _terms_of(words: NDArray, dtype: np.dtype[Any]) -> NDArray:
    """The rows of a matrix of ``dtype``, whose words are neighbours in a column."""
    bits = np.dtype(f"u{dtype.itemsize}")
    terms = np.ascontiguousarray(words).view(bits).reshape(*words.shape, 4 // dtype.itemsize)
    return np.ascontiguousarray(np.moveaxis(terms, -1, 1)).reshape(-1, words.shape[1]).view(dtype)


def gathered_tile(
    ROWS: int, VECTORS: int, LANES: int, LINES: int,
    c: NDArray, c_at: int, c_row: int,
    a: NDArray, a_at: int, rows: NDArray, row: int, a_k: int,
    offsets: NDArray, first: int, segments: int,
    b: NDArray, b_at: int, b_k: int,
    k: int, ahead: int, onto: int,
) -> None:  # fmt: skip
    """The same for rows at any positions, and terms in ``segments`` of ``k`` each.

    ``rows[row + r]`` is the offset of row r from ``a_at``, and ``offsets[first + s]`` that of segment s from where
    a row begins. A segment has whole words, where B has words. The rows of B follow each other through all segments.
    So a convolution sums over a window: a segment is a row of it. After the tile's rows ``rows`` has as many more:
    their segments' starts are fetched into the cache.

    >>> c, a, b = np.zeros(1, np.float32), np.arange(9, dtype=np.float32), np.ones(4, np.float32)
    >>> gathered_tile(1, 1, 1, 1, c, 0, 1, a, 0, np.array([1, 0]), 0, 1, np.array([0, 3]), 0, 2, b, 0, 1, 2, 0, 0)
    >>> c  # 1 + 2 + 4 + 5
    array([12.], dtype=float32)
    """
    every = np.ravel(offsets[first : first + segments, None] + np.arange(k) * a_k)
    joined = np.ascontiguousarray(a[a_at + rows[row : row + ROWS, None] + every]).reshape(-1)
    own = joined, 0, segments * k, 1
    product_tile(ROWS, VECTORS, LANES, LINES, c, c_at, c_row, *own, b, b_at, b_k, segments * k, ahead, onto)


def pack_panel(
    VECTORS: int, LANES: int,
    to: NDArray, to_at: int,
    b: NDArray, b_at: int, b_k: int, b_j: int,
    k: int, columns: int,
) -> None:  # fmt: skip
    """Copy ``k`` rows of ``columns`` elements of B into a panel VECTORS * LANES wide, filled up with zeros.

    Element ``[kk, j]`` is ``b[b_at + kk*b_k + j*b_j]`` and goes to ``to[to_at + kk*VECTORS*LANES + j]``, 16-bit floats
    into a panel of float32, too. Into a panel of uint32 go words of two bfloat16, to which float32 is rounded, or of
    four int8: with n terms to a word, those of a column from ``n*kk`` on are the word ``[kk, j]``, the first in its
    lowest bits; zeros fill the last one. Where columns or terms are contiguous in B (``b_j`` or ``b_k`` is 1) it moves
    whole vectors.

    >>> to, b = np.full(8, 9.0), np.arange(6.0)
    >>> pack_panel(1, 4, to, 0, b, 0, 1, 2, 2, 3)
    >>> to
    array([0., 2., 4., 0., 1., 3., 5., 0.])
    """
    width = VECTORS * LANES
    terms, j = np.arange(k)[:, None], np.arange(columns)
    if to.dtype != b.dtype and to.dtype == np.uint32:
        source = b[b_at + terms * b_k + j * b_j]
        source = source.astype(bfloat16.numpy) if source.dtype == np.float32 else source
        bits, count = np.dtype(f"u{source.itemsize}"), 4 // source.itemsize
        parts = np.zeros((-(-k // count), count, width), bits)
        parts.reshape(-1, width)[:k, :columns] = source.view(bits)
        words = np.ascontiguousarray(np.moveaxis(parts, 1, 2)).view(np.uint32)
        to[to_at : to_at + words.size] = words.reshape(-1)
        return
    panel = np.zeros((k, width), to.dtype)
    panel[:, :columns] = b[b_at + terms * b_k + j * b_j]
    to[to_at : to_at + k * width] = panel.reshape(-1)
