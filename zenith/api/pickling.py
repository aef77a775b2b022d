"""Pickling: compiled functions go to other processes as what they were made from, and compile there.

Programs are not sent: the other process may have another processor, and finds its kernels in the disk cache when it has
the same one. A function that its module has under its name goes by that name, as Python's own functions do; any other,
and what ``__main__`` defines, goes with the function itself, which cloudpickle takes along and pickle does not. The
workers of :mod:`multiprocessing` have the same ``__main__``, so there that goes by name too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from multiprocessing.reduction import ForkingPickler

Reduced = str | tuple[Callable[..., object], tuple[object, ...]]


def has_name(function: Callable[..., object]) -> bool:
    """Whether a function's module has it, and no other object, under its qualified name."""
    try:
        found: object = reduce(getattr, function.__qualname__.split("."), sys.modules[function.__module__])
    except (AttributeError, KeyError):
        return False
    return found is function


def reduced(function: Callable[..., object], make: Callable[..., object], arguments: tuple[object, ...]) -> Reduced:
    """How pickle, or cloudpickle, takes a compiled function along: by name, or as ``make(*arguments)``."""
    if function.__module__ != "__main__" and has_name(function):
        return str(function.__qualname__)
    return make, arguments


def goes_by_name_to_workers(kind: type) -> None:
    """Let functions of a kind reach the workers of :mod:`multiprocessing` by name wherever they have one."""
    ForkingPickler.register(kind, lambda f: f.__qualname__ if has_name(f) else f.__reduce__())
