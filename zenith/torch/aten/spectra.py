"""Fourier transforms. A number says which of them divides: 0 none, 1 by the root of the number of points, 2 by it."""

from __future__ import annotations

from collections.abc import Sequence

import zenith.numpy as znp
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.rules import Context, rule

FORWARD, INVERSE = ("backward", "ortho", "forward"), ("forward", "ortho", "backward")


@rule("_fft_c2c")
def _complex(c: Context, x: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    if forward:
        return znp.fft.fftn(x, axes=dim, norm=FORWARD[normalization])
    return znp.fft.ifftn(x, axes=dim, norm=INVERSE[normalization])


@rule("_fft_r2c")
def _of_real(c: Context, x: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    transform = znp.fft.rfftn if onesided else znp.fft.fftn
    return transform(x, axes=dim, norm=FORWARD[normalization])


@rule("_fft_c2r")
def _to_real(c: Context, x: Array, dim: Sequence[int], normalization: int, last_dim_size: Size) -> Array:
    sizes = [*(x.shape[d] for d in dim[:-1]), last_dim_size]
    return znp.fft.irfftn(x, sizes, axes=dim, norm=INVERSE[normalization])
