"""The well-known optimisers, as chains of steps."""

from __future__ import annotations

from zenith.optim.optimizer import Optimizer, chain
from zenith.optim.steps import (
    Schedule,
    add_decayed_weights,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    trace,
)


def sgd(learning_rate: Schedule, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0) -> Optimizer:
    """Stochastic gradient descent, as ``torch.optim.SGD`` without dampening.

    Parameters
    ----------
    learning_rate: a number, or a function of the number of steps made so far (see ``optim.cosine_decay``).
    momentum: the decay of earlier directions.
    nesterov: look ahead along the direction.
    weight_decay: factor of an L2 penalty.
    """
    steps = [add_decayed_weights(weight_decay)] if weight_decay else []
    steps += [trace(momentum, nesterov)] if momentum else []
    return chain(*steps, scale_by_learning_rate(learning_rate))


def adam(learning_rate: Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Adam, as ``torch.optim.Adam``. Parameters: the rate, the decay of both means, and the term added to divisors."""
    return chain(scale_by_adam(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, weight_decay: float = 1e-2
) -> Optimizer:
    """Adam with decoupled weight decay (I. Loshchilov and F. Hutter, 2019), as ``torch.optim.AdamW``."""
    return chain(scale_by_adam(b1, b2, eps), add_decayed_weights(weight_decay), scale_by_learning_rate(learning_rate))


def lion(learning_rate: Schedule, b1: float = 0.9, b2: float = 0.99, weight_decay: float = 0.0) -> Optimizer:
    """Lion: the sign of a mean of gradients, with decoupled weight decay."""
    return chain(scale_by_lion(b1, b2), add_decayed_weights(weight_decay), scale_by_learning_rate(learning_rate))
