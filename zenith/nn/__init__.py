"""Neural networks' functions of arrays, pure, in the style of ``jax.nn`` and ``torch.nn.functional``.

They are written with :mod:`zenith.numpy` and primitives, so every transform goes through them.

>>> from zenith import nn
>>> nn.relu([-1.0, 2.0])
array([0., 2.])
"""

# ruff: noqa: F403 (each chapter's __all__ says what it gives)
from zenith.nn.activations import *
from zenith.nn.adaptive import adaptive_avg_pool, adaptive_max_pool
from zenith.nn.convolution import *
from zenith.nn.normalization import *
from zenith.nn.pixels import channel_shuffle, pixel_shuffle, pixel_unshuffle
from zenith.nn.pooling import avg_pool, lp_pool, max_pool
from zenith.nn.resizing import interpolate
from zenith.nn.sampling import affine_grid, grid_sample
from zenith.nn.windows import fold, unfold
