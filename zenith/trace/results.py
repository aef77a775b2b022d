"""Results computed at once: each has memory of its own, which may be written, as results of compiled functions have.

A result of NumPy's may be an argument itself, a view of one, a view of another result, or a broadcast that is
read-only. Users who wrote into such a result would change the others, or get an error. One without axes is a number,
NumPy's scalar: ``total += 1`` then makes a new one, and does not change the object of another name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from zenith.ir.types import NDArray

Result = TypeVar("Result")


def as_number(result: Any) -> Any:
    """A NumPy array without axes as NumPy's scalar of its element type; anything else as it is.

    >>> as_number(np.array(3.0)), as_number(np.zeros(1))
    (np.float64(3.0), array([0.]))
    """
    return result[()] if isinstance(result, np.ndarray) and not result.ndim else result


def own_memory(results: Iterable[Any], others: Iterable[Any] = ()) -> list[Any]:
    """The results, as copies where they are read-only or share memory with one of ``others`` or with a result before.

    Those without axes are numbers. What is no NumPy array (a traced value, None) stays as it is.

    >>> x = np.arange(3.0)
    >>> first, second = own_memory([x, np.broadcast_to(x, (2, 3))], [x])
    >>> first is x, second.flags.writeable
    (False, True)
    """
    taken = {id(_memory(a)) for a in others if isinstance(a, np.ndarray)}
    found = []
    for result in results:
        result = as_number(result)
        if isinstance(result, np.ndarray):
            memory = _memory(result)
            if id(memory) in taken or not result.flags.writeable or not memory.flags.owndata:
                result = np.array(result)
            taken.add(id(memory))
        found.append(result)
    return found


def _memory(array: NDArray) -> NDArray:
    """The array that an array is a view of; it does not own memory of another library or of a file."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
