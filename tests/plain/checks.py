"""A function of an array, compiled once, against Python: results and their types, exceptions, what it writes."""

from typing import Any

import numpy as np

import zenith

ROWS = [[1.0, 2, -1, 3, -2, 1, 1, -1, 2, -3, 1, -1], [0.5, 3, -1, 2], [-1.0, -2, -3, -4, -5, -1, -1, -1, -1, -1]]


def outcome(function, x) -> tuple[Any, Any]:
    """What a function returns and raises."""
    try:
        return function(x), None
    except (LookupError, ArithmeticError, StopIteration) as error:
        return None, (type(error), error.args)


def check_as_in_python(function, backend, rows=ROWS):
    compiled = zenith.jit(function, backend=backend)
    for row in rows:
        own, plain = np.array(row), np.array(row)
        (found, told), (expected, raised) = outcome(compiled, own), outcome(function, plain)
        assert told == raised
        check_alike(found, expected)
        np.testing.assert_array_equal(own, plain)


def check_alike(found, expected):
    """Integers and truths of Python's are Python's; a float that is NumPy's beside Python's ones is a float, too."""
    if isinstance(expected, (tuple, list, dict)):
        assert type(found) is type(expected) and len(found) == len(expected)
        pairs = ((found[k], expected[k]) for k in (expected if isinstance(expected, dict) else range(len(expected))))
        for a, b in pairs:
            check_alike(a, b)
        return
    if isinstance(expected, (bool, int, complex, np.generic)) or expected is None:
        assert isinstance(found, type(expected)), (found, expected)
    if expected is not None:
        np.testing.assert_array_equal(found, expected)
