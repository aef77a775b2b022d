"""Methods of Python's numbers, and ``item``, for traced values."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from zenith.trace import dispatch
from zenith.trace.operators import python_number
from zenith.trace.valueless import Valueless

if TYPE_CHECKING:
    from zenith.trace.tracer import Tracer

_HALF = 32  # bits


class NumberMethods(Valueless):
    """What a traced number, one of Python's or NumPy's, can do."""

    __slots__ = ()

    def item(self, *index: object) -> complex:
        """The element at an index, or the only one, as a number of Python's.

        The index has a number for each axis, or is one that counts row by row. TraceError without an index for what
        may have several elements.
        """
        if self._of_sizes() is not None or not (index or self.type.size.static == 1):
            return cast(complex, np.asarray(self._number("item()")).item(*cast("tuple[int, ...]", index)))
        place = index[0] if len(index) == 1 else index or ...
        by_rows = len(index) == 1 and not isinstance(place, tuple)
        array = dispatch.implementation("reshape")(self, -1) if by_rows else dispatch.implementation("asarray")(self)
        element = dispatch.implementation("reshape")(array[place], ())
        if self.type.dtype.kind == "b":  # which has no sign
            number = dispatch.implementation("not_equal")(element, False)
        else:
            number = dispatch.implementation("positive")(element)
        return cast(complex, python_number(number))  # which it stands for

    def is_integer(self) -> Tracer:
        """Whether it is a whole number."""
        self._check_is_number("is_integer", "iuf")
        whole = dispatch.implementation("equal")(dispatch.implementation("floor")(self), self)
        return python_number(dispatch.implementation("logical_and")(whole, dispatch.implementation("isfinite")(self)))

    def bit_count(self) -> Tracer:
        """How many bits of its magnitude are set."""
        self._check_is_number("bit_count", "iu")
        return python_number(dispatch.implementation("bitwise_count")(self).astype(np.int64))

    def bit_length(self) -> Tracer:
        """How many bits its magnitude takes; those of each half are a float's exponent."""
        self._check_is_number("bit_length", "iu")
        magnitude = dispatch.implementation("absolute")(self).astype(np.uint64)
        high = magnitude >> np.uint64(_HALF)
        part = dispatch.implementation("where")(high > 0, high, magnitude).astype(np.float64)
        _, bits = dispatch.implementation("frexp")(part)
        return python_number(bits.astype(np.int64) + _HALF * (high > 0).astype(np.int64))

    def _check_is_number(self, name: str, kinds: str) -> None:
        if self.type.rank or self.type.dtype.kind not in kinds:
            raise AttributeError(f"{self.type} has no attribute {name!r}", name=name, obj=self)
