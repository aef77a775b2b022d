"""Checks of values when a program runs: ``zenith.error_if``."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith import tree
from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b, graph_value
from zenith.trace.recorder import current_recorder
from zenith.trace.results import own_memory
from zenith.trace.tracer import Tracer


def error_if(x: tree.Tree, wrong: ArrayLike, why: str) -> Any:
    """The tree of arrays ``x``; CheckError, which says ``why``, when ``wrong`` is true when the program runs.

    A compiled function checks the elements that its results need: nothing of an array that nobody uses or that has no
    elements. ``wrong`` is an array of bools: elementwise where it broadcasts to an array's shape, which
    is part of the loop that computes the array, else all of it. On a GPU a later call raises, or
    :func:`zenith.synchronize`. Derivatives pass through ``x``. Under ``vmap`` both branches of ``cond`` are computed
    for every example, and loops go on until the last one ends; all of that is checked. Raises ArgumentError for a
    ``why`` that is no text. The idea is ``error_if`` of Equinox (Kidger, 2021).

    >>> import numpy as np, zenith
    >>> @zenith.jit
    ... def root(x):
    ...     return np.sqrt(error_if(x, x < 0, "root of a negative number"))
    >>> root(np.array([4.0, 9.0]))
    array([2., 3.])
    >>> root(np.array([4.0, -9.0]))
    Traceback (most recent call last):
    zenith.errors.CheckError: root of a negative number
    ...
    """
    if not isinstance(why, str) or not why.strip():
        raise ArgumentError(f"error_if: why is {why!r}, which says nothing", where=user_line(),
                            fix="say what is wrong, in words")  # fmt: skip
    leaves, treedef = tree.flatten(x)
    condition = znp.asarray(wrong).astype(bool)
    arrays = [znp.asarray(leaf) for leaf in leaves]
    checked = [b.error_if(_recorded(array), _recorded(_of_shape(condition, array)), why=why) for array in arrays]
    return tree.unflatten(treedef, own_memory(checked, arrays))


def _recorded(array: Array) -> Array:
    """An array as a value of the trace in progress: what is known when a function is traced is checked when it runs."""
    recorder = current_recorder()
    return array if recorder is None else Tracer(recorder, graph_value(recorder, array))


def _of_shape(condition: Array, array: Array) -> Array:
    """The condition for each element of an array, or for all of them whether it is true anywhere."""
    try:
        return znp.broadcast_to(condition, array.shape)
    except ShapeError:
        return znp.broadcast_to(znp.any(condition), array.shape)
