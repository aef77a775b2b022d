"""Neural networks' functions of arrays, pure, in the style of ``jax.nn`` and ``torch.nn.functional``.

They are written with the functions of :mod:`zenith.numpy`, so every transform goes through them.

>>> from zenith import nn
>>> nn.relu([-1.0, 2.0])
array([0., 2.])
"""

# ruff: noqa: F403 (each chapter's __all__ says what it gives)
from zenith.nn.activations import *
from zenith.nn.classes import *
from zenith.nn.ctc import *
from zenith.nn.dropout import *
from zenith.nn.embeddings import *
from zenith.nn.losses import *
from zenith.nn.normalization import *
from zenith.nn.recurrent import *
