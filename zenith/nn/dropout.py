"""Dropout: elements that a key chooses become 0 in training, and the others larger, so that means do not change.

Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", 2014. In inference leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence

import zenith.numpy as znp
from zenith import random
from zenith.errors import NumberError, user_line
from zenith.nn.activations import SELU_ALPHA, SELU_SCALE
from zenith.nn.rounding import rounded_once
from zenith.numpy.operands import normal_axes
from zenith.numpy.typing import Array, ArrayLike

__all__ = ["alpha_dropout", "dropout"]


@rounded_once
def dropout(x: ArrayLike, p: float, key: Array, axes: Sequence[int] | None = None) -> Array:
    """0 with probability ``p``, else ``x / (1 - p)``.

    Parameters
    ----------
    x: an array of floating-point numbers.
    p: a number from 0 to 1, else NumberError.
    key: uint32 array of shape (2,), from :func:`zenith.random.key` or ``split``; another one for each layer and step.
    axes: where the choice differs; elements along other axes share it, as ``axes=(0, 1)`` drops whole channels.

    >>> from zenith import random
    >>> dropout([1.0, 2.0, 3.0, 4.0], 0.5, random.key(0))
    array([0., 0., 6., 8.])
    """
    x = znp.asarray(x)
    _check(p)
    return x if p == 0 else znp.where(_survives(x, p, key, axes), x * (1.0 / (1.0 - p) if p < 1 else 0.0), 0)


@rounded_once
def alpha_dropout(x: ArrayLike, p: float, key: Array, axes: Sequence[int] | None = None) -> Array:
    """Dropout that preserves mean 0 and variance 1, for :func:`zenith.nn.selu`; dropped elements take its lowest value.

    Klambauer et al., "Self-normalizing neural networks", 2017. Parameters are those of :func:`dropout`.

    >>> from zenith import random
    >>> alpha_dropout([1.0, 1.0, 1.0], 0.0, random.key(0))
    array([1., 1., 1.])
    """
    x = znp.asarray(x)
    _check(p)
    if p in (0, 1):
        return x if p == 0 else znp.zeros_like(x)
    lowest = -SELU_ALPHA * SELU_SCALE
    scale = ((1.0 - p) * (1.0 + p * lowest**2)) ** -0.5
    return znp.where(_survives(x, p, key, axes), x, lowest) * scale - scale * lowest * p


def _survives(x: Array, p: float, key: Array, axes: Sequence[int] | None) -> Array:
    own = normal_axes("dropout", None if axes is None else tuple(axes), x.ndim)
    return random.bernoulli(key, 1.0 - p, tuple(n if a in own else 1 for a, n in enumerate(x.shape)))


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise NumberError(
            f"a probability of dropout of {p} is not between 0 and 1",
            where=user_line(),
            fix="give the share that is dropped",
        )
