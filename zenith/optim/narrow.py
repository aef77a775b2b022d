"""Training in 16 bits: float32 masters of parameters, and losses scaled into the range of float16.

Both take an optimiser and give one, and work together: ``loss_scaling(with_masters(adam(1e-3)))``. They are those of
P. Micikevicius et al., "Mixed precision training", arXiv:1710.03740.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NamedTuple

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.errors import ArgumentError, TraceError, user_line
from zenith.numpy.typing import Array
from zenith.optim.optimizer import Optimizer, apply_updates, map_leaves, wide
from zenith.tree import Tree

LEAST, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)  # of scales: none is 0 or infinite


class Masters(NamedTuple):
    """Parameters in float32, of which those of 16 bits are roundings, and the state of what optimises them."""

    params: Tree
    state: Tree


def with_masters(optimizer: Optimizer) -> Optimizer:
    """An optimiser of 16-bit parameters that keeps them in float32, too, and changes those.

    An update below half a unit in the last place of a parameter vanishes when it is added, however many follow: in
    bfloat16 one of less than 0.2 %. Masters collect them, and parameters are their roundings. They take four bytes
    a parameter. TraceError for an update without parameters.

    >>> import ml_dtypes, numpy as np
    >>> from zenith.optim import sgd
    >>> params = np.ones(1, ml_dtypes.bfloat16)
    >>> for optimizer in (sgd(0.001), with_masters(sgd(0.001))):
    ...     x, state = params, optimizer.init(params)
    ...     for _ in range(100):
    ...         updates, state = optimizer.update(np.ones(1, ml_dtypes.bfloat16), state, x)
    ...         x = apply_updates(x, updates)
    ...     print(x)
    [1]
    [0.898438]
    """

    def init(params: Tree) -> Masters:
        masters = map_leaves(lambda p: znp.array(wide(p), copy=True), params)
        return Masters(masters, optimizer.init(masters))

    def update(gradients: Tree, state: Masters, params: Tree = None) -> tuple[Tree, Masters]:
        if params is None:
            raise TraceError("masters need the parameters", where=user_line(),
                             fix="call update(gradients, state, params)")  # fmt: skip
        updates, inner = optimizer.update(map_leaves(wide, gradients), state.state, state.params)
        masters = apply_updates(state.params, updates)
        return map_leaves(lambda m, p: m - wide(p), masters, params), Masters(masters, inner)

    return Optimizer(init, update)


class LossScale(NamedTuple):
    """What a loss is multiplied by, how many steps had finite gradients since it changed, and the optimiser's state."""

    scale: Any  # a float32
    count: Any  # an int64
    state: Tree

    def scaled(self, loss: Array) -> Array:
        """The loss to differentiate, in float32 at least."""
        found: Array = wide(loss) * self.scale
        return found


def loss_scaling(
    optimizer: Optimizer, initial: float = 2.0**15, growth: float = 2.0, backoff: float = 0.5, interval: int = 2000
) -> Optimizer:
    """An optimiser of the gradients of a scaled loss, whose scale follows what the gradients' type can hold.

    Small gradients are zero in float16, so differentiate ``state.scaled(loss)``: ``update`` divides by the scale, in
    float32. A step whose gradients are not all finite is skipped: parameters and the optimiser's state keep their bits,
    and the scale is multiplied by ``backoff``. After ``interval`` other steps in a row it is multiplied by ``growth``.
    A scale that falls without end says that gradients are not finite by themselves. ArgumentError for numbers that do
    not grow or back off.

    >>> import numpy as np, zenith
    >>> from zenith.optim import sgd
    >>> w = np.ones(3, np.float16)
    >>> optimizer = loss_scaling(with_masters(sgd(1.0)), initial=2.0**13)
    >>> @zenith.jit
    ... def step(w, state, x):
    ...     gradient = zenith.grad(lambda w: state.scaled(np.mean(w * x)))(w)
    ...     updates, state = optimizer.update(gradient, state, w)
    ...     return apply_updates(w, updates), state
    >>> state = optimizer.init(w)
    >>> for size in (1e-2, 1.0, 100.0):  # times the scale, the gradients of the last one are beyond 65504
    ...     w, state = step(w, state, np.full(3, size, np.float16))
    ...     print(w, state.scale)
    [0.9966 0.9966 0.9966] 8192.0
    [0.6636 0.6636 0.6636] 8192.0
    [0.6636 0.6636 0.6636] 4096.0
    """
    if not (0 < initial < math.inf and growth > 1 and 0 < backoff < 1 and interval >= 1):
        raise ArgumentError(
            f"initial={initial}, growth={growth}, backoff={backoff}, interval={interval} scale no loss",
            where=user_line(),
            fix="give a positive scale, growth above 1, backoff between 0 and 1, and an interval of 1 or more",
        )

    def init(params: Tree) -> LossScale:
        return LossScale(np.float32(initial), np.zeros((), np.int64), optimizer.init(params))

    def update(gradients: Tree, state: LossScale, params: Tree = None) -> tuple[Tree, LossScale]:
        unscaled = map_leaves(lambda g: wide(g) / state.scale, gradients)
        finite = _all_finite(unscaled)
        unscaled = map_leaves(lambda g: znp.where(finite, g, 0), unscaled)  # what is skipped has no warnings either
        updates, inner = optimizer.update(unscaled, state.state, params)
        updates = map_leaves(lambda u: znp.where(finite, u, -0.0), updates)  # -0 is what changes no parameter
        inner = map_leaves(lambda new, old: znp.where(finite, new, old), inner, state.state)
        return updates, LossScale(*next_scale(state.scale, state.count, finite), inner)

    def next_scale(scale: Array, count: Array, finite: Array) -> tuple[Array, Array]:
        grows = finite & (count + 1 >= interval)
        factor = znp.where(finite, znp.where(grows & (scale < LARGEST / growth), growth, 1.0), backoff)
        changed = znp.maximum(scale * znp.astype(factor, np.float32), LEAST)
        return changed, znp.where(finite & ~grows, count + 1, 0)

    return Optimizer(init, update)


def _all_finite(gradients: Tree) -> Array:
    leaves, _ = tree.flatten(gradients)
    return functools.reduce(operator.and_, (znp.all(znp.isfinite(g)) for g in leaves), znp.asarray(True))
