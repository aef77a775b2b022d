"""Single steps of optimisers, to be composed by :func:`~zenith.optim.chain`; 16-bit floats become float32 first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import zenith.numpy as znp
from zenith.errors import TraceError, user_line
from zenith.numpy.typing import Array
from zenith.optim.optimizer import Optimizer, as_type_of, global_norm, map_leaves, wide
from zenith.optim.schedules import Rate
from zenith.tree import Tree

Schedule = float | Rate
_NO_STATE: tuple[()] = ()


class Moments(NamedTuple):
    """Running means of gradients and of their squares, and the number of steps."""

    count: Any  # an int64
    mean: Tree
    square: Tree


def _zeros(params: Tree) -> Tree:
    return map_leaves(lambda p: znp.zeros_like(wide(p)), params)


def _stateless(update: Callable[[Tree, Tree], Tree]) -> Optimizer:
    def apply(gradients: Tree, state: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        return update(map_leaves(wide, gradients), params), state

    return Optimizer(lambda params: _NO_STATE, apply)


def scale(factor: float) -> Optimizer:
    """Multiply by a number."""
    return _stateless(lambda gradients, params: map_leaves(lambda g: as_type_of(g * factor, g), gradients))


def scale_by_learning_rate(rate: Schedule) -> Optimizer:
    """Multiply by minus the learning rate: a number, or a function of the number of steps made so far."""
    if not callable(rate):
        return scale(-rate)

    def update(gradients: Tree, count: Array, params: Tree = None) -> tuple[Tree, Array]:
        factor, gradients = -rate(count), map_leaves(wide, gradients)
        return map_leaves(lambda g: as_type_of(g * as_type_of(factor, g), g), gradients), count + 1

    return Optimizer(lambda params: np.zeros((), np.int64), update)


def trace(decay: float, nesterov: bool = False) -> Optimizer:
    """Momentum: a sum of gradients, where earlier ones decay by ``decay`` (after Polyak, 1964; Nesterov, 1983)."""

    def update(gradients: Tree, before: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        gradients = map_leaves(wide, gradients)
        total = map_leaves(lambda g, t: g + decay * t, gradients, before)
        ahead = map_leaves(lambda g, t: g + decay * t, gradients, total) if nesterov else total
        return ahead, total

    return Optimizer(_zeros, update)


def _by_parts(function: Callable[..., Array], *arrays: Array) -> Array:
    """A function of real arrays; of complex ones it is that of their real parts and that of their imaginary parts."""
    if not any(a.dtype.kind == "c" for a in arrays):
        return function(*arrays)
    return function(*(a.real for a in arrays)) + 1j * function(*(a.imag for a in arrays))


def scale_by_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Adam's direction (D. P. Kingma and J. Ba, 2015): the mean over the root of the mean square, both unbiased."""

    def init(params: Tree) -> Moments:
        return Moments(np.zeros((), np.int64), _zeros(params), _zeros(params))

    def update(gradients: Tree, state: Moments, params: Tree = None) -> tuple[Tree, Moments]:
        count, gradients = state.count + 1, map_leaves(wide, gradients)
        mean = map_leaves(lambda g, m: b1 * m + (1 - b1) * g, gradients, state.mean)
        square = map_leaves(lambda g, v: b2 * v + (1 - b2) * _by_parts(lambda x: x * x, g), gradients, state.square)
        first, second = 1 - b1**count, np.sqrt(1 - b2**count)

        def direction(m: Array, v: Array) -> Array:
            return m / as_type_of(first, m) / (np.sqrt(v) / as_type_of(second, v) + eps)

        directions = map_leaves(lambda m, v: _by_parts(direction, m, v), mean, square)
        return directions, Moments(count, mean, square)

    return Optimizer(init, update)


def scale_by_lion(b1: float = 0.9, b2: float = 0.99) -> Optimizer:
    """Lion's direction (X. Chen et al., Symbolic discovery of optimization algorithms, 2023): a sign."""

    def update(gradients: Tree, mean: Tree, params: Tree = None) -> tuple[Tree, Tree]:
        gradients = map_leaves(wide, gradients)
        direction = map_leaves(lambda g, m: np.sign(b1 * m + (1 - b1) * g), gradients, mean)
        return direction, map_leaves(lambda g, m: b2 * m + (1 - b2) * g, gradients, mean)

    return Optimizer(_zeros, update)


def add_decayed_weights(decay: float) -> Optimizer:
    """Add ``decay`` times the parameters: an L2 penalty before, decoupled weight decay after Adam's direction."""

    def update(gradients: Tree, params: Tree) -> Tree:
        if params is None:
            raise TraceError("weight decay needs the parameters", where=user_line(),
                             fix="call update(gradients, state, params)")  # fmt: skip
        return map_leaves(lambda g, p: g + decay * wide(p), gradients, params)

    return _stateless(update)


def clip(bound: float) -> Optimizer:
    """Each element clipped to ``[-bound, bound]``."""
    return _stateless(lambda gradients, params: map_leaves(lambda g: np.clip(g, -bound, bound), gradients))


def clip_by_global_norm(bound: float) -> Optimizer:
    """All gradients scaled down by one factor so that their norm is at most ``bound`` (R. Pascanu et al., 2013)."""

    def update(gradients: Tree, params: Tree) -> Tree:
        norm = global_norm(gradients)
        factor = np.where(norm <= bound, 1.0, bound / np.maximum(norm, bound))  # nan, where one element is, for all
        return map_leaves(lambda g: g * as_type_of(factor, g), gradients)

    return _stateless(update)
