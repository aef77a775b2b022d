"""NumPy's functions of lists and tuples that hold traced numbers, for which NumPy makes arrays of them."""

from __future__ import annotations

import functools

import numpy as np

import zenith.numpy as znp
from zenith.convert.typing import Function
from zenith.convert.values import is_plain_sequence
from zenith.trace.recorder import current_recorder
from zenith.trace.tracer import Tracer

# Those that take several arrays in a list.
_OF_SEVERAL = frozenset({
    "concatenate", "stack", "vstack", "hstack", "dstack", "column_stack", "block", "select", "choose", "lexsort",
    "broadcast_arrays", "meshgrid", "ix_", "einsum", "multi_dot", "histogramdd", "unravel_index", "ravel_multi_index",
    "copyto", "put", "put_along_axis", "fill_diagonal", "place", "putmask",
})  # fmt: skip
# Those whose further arguments are arrays, and no shapes or axes.
_OF_TWO = frozenset({
    "where", "dot", "cross", "outer", "inner", "vdot", "kron", "convolve", "correlate", "polyval", "interp", "isin",
    "append", "allclose", "isclose", "array_equal", "searchsorted", "solve", "lstsq", "average", "polyfit", "trapezoid",
})  # fmt: skip


def is_numpys(function: object) -> bool:
    """Whether a function is a ufunc, or one of those of NumPy's that ask their arguments (``__array_function__``)."""
    return isinstance(function, np.ufunc) or type(function) is type(np.max)


def of_lists(function: Function) -> Function:
    """The function, with arrays in the place of lists that hold traced numbers; itself outside of a trace.

    Within a ``try`` it is noted, since the program raises no exceptions of NumPy's.
    """
    name = getattr(function, "__name__", "")
    recorder = current_recorder()
    if recorder is None:
        return function
    if recorder.raises.catching:
        recorder.raises.called.add(name)
    if name in _OF_SEVERAL:
        return lambda first, *args, **kwargs: function(arrays_of(first), *args, **kwargs)
    several = isinstance(function, np.ufunc) or name in _OF_TWO

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        return function(*(_array(a) if several or not k else a for k, a in enumerate(args)), **kwargs)

    return call


def _array(value: object) -> object:
    return znp.array(value) if is_plain_sequence(value) and _like(value) is not None else value


def arrays_of(several: object) -> object:
    """Several arrays, lists among them that hold traced numbers."""
    return type(several)(map(_array, several)) if is_plain_sequence(several) else several


def _like(value: object) -> Tracer | None:
    """A traced number in nested lists; None where there is none."""
    if isinstance(value, Tracer):
        return value
    found = map(_like, value) if is_plain_sequence(value) else ()
    return next((one for one in found if one is not None), None)
