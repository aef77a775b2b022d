"""Annotations that are never evaluated: from Python 3.14 on they are code, which runs when somebody asks for them.

What a program annotates with may exist for type checkers alone, or only later, and asking must not fail for it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import FunctionType


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """A function's signature, whose annotations may be strings; TypeError or ValueError where it has none."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)


def annotate_like(made: FunctionType, original: FunctionType) -> None:
    """Give a function the annotations of another one."""
    if sys.version_info >= (3, 14) and original.__annotate__ is not None:
        made.__annotate__ = original.__annotate__
    else:
        made.__annotations__ = original.__annotations__
