"""The text of errors of calls: arguments that there are not, NumPy's functions that ask no argument, and what of an
array's attributes or of its elements a program has not.
"""

import numpy as np
import pytest

import zenith.numpy as znp
from tests.error_texts import VALUES, expect
from zenith.errors import ArgumentError, CallError, DTypeError, TraceError, UnsupportedError

CASES = {
    "ufunc order": (
        lambda x, i, h: np.add(x, 1, order="F"),
        UnsupportedError,
        "add: the options order are not supported",
        "",
        "leave them out",
    ),
    "an argument that there is not": (
        lambda x, i, h: znp.sum(x, axes=1),
        CallError,
        "sum: got an unexpected keyword argument 'axes'",
        "",
        "its arguments are x, axis, dtype, out, keepdims, initial, where",
    ),
    "an operand too few": (
        lambda x, i, h: znp.add(x),
        CallError,
        "add takes 2 operands, not 1",
        "",
        "call it as add(x, y)",
    ),
    "a deleted element": (
        lambda x, i, h: (x * 1).__delitem__(0),
        ArgumentError,
        "elements of an array cannot be deleted, as in NumPy",
        "f32[n, 3]",
        "x = numpy.delete(x, index) makes a new array",
    ),
    "a function that asks no argument": (
        lambda x, i, h: np.r_[x, x],
        TraceError,
        f"converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "write zenith.numpy.r_, which takes traced arrays and sizes",
    ),
    "such a function of a size": (
        lambda x, i, h: x + np.mgrid[: x.shape[0]][:, None],
        DTypeError,
        "Zenith has no element type for object",
        "",
        "write zenith.numpy.mgrid, which takes traced arrays and sizes",
    ),
    "such a function that is refused": (
        lambda x, i, h: np.asfortranarray(x),
        TraceError,
        f"converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "numpy.asfortranarray: in a program all arrays stand in rows",
    ),
    "parts that NumPy looks for": (
        lambda x, i, h: np.lexsort(x),
        TraceError,
        "a Python loop over an axis whose size n is not fixed",
        "f32[n, 3]",
        "call zenith.numpy.lexsort, which takes a whole array",
    ),
    "a mask of a NumPy array": (
        lambda x, i, h: np.ones(9)[i > 0],
        TraceError,
        f"picking elements of a NumPy array by it {VALUES}",
        "bool[n]",
        "say how many there are, zenith.numpy.extract(mask, table, size=n), or choose between arrays",
    ),
    "an order of complex numbers": (
        lambda x, i, h: np.argmin(x + 1j),
        DTypeError,
        "argmin of complex numbers, which NumPy orders by their real parts first, is not supported",
        "complex64",
        "take a part of them, x.real or x.imag, or abs(x)",
    ),
    "other bits": (
        lambda x, i, h: x.view(np.int32),
        UnsupportedError,
        "view: the bits of a traced float32 array cannot be read as int32",
        "f32[n, 3]",
        "convert the values with astype, or pass the view as an argument of its own",
    ),
    "an iterator for an array": (
        lambda x, i, h: np.asarray(x.flat),
        TraceError,
        "an iterator over a traced array, x.flat, is no array",
        "f32[n, 3]",
        "use x.ravel()",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    expect(CASES[name], __file__)


def test_calls_of_wrong_arguments_are_type_errors():
    assert issubclass(CallError, TypeError)
