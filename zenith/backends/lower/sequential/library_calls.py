"""Elementary functions of scalars: in sequential kernels they are the C library's.

The straight-line code of ``vecmath`` is made for loops that LLVM vectorises. Where a turn waits for the one before, a
value's time through the function is what counts, and tables and branches make that half as long. A loop that LLVM
vectorises all the same has vectors of ``vecmath``: see :mod:`zenith.backends.cpu.outlined`.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TypeVar, get_args

from zenith.backends.expressions import Apply
from zenith.backends.kernel import Statement
from zenith.backends.scalars import LIBRARY

Part = TypeVar("Part")
_CALLS = re.compile(rf"\b({'|'.join(name.removeprefix('libm_') for name in LIBRARY)})\(")
_STATEMENTS = tuple(get_args(Statement))


def with_library_calls(part: Part) -> Part:
    """A statement, an expression, or several, with these calls in the places of others."""
    if isinstance(part, Apply):
        return replace(part, text=_CALLS.sub(r"libm_\1(", part.text), args=with_library_calls(part.args))
    if isinstance(part, tuple):
        return type(part)(with_library_calls(item) for item in part)
    if isinstance(part, _STATEMENTS):
        return type(part)(*(with_library_calls(getattr(part, field.name)) for field in fields(part)))
    return part
