"""Checks of values when a program runs: ``zenith.error_if``."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith import tree
from zenith.errors import ShapeError
from zenith.trace.bind import b
from zenith.trace.results import own_memory


def error_if(x: Any, wrong: Any, why: str) -> Any:
    """The tree of arrays ``x``; CheckError, which says ``why``, when ``wrong`` is true when the program runs.

    What is checked is what uses the result: a result that nobody needs checks nothing, nor does an array without
    elements. ``wrong`` is an array of bools: elementwise where it broadcasts to an array's shape, which costs nothing
    where that is computed anyway, else all of it. On a GPU a later call raises, or :func:`zenith.synchronize`.
    Derivatives pass through ``x``. The idea is ``error_if`` of Equinox (Kidger, 2021).

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
    leaves, treedef = tree.flatten(x)
    condition = znp.asarray(wrong).astype(bool)
    arrays = [znp.asarray(leaf) for leaf in leaves]
    checked = [b.error_if(array, _of_shape(condition, array), why=why) for array in arrays]
    return tree.unflatten(treedef, own_memory(checked, arrays))


def _of_shape(condition: Any, array: Any) -> Any:
    """The condition for each element of an array, or for all of them whether it holds anywhere."""
    try:
        return znp.broadcast_to(condition, array.shape)
    except ShapeError:
        return znp.broadcast_to(znp.any(condition), array.shape)
