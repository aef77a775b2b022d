"""Neural networks' functions of arrays, pure, in the style of ``jax.nn`` and ``torch.nn.functional``.

They are written with :mod:`zenith.numpy` and primitives, so every transform goes through them.
"""

from zenith.nn.adaptive import adaptive_avg_pool, adaptive_max_pool
from zenith.nn.pixels import channel_shuffle, pixel_shuffle, pixel_unshuffle
from zenith.nn.pooling import avg_pool, lp_pool, max_pool
from zenith.nn.resizing import interpolate
from zenith.nn.sampling import affine_grid, grid_sample
from zenith.nn.windows import fold, unfold

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "affine_grid",
    "avg_pool",
    "channel_shuffle",
    "fold",
    "grid_sample",
    "interpolate",
    "lp_pool",
    "max_pool",
    "pixel_shuffle",
    "pixel_unshuffle",
    "unfold",
]
