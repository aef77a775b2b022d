"""Optimisers: pairs of functions ``(init, update)`` over trees of parameters, after optax's style.

A training step donates parameters and state: the new ones are written into the memory of the old ones, which must not
be used any more.

>>> import numpy as np, zenith
>>> from zenith import optim
>>> optimizer = optim.adam(0.1)
>>> params = {"w": np.ones(3, np.float32)}
>>> state = optimizer.init(params)
>>> @zenith.jit(donate_argnums=(0, 1))
... def step(params, state, x):
...     gradient = zenith.grad(lambda p: np.sum((p["w"] * x) ** 2))(params)
...     updates, state = optimizer.update(gradient, state, params)
...     return optim.apply_updates(params, updates), state
>>> params, state = step(params, state, np.arange(3, dtype=np.float32))
>>> params["w"].round(3)
array([1. , 0.9, 0.9], dtype=float32)
"""

from zenith.optim.narrow import LossScale, Masters, loss_scaling, with_masters
from zenith.optim.optimizer import Optimizer, apply_updates, chain, global_norm
from zenith.optim.rules import adam, adamw, lion, sgd
from zenith.optim.schedules import constant, cosine_decay, exponential_decay, linear, piecewise, warmup_cosine
from zenith.optim.steps import (
    add_decayed_weights,
    clip,
    clip_by_global_norm,
    scale,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    trace,
)

__all__ = [
    "LossScale",
    "Masters",
    "Optimizer",
    "adam",
    "adamw",
    "add_decayed_weights",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_global_norm",
    "constant",
    "cosine_decay",
    "exponential_decay",
    "global_norm",
    "linear",
    "lion",
    "loss_scaling",
    "piecewise",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "sgd",
    "trace",
    "warmup_cosine",
    "with_masters",
]


def __dir__() -> list[str]:
    return __all__
