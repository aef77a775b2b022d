"""``convert``: a function whose Python control flow may depend on traced values."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from zenith.convert.callees import callee, converted
from zenith.errors import ValueTypeError, is_library, user_line


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its loops and branches as those of the program, where they depend on traced values.

    Parameters
    ----------
    function: a function, lambda or method of the user's whose source Python has, or a partial application of one.

    Returns
    -------
    A function of the same signature, closure and line numbers, which runs as the original one outside of a trace.
    Functions of libraries, generators and what has no source are returned as they are. ValueTypeError for what is no
    function.
    After Moldovan et al., "AutoGraph: Imperative-style Coding with Graph-based Performance" (2018).

    >>> import numpy as np, zenith
    >>> def root(x):
    ...     while abs(x * x - 2) > 1e-9:
    ...         x = 0.5 * (x + 2 / x)
    ...     return x
    >>> bool(np.isclose(zenith.jit(root)(1.0), np.sqrt(2)))
    True
    """
    if not callable(function):
        raise ValueTypeError(f"convert takes a function, not a {type(function).__name__}", where=user_line(),
                             fix="give a function, or what has one as its __call__")  # fmt: skip
    if isinstance(function, types.FunctionType):
        return function if is_library(function.__code__.co_filename) else converted(function)
    if isinstance(function, functools.partial | types.MethodType):
        found: Callable[..., Any] = callee(function)
        return found
    method = inspect.getattr_static(type(function), "__call__", None)
    if not isinstance(method, types.FunctionType) or is_library(method.__code__.co_filename):
        return function
    return types.MethodType(converted(method), function)
