"""Losses as people write them in NumPy: of scores in rows, of labels, of distributions' parameters.

Each takes ``z`` (rows, columns), ``y`` of the same shape, and ``labels`` (rows), and gives a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
HALF_LOG_2_PI = np.float32(0.9189385)


def _largest(z: Array) -> Array:
    """The maximum of each row, which is subtracted before exponentials; 0 where it is infinite."""
    m = np.max(z, -1, keepdims=True)
    return np.where(np.abs(m) == np.inf, np.float32(0), m)


def logsumexp(z: Array) -> Array:
    """Of each row, which stays an axis."""
    m = _largest(z)
    return np.log(np.sum(np.exp(z - m), -1, keepdims=True)) + m


def softmax(z: Array) -> Array:
    """Of each row."""
    e = np.exp(z - np.max(z, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def log_softmax(z: Array) -> Array:
    """Of each row."""
    return z - logsumexp(z)


def normal(z: Array) -> Array:
    """Each row less its mean, by its deviation."""
    return (z - z.mean(-1, keepdims=True)) / np.sqrt(z.var(-1, keepdims=True) + np.float32(1e-3))


def _unit(z: Array) -> Array:
    return z / np.maximum(np.sqrt((z * z).sum(-1, keepdims=True)), np.float32(1e-6))


def _one_hot(z: Array, labels: Array) -> Array:
    return (labels[:, None] == np.arange(z.shape[-1])).astype(z.dtype)


def cross_entropy(z: Array, y: Array, labels: Array) -> Array:
    """Of one-hot labels."""
    return -(_one_hot(z, labels) * log_softmax(z)).sum(-1).mean()


def cross_entropy_by_indices(z: Array, y: Array, labels: Array) -> Array:
    """Of labels that are looked up."""
    return -np.take_along_axis(log_softmax(z), labels[:, None], -1).mean()


def smoothed(z: Array, y: Array, labels: Array) -> Array:
    """Labels that share a tenth with all others."""
    logs = log_softmax(z)
    return -(np.float32(0.9) * (_one_hot(z, labels) * logs).sum(-1) + np.float32(0.1) * logs.mean(-1)).mean()


def focal(z: Array, y: Array, labels: Array) -> Array:
    """Examples that are classified well count less."""
    p = (softmax(z - logsumexp(z)) * _one_hot(z, labels)).sum(-1)
    return -((1 - p) ** 2 * np.log(p)).mean()


def entropy(z: Array, y: Array, labels: Array) -> Array:
    """Of logits that were normalised before."""
    logits = log_softmax(z)
    return -(softmax(logits) * logits).sum(-1).mean()


def policy(z: Array, y: Array, labels: Array) -> Array:
    """Proximal policy optimisation: a clipped ratio, and the entropy."""
    new, old, chosen = log_softmax(z), log_softmax(y), _one_hot(z, labels)
    ratio = np.exp(((new - old) * chosen).sum(-1))
    gain = normal(y).max(-1)
    clipped = np.clip(ratio, np.float32(0.8), np.float32(1.2))
    bonus = -(softmax(new) * new).sum(-1)
    return -np.minimum(ratio * gain, clipped * gain).mean() - np.float32(0.01) * bonus.mean()


def divergence(z: Array, y: Array, labels: Array) -> Array:
    """Kullback and Leibler's, of ``softmax(z)`` from ``softmax(y)``."""
    p, q = log_softmax(z), log_softmax(y)
    return (np.exp(p) * (p - q)).sum(-1).mean()


def distillation(z: Array, y: Array, labels: Array) -> Array:
    """A teacher's distribution at a temperature, and the labels."""
    soft = softmax(y / np.float32(2))
    return 4 * -(soft * log_softmax(z / np.float32(2))).sum(-1).mean() + cross_entropy(z, y, labels)


def jensen_shannon(z: Array, y: Array, labels: Array) -> Array:
    """Both against their mean."""
    p, q = softmax(z), softmax(y)
    m = np.log((p + q) / 2)
    return ((p * (np.log(p) - m)).sum(-1) + (q * (np.log(q) - m)).sum(-1)).mean() / 2


def contrastive(z: Array, y: Array, labels: Array) -> Array:
    """Each row nearer to its partner than to the others, in both directions."""
    scores = _unit(z) @ _unit(y).T * np.float32(5)
    own = np.eye(scores.shape[0], dtype=z.dtype)
    return -((own * log_softmax(scores)).sum(-1) + (own * log_softmax(scores.T)).sum(-1)).mean() / 2


def triplet(z: Array, y: Array, labels: Array) -> Array:
    """Nearer to its partner than to the next one's."""
    near, far = ((z - y) ** 2).sum(-1), ((z - y[::-1]) ** 2).sum(-1)
    return np.maximum(np.sqrt(near + np.float32(1e-3)) - np.sqrt(far + np.float32(1e-3)) + 1, 0).mean()


def cosine(z: Array, y: Array, labels: Array) -> Array:
    """One less the cosine."""
    return (1 - (_unit(z) * _unit(y)).sum(-1)).mean()


def hinge(z: Array, y: Array, labels: Array) -> Array:
    """The margin of the right label over the best other one."""
    chosen = _one_hot(z, labels)
    right = (z * chosen).sum(-1)
    return np.maximum(np.max(np.where(chosen > 0, np.float32(-1e4), z), -1) - right + 1, 0).mean()


def binary(z: Array, y: Array, labels: Array) -> Array:
    """Cross entropy of many yes or no."""
    target = (y > 0).astype(z.dtype)
    return (np.maximum(z, 0) - z * target + np.log1p(np.exp(-np.abs(z)))).mean()


def dice(z: Array, y: Array, labels: Array) -> Array:
    """How little both cover each other."""
    p, target = 1 / (1 + np.exp(-z)), (y > 0).astype(z.dtype)
    return (1 - (2 * (p * target).sum(-1) + 1) / (p.sum(-1) + target.sum(-1) + 1)).mean()


def huber(z: Array, y: Array, labels: Array) -> Array:
    """Squares near zero, magnitudes far from it, of what is normalised."""
    d = normal(z) - normal(y)
    return np.where(np.abs(d) < 1, d * d / 2, np.abs(d) - np.float32(0.5)).mean()


def gaussian(z: Array, y: Array, labels: Array) -> Array:
    """Negative log density of a normal distribution, whose deviation follows from the mean of each row."""
    scale = np.log1p(np.exp(z.mean(-1, keepdims=True))) + np.float32(0.1)
    return (np.log(scale) + ((y - z) / scale) ** 2 / 2 + HALF_LOG_2_PI).mean()


def mixture(z: Array, y: Array, labels: Array) -> Array:
    """Negative log density of a mixture of normal distributions: weights from ``z``, values from ``y``."""
    log_densities = -((y - z[:, :1]) ** 2) / 2 - HALF_LOG_2_PI
    return -logsumexp(log_softmax(z) + log_densities).mean()


def ranking(z: Array, y: Array, labels: Array) -> Array:
    """Plackett and Luce's negative log likelihood of an order: each element among itself and its successors."""
    return (np.log(np.cumsum(softmax(z)[:, ::-1], -1)[:, ::-1]) - log_softmax(z)).sum(-1).mean()


def transport(z: Array, y: Array, labels: Array) -> Array:
    """The distance of two distributions along an axis, by their running sums."""
    return np.abs(np.cumsum(softmax(z), -1) - np.cumsum(softmax(y), -1)).sum(-1).mean()


def attended(z: Array, y: Array, labels: Array) -> Array:
    """Rows that attend to each other, with the entropy of their weights."""
    p = softmax(log_softmax(z @ y.T / np.float32(2)))
    return ((p @ y - z) ** 2).mean() - np.float32(0.1) * (p * np.log(p + np.float32(1e-6))).sum(-1).mean()


def balanced(z: Array, y: Array, labels: Array) -> Array:
    """Columns that share evenly: the spread of their mean weights."""
    share = softmax(z).mean(0)
    return (share * np.log(share)).sum() + normal(z).max(0).mean()


LOSSES: tuple[Callable[[Array, Array, Array], Array], ...] = (
    cross_entropy, cross_entropy_by_indices, smoothed, focal, entropy, policy, divergence, distillation, jensen_shannon,
    contrastive, triplet, cosine, hinge, binary, dice, huber, gaussian, mixture, ranking, transport, attended, balanced,
)  # fmt: skip
