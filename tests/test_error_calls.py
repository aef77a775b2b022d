"""The text of errors of calls: unknown arguments, NumPy's functions that dispatch on no argument, and attributes
and elements of arrays that a program does not have.
"""

import pickle

import numpy as np
import pytest
import scipy.fft
import scipy.linalg

import zenith.numpy as znp
from tests.error_texts import VALUES, expect
from zenith.errors import ArgumentError, CallError, DTypeError, OutOfBoundsError, TraceError, UnsupportedError

NUMBERS = "a size is computed from shapes (x.shape[0]), is a static argument (static_argnums)"
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
        f"numpy.r_: converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "use zenith.numpy.r_ in place of numpy.r_",
    ),
    "objects": (
        lambda x, i, h: x + np.array(["a", None, 1]),
        DTypeError,
        "Zenith has no element type for object",
        "",
        "make it by zenith.numpy.array",
    ),
    "a size that is no int": (
        lambda x, i, h: np.fft.fftfreq(x.shape[0]),
        ArgumentError,
        "numpy.fft.fftfreq was given the traced size n: n should be an integer",
        "",
        "call zenith.numpy.fft.fftfreq, which takes traced sizes; or int(n) compiles for this size only",
    ),
    "a size from values": (
        lambda x, i, h: np.zeros(i),
        TraceError,
        "numpy.zeros: using it as a Python integer (an index, a size, range()) needs the values of a traced array",
        "i64",
        f"{NUMBERS}, or says how many there are at most (size=, as zenith.numpy.nonzero takes it)",
    ),
    "an argument that NumPy has not": (
        lambda x, i, h: np.sum(x, axes=1),
        CallError,
        "numpy.sum: got an unexpected keyword argument 'axes'",
        "",
        "its arguments are a, axis, dtype, out, keepdims, initial, where",
    ),
    "an operand too few for NumPy": (
        lambda x, i, h: np.add(x),
        CallError,
        "numpy.add: missing a required argument: 'x2'",
        "",
        "its arguments are x1, x2, out",
    ),
    "a loop over elements": (
        lambda x, i, h: list(np.nditer(x)),
        TraceError,
        "numpy.nditer: it is a loop of Python's over elements",
        "f32[n, 3]",
        "work on whole arrays",
    ),
    "what gives as many as values say": (
        lambda x, i, h: np.roots(x[:, 0]),
        TraceError,
        "roots: it cuts off zero coefficients",
        "",
        "call it before the traced function",
    ),
    "a method's argument": (
        lambda x, i, h: x.sum(axes=1),
        CallError,
        "sum: got an unexpected keyword argument 'axes'",
        "",
        "its arguments are x, axis",
    ),
    "such a function that is refused": (
        lambda x, i, h: np.asfortranarray(x),
        TraceError,
        "numpy.asfortranarray: in a program all arrays are row-major",
        "f32[n, 3]",
        "leave it out, or make the order of a result outside of the traced function",
    ),
    "a mask of a NumPy array": (
        lambda x, i, h: np.ones(9)[i > 0],
        TraceError,
        f"indexing a NumPy array with it {VALUES}",
        "bool[n]",
        "say how many elements there are at most: zenith.numpy.extract(mask, x, size=n), or zenith.numpy.nonzero(mask",
    ),
    "an order of complex numbers": (
        lambda x, i, h: np.argmin(x + 1j),
        DTypeError,
        "argmin of complex numbers, which NumPy orders by their real parts first, is not supported",
        "complex64",
        "take a part of them, x.real or x.imag, or abs(x)",
    ),
    "a running extreme of complex numbers": (
        lambda x, i, h: np.maximum.accumulate(x + 1j),
        DTypeError,
        "cumulative_max of complex numbers, which NumPy orders by their real parts first, is not supported",
        "complex64",
        "take a part of them, x.real or x.imag, or abs(x)",
    ),
    "a function of SciPy's": (
        lambda x, i, h: scipy.linalg.expm(x),
        TraceError,
        f"scipy.linalg.expm: converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "write it with functions of zenith.numpy, or call it where the program runs, with zenith.pure_callback",
    ),
    "a function of SciPy's that is here": (
        lambda x, i, h: scipy.fft.rfft(x),
        TraceError,
        f"scipy.fft.rfft: converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "use zenith.numpy.fft.rfft in place of scipy.fft.rfft",
    ),
    "chance of NumPy's": (
        lambda x, i, h: np.random.normal(x),
        TraceError,
        f"numpy.random.normal: converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "draw with zenith.random, whose functions take a key and traced arrays",
    ),
    "pickle": (
        lambda x, i, h: pickle.dumps(x),
        TraceError,
        f"pickling it {VALUES}",
        "f32[n, 3]",
        "return it from the function, and pickle the result",
    ),
    "no order": (
        lambda x, i, h: x.copy("Z"),
        ArgumentError,
        "copy: 'Z' is no order",
        "",
        "use 'C', 'F', 'A' or 'K'",
    ),
    "an axis of an iterator": (
        lambda x, i, h: x.flat[..., None],
        OutOfBoundsError,
        "x.flat has one axis, and None cannot add another",
        "f32[n, 3]",
        "use x.ravel()[index]",
    ),
    "other bits": (
        lambda x, i, h: x.view(np.int64),
        UnsupportedError,
        "view: the bits of a traced float32 array cannot be read as int64",
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
