"""Neural networks' functions of arrays, pure, in the style of ``jax.nn`` and ``torch.nn.functional``.

They are written with :mod:`zenith.numpy` alone, so every transform goes through them.
"""

# ruff: noqa: F403 (each chapter's __all__ says what it gives)
from zenith.nn.convolution import *
