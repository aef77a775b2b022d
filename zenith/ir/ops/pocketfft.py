"""Fourier transforms on the host: pocketfft (M. Reinecke), as SciPy has it, with vectors and threads over rows.

NumPy's pocketfft has neither, but writes into the result: so few elements of 64 bits are transformed by it.

One long row gives no parallel rows. So it is seen as a matrix, whose columns are transformed, multiplied by roots of
unity (twiddle factors), and whose rows are transformed then: two steps with many short rows each, which stay in the
cache (D. H. Bailey, *FFTs in external or hierarchical memory*, 1990).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from zenith.ir.types import NDArray, NumPyType

Norm = Literal["backward", "ortho", "forward"]

LONG = 1 << 16  # points from which a row does not stay in the cache
SHARED = 1 << 17  # elements from which on threads are worth their start
SHORT = 64  # points of a row that are worth a step of their own


def transform(x: NDArray, out: NDArray, axes: Sequence[int], inverse: bool, norm: Norm) -> None:
    """Fill ``out`` with the discrete Fourier transform of ``x`` over some axes, or with its inverse."""
    from scipy import fft

    if out.size == 0 or not axes:
        out[...] = x
    elif tuple(axes) == (x.ndim - 1,) and x.dtype.kind == "c" and (rows := _rows_of(x.shape[-1])) > 1:
        _in_two_steps(x, out, rows, inverse, norm)
    elif len(axes) == 1 and _has_no_vectors(x):
        (np.fft.ifft if inverse else np.fft.fft)(x, axis=axes[0], norm=norm, out=out)
    elif len(axes) == 1:
        out[...] = (fft.ifft if inverse else fft.fft)(x, axis=axes[0], norm=norm, workers=_workers(x))
    else:
        out[...] = (fft.ifftn if inverse else fft.fftn)(x, axes=tuple(axes), norm=norm, workers=_workers(x))


def real_transform(x: NDArray, out: NDArray, norm: Norm) -> None:
    """Fill ``out`` with the first half of the transform of real ``x`` over its last axis."""
    from scipy import fft

    if out.size and _has_no_vectors(x):
        np.fft.rfft(x, norm=norm, out=out)
    elif out.size:
        out[...] = fft.rfft(x, norm=norm, workers=_workers(x))


def real_inverse(x: NDArray, out: NDArray, norm: Norm) -> None:
    """Fill ``out`` with the real array whose spectrum begins with ``x``, over the last axis."""
    from scipy import fft

    if out.size and _has_no_vectors(x):
        np.fft.irfft(x, out.shape[-1], norm=norm, out=out)
    elif out.size:
        out[...] = fft.irfft(x, out.shape[-1], norm=norm, workers=_workers(x))


def _has_no_vectors(x: NDArray) -> bool:
    """Whether neither threads nor vectors over rows, of two elements at most, are worth a copy of the result."""
    return x.dtype in (np.float64, np.complex128) and _workers(x) == 1


def _workers(x: NDArray) -> int:
    """As many threads as Zenith's kernels have; one for few elements."""
    if x.size < SHARED:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(os.environ.get("ZENITH_NUM_THREADS") or cores or 1)


def _in_two_steps(x: NDArray, out: NDArray, rows: int, inverse: bool, norm: Norm) -> None:
    from scipy import fft

    step, columns = (fft.ifft if inverse else fft.fft), x.shape[-1] // rows
    matrix = step(x.reshape(*x.shape[:-1], rows, columns), axis=-2, norm=norm, workers=_workers(x))
    matrix *= _roots(rows, columns, inverse, matrix.dtype)
    matrix = step(matrix, axis=-1, norm=norm, workers=_workers(x), overwrite_x=True)
    out.reshape(*x.shape[:-1], columns, rows)[...] = matrix.swapaxes(-1, -2)


@lru_cache(maxsize=256)
def _rows_of(points: int) -> int:
    """The rows of the matrix that a row of so many points is seen as; 1 where it is short or has no such divisors."""
    if points < LONG:
        return 1
    return next((rows for rows in range(math.isqrt(points), SHORT - 1, -1) if points % rows == 0), 1)


@lru_cache(maxsize=2)  # they take the memory of a row
def _roots(rows: int, columns: int, inverse: bool, dtype: NumPyType) -> Any:
    """The twiddle factors, by which element (j, k) is multiplied, ``exp(-2 pi i j k / (rows columns))``."""
    points = rows * columns
    angles = np.arange(points) * ((2 if inverse else -2) * np.pi / points)
    return np.exp(1j * angles).astype(dtype)[np.outer(np.arange(rows), np.arange(columns))]
