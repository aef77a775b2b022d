"""Elementary functions of scalars: where turns wait for each other, they are the C library's.

The straight-line code of ``vecmath`` is made for loops that LLVM vectorises. In a recurrence a value's time through the
function is what counts, and tables and branches make that half as long. Trigonometric functions are calls in any case,
around which the constants of straight-line code have to be loaded again. So a kernel with either calls the C library.
A loop that LLVM vectorises all the same has vectors of ``vecmath``: see :mod:`zenith.backends.cpu.outlined`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import TypeVar, get_args

from zenith.backends.expressions import Apply
from zenith.backends.kernel import Assign, Let, Loop, Statement, While, inner, walk
from zenith.backends.lower.sequential.dead_code import names_in
from zenith.backends.scalars import LIBRARY

Part = TypeVar("Part")
_CALLS = re.compile(rf"\b({'|'.join(name.removeprefix('libm_') for name in LIBRARY)})\(")
_ANGLES = re.compile(r"\b(sin|cos|tan)\(")
_STATEMENTS = tuple(get_args(Statement))


def with_library_calls(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A kernel's statements with these calls in the places of others, where that is faster."""
    return _called(statements) if any(_waits(statements, set())) else statements


def _waits(statements: Sequence[Statement], late: set[str]) -> Iterator[bool]:
    """For each function that is computed, whether it waits; ``late`` are the names that hang on an earlier turn."""
    for s in statements:
        if isinstance(s, Loop | While):
            late |= {a.name for a in walk((s,)) if isinstance(a, Assign) and a.value.dtype.is_float}
        if isinstance(s, Let | Assign):
            hangs = not late.isdisjoint(names_in(s.value))
            late |= {s.name} if hangs else set()
            if isinstance(s.value, Apply) and _CALLS.search(s.value.text):
                yield hangs or _ANGLES.search(s.value.text) is not None
        yield from _waits(inner(s), late)


def _called(part: Part) -> Part:
    """A statement, an expression, or several, with calls of the C library."""
    if isinstance(part, Apply):
        return replace(part, text=_CALLS.sub(r"libm_\1(", part.text), args=_called(part.args))
    if isinstance(part, tuple):
        return type(part)(_called(item) for item in part)
    if isinstance(part, _STATEMENTS):
        return type(part)(*(_called(getattr(part, field.name)) for field in fields(part)))
    return part
