"""Types of what the runtime of converted functions is given, for type checkers.

What a user's name or expression has, and is only passed on, is an ``object``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from zenith.trace.sizes import UserSize
from zenith.trace.tracer import Tracer

Function: TypeAlias = Callable[..., object]  # of Python's, NumPy's or the user's
Thunk: TypeAlias = Callable[[], object]  # an operand, computed when it is called
Integer: TypeAlias = "UserSize | Tracer"  # one of Python's, or of the program's: a size, or what it computes
