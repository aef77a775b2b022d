"""Symbols that stand for numbers in an export pass for numbers in a module's Python.

torch.export gives the names of its symbols where a module asks for their text, as ``str(x.shape)`` does, and says that
a size is no ``int``: what follows from either would be silently wrong. Here a text has the numbers, and so fixes
the sizes, as a key of a dictionary does; libraries see symbols as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from zenith.errors import is_library

_NUMBERS: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_OF_VALUES: dict[str, Callable[..., object]] = {"__repr__": repr, "__format__": format, "__hash__": hash}


@contextmanager
def symbols_like_numbers() -> Iterator[None]:
    """Within this block code outside of libraries can distinguish symbols from numbers by ``type`` alone."""
    with ExitStack() as replaced:
        for symbol, number in _NUMBERS.items():
            for name, function in _OF_VALUES.items():
                replaced.enter_context(patch.object(symbol, name, _method(getattr(symbol, name), number, function)))
            replaced.enter_context(patch.object(symbol, "__getattribute__", _attributes(number)))
        yield


def _method(own: Callable[..., object], number: type, function: Callable[..., object]) -> Callable[..., object]:
    return lambda symbol, *args: own(symbol, *args) if asks_a_library() else function(number(symbol), *args)


def _attributes(number: type) -> Callable[[object, str], object]:
    """Attributes of a symbol; ``isinstance`` reads ``__class__`` where an object is of another type."""

    def attribute(symbol: object, name: str) -> Any:
        return number if name == "__class__" and not asks_a_library() else object.__getattribute__(symbol, name)

    return attribute


def asks_a_library() -> bool:
    """Whether the code that asks for a text or a class is a library's."""
    return is_library(sys._getframe(2).f_code.co_filename)
