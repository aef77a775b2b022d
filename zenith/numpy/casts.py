"""Casts that users ask for: which of them a rule allows, and which numbers an array can store.

NumPy itself is asked. Where a value is traced only its type can be looked at; of a number that is known while tracing,
what NumPy would not store is refused at the user's line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, NumberError, user_line, warn_at
from zenith.ir.types import NumPyType
from zenith.numpy.operands import as_array, contains_traced, convert, weak_kind
from zenith.numpy.promotion import castable, promote
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def check_rule(name: str, casting: str) -> None:
    """ArgumentError for an unknown rule of casting."""
    if casting not in CASTINGS:
        raise ArgumentError(f"{name}: {casting!r} is no rule of casting", where=user_line(),
                            fix=f"use one of {', '.join(CASTINGS)}")  # fmt: skip


def require_cast(name: str, found: NumPyType, wanted: NumPyType, casting: str = "same_kind") -> None:
    """DTypeError where the rule ``casting`` does not let one element type become another, as in NumPy."""
    check_rule(name, casting)
    if not castable(found, wanted, casting):
        raise DTypeError(f"{name}: {found} cannot be cast to {wanted} by the rule {casting!r}", where=user_line(),
                         fix=f"convert first, as x.astype(numpy.{wanted}), or ask for another type")  # fmt: skip


def warn_of_lost_imaginary(dtype: NumPyType, target: NumPyType) -> None:
    """NumPy's ComplexWarning, at the user's line, where a cast discards imaginary parts."""
    if dtype.kind == "c" and target.kind not in "bc":
        text = "Casting complex values to real discards the imaginary part"
        warn_at(user_line(), np.exceptions.ComplexWarning(text))


_REFUSALS = {TypeError: DTypeError, ValueError: ArgumentError, OverflowError: NumberError}


def stored(value: Any, dtype: NumPyType) -> Any:
    """An operand as an array of ``dtype``, as NumPy writes it into an array of that type.

    Arrays are cast, whatever the kinds, with a ComplexWarning where imaginary parts are lost. Single numbers, and lists
    of them, must be numbers of the type: nan is no integer (ArgumentError), 1j no float (DTypeError), 300.0 no uint8
    (NumberError).
    """
    known = isinstance(value, (np.generic, list, tuple)) or weak_kind(value) in (float, complex)
    if not known or isinstance(value, (Tracer, TracedSize)) or contains_traced(value):
        if weak_kind(value) is not int:
            warn_of_lost_imaginary(as_array(value).dtype, dtype)
        return convert(value, dtype)
    own = as_array(value).dtype
    if isinstance(value, np.complexfloating):
        warn_of_lost_imaginary(own, dtype)
        return convert(as_array(value), dtype)
    try:
        with np.errstate(all="ignore"):
            found = np.empty(np.shape(value), dtype)
            found[...] = value
            return found
    except tuple(_REFUSALS) as error:
        refusal = next(kind for builtin, kind in _REFUSALS.items() if isinstance(error, builtin))
        what = f"{value!r}" if np.ndim(value) == 0 else "one of these numbers"
        raise refusal(f"{what} cannot be stored in an array of {dtype}: {error}", where=user_line(),
                      fix=f"store it in an array that has it: x = x.astype(numpy.{promote((own, dtype))})",
                      ) from None  # fmt: skip
