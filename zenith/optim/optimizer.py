"""The optimiser type, and the composition of optimisers.

All functions are pure: they return new trees and change nothing, so that a whole training step compiles into one
program. Leaves may be NumPy arrays or traced values; updates have the element types of the parameters, or float32,
in which what optimisers keep of 16-bit floats is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.errors import TraceError, user_line
from zenith.ir.types import is_narrow
from zenith.numpy.typing import Array, ArrayLike
from zenith.tree import Tree

Params = TypeVar("Params")  # a tree; so is a state
Init = Callable[[Tree], Tree]
Update = Callable[..., tuple[Any, Any]]


class Optimizer(NamedTuple):
    """A rule for updates.

    Attributes
    ----------
    init: ``params -> state``.
    update: ``(gradients, state, params=None) -> (updates, state)``; ``apply_updates`` adds the updates to the
        parameters. Rules that need the parameters themselves, such as weight decay, raise TraceError without them.
    """

    init: Init
    update: Update


def map_leaves(function: Callable[..., Array], first: Params, *others: Tree) -> Params:
    """The tree of ``function``'s results on the leaves of trees of one structure; TraceError when structures differ."""
    leaves, treedef = tree.flatten(first)
    columns = [leaves]
    for other in others:
        found, structure = tree.flatten(other)
        if structure != treedef:
            raise TraceError(
                "gradients, parameters and optimiser state must have one structure",
                where=user_line(),
                fix="make the state by init(params), and pass gradients with respect to these parameters",
            )
        columns.append(found)
    return tree.unflatten(treedef, [function(*row) for row in zip(*columns, strict=True)])


def as_type_of(value: ArrayLike, model: ArrayLike) -> Array:
    """``value`` in the element type of ``model``."""
    dtype = getattr(model, "dtype", None) or np.asarray(model).dtype
    return znp.astype(znp.asarray(value), dtype)


def wide(value: ArrayLike) -> Array:
    """An array of 16-bit floats in float32, in which optimisers compute; any other one as it is."""
    array = znp.asarray(value)
    return znp.astype(array, np.float32) if is_narrow(array.dtype) else array


def apply_updates(params: Params, updates: Tree) -> Params:
    """The parameters with updates added, in the parameters' element types.

    One of 16 bits keeps its value where the update is less than half a unit in its last place:
    :func:`~zenith.optim.with_masters` collects such updates.

    >>> apply_updates({"w": np.float32(1)}, {"w": np.float32(-0.5)})
    {'w': array(0.5, dtype=float32)}
    """
    return map_leaves(lambda p, u: as_type_of(wide(p) + u, p), params, updates)


def chain(*optimizers: Optimizer) -> Optimizer:
    """One rule after the other: each takes the updates of the one before as its gradients."""

    def init(params: Tree) -> tuple[Tree, ...]:
        return tuple(o.init(params) for o in optimizers)

    def update(gradients: Tree, state: Sequence[Tree], params: Tree = None) -> tuple[Tree, Tree]:
        states = []
        for optimizer, own in zip(optimizers, state, strict=True):
            gradients, own = optimizer.update(gradients, own, params)
            states.append(own)
        return gradients, tuple(states)

    return Optimizer(init, update)


def global_norm(gradients: Tree) -> Array:
    """The Euclidean norm of all leaves together, in float32 at least.

    >>> float(global_norm([np.array([3.0]), np.array([4.0])]))
    5.0
    """
    return np.sqrt(sum(np.sum(_squared(wide(leaf))) for leaf in tree.flatten(gradients)[0]))


def _squared(leaf: Array) -> Array:
    """The squares of magnitudes."""
    if leaf.dtype.kind == "c":
        return leaf.real * leaf.real + leaf.imag * leaf.imag
    leaf = znp.astype(leaf, np.float64) if leaf.dtype.kind in "biu" else leaf
    return leaf * leaf
