"""Sizes that Python computes from others before a program runs: those that are no polynomials, as ``int(n * 0.75)``.

Each is a symbol with its *definition*, Python source in the names of other sizes. A symbol is a size, so a program is
not valid for sizes for which a definition is a negative number, or undefined, such as the logarithm of 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NAMES: dict[str, Any] = {f.__name__: f for f in (abs, float, int, max, min, round)} | {"math": math}
NO_NUMBER = (ArithmeticError, ValueError)  # what Python's functions raise outside of their domains


def evaluate(source: str, sizes: Mapping[str, int]) -> Any:
    """The value of an expression in the names of sizes, and in those of NAMES.

    >>> evaluate("int(n * 0.75)", {"n": 10}), evaluate("2 ** math.ceil(math.log2(n))", {"n": 10})
    (7, 16)
    """
    return eval(source, {"__builtins__": NAMES}, dict(sizes))


def with_computed(sizes: Mapping[str, int], definitions: Mapping[str, str]) -> dict[str, int]:
    """The sizes, and those that are defined by them, in this order."""
    found = dict(sizes)
    for name, source in definitions.items():
        found[name] = evaluate(source, found)
    return found
