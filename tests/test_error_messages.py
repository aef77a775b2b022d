"""The text of every error that tracing raises: what was wrong, the types, the user's line, the fix.

tests/test_error_families.py lists the families of bad input; those of calls are in tests/test_error_calls.py.
"""

import ml_dtypes
import numpy as np
import pytest

import zenith.debug
import zenith.numpy as znp
from tests.error_texts import VALUES, N, expect
from zenith.errors import (
    DTypeError,
    MissingAttributeError,
    NumberError,
    ShapeError,
    TraceError,
    UnsupportedError,
    ValueTypeError,
)
from zenith.ir.types import float64
from zenith.trace import InputSpec, trace

COPY = "make a new array, x = x * 2 in place of x *= 2, or write into a copy, x = x.copy(), and return it; with "
COPY += "donate_argnums the copy takes the argument's memory"
WRITING = "writing into an array that"
STATIC = "keep it an array and use NumPy functions on it (astype to convert), or make the argument static"
BRANCH = (
    "choose between arrays with numpy.where(condition, a, b), between functions with zenith.cond(condition, f, g, x), "
)
BRANCH += (
    "loop with zenith.while_loop(condition, body, x), combine conditions with & | ~, or make the argument static; "
)
BRANCH += "where a function's source is known, in a file or a notebook, its conditions are converted"
TRACED = "let the trace make the array: zenith.numpy.zeros(shape), zenith.numpy.array(values), numpy.zeros_like(x) or "
TRACED += (
    "numpy.zeros(shape, like=x) for a traced x, or x.copy() can be written; or use the result, y = y + x in place "
)
TRACED += "of y += x"
NUMBERS = "a size is computed from shapes (x.shape[0]), is a static argument (static_argnums), or says how many there"
CONVERT = "use zenith.numpy.asarray or zenith.numpy.array (numpy.stack for a list of traced arrays)"
CAST = "cast an operand first: x.astype(numpy.float32), numpy.float64, numpy.int32 or numpy.int64"


def branch(x, i, h):
    if x.sum() > 0:
        return x
    return -x


def write_an_element(x, i, h):
    x[0] = 1.0


def change_an_element(x, i, h):
    x[0, 1] += 1.0


def write_into_numpy(x, i, h):
    out = np.zeros(3)
    out[0] = x[0, 0]


def write_a_row_into_numpy(x, i, h):
    out = np.zeros((2, 3))
    out[0] = x[0]


def add_into_numpy(x, i, h):
    total = np.zeros(3)
    total += x[0]


def change_a_view(x, i, h):
    row = x.T[:, 0]
    row *= 2


def change_a_reshape(x, i, h):
    x.T.reshape(-1)[0] = 1


def change_a_number(x, i, h):
    total = x.sum()
    total[...] = 0


def change_from_inside(x, i, h):
    made = x * 2

    def change(carry, step):
        made[0] = carry
        return carry, None

    return zenith.scan(change, 0.0, i)


def read_after_an_ambiguous_write(x, i, h):
    transposed = (x * 2).T
    flat = transposed.reshape(-1)
    flat[0] = 1
    return transposed + 1


def change_integers(x, i, h):
    i = i.copy()
    i += 0.5


def write_another_shape(x, i, h):
    x = x * 2
    x[0] = np.zeros(4, np.float32)


CASES = {
    "if": (branch, TraceError, f"a Python condition (if, while, and, or, not, assert) {VALUES}", "bool", BRANCH),
    "and": (lambda x, i, h: x[0, 0] > 0 and x[0, 1] > 0, TraceError, "a Python condition", "bool", BRANCH),
    "arange": (
        lambda x, i, h: np.arange(i[0]),
        TraceError,
        f"numpy.arange: converting it to a NumPy array {VALUES}",
        "i64",
        f"use zenith.numpy.arange in place of numpy.arange; {NUMBERS}",
    ),
    "float()": (lambda x, i, h: float(x.sum()), TraceError, f"float() {VALUES}", "f32", STATIC),
    "int()": (lambda x, i, h: int(i[0]), TraceError, f"int() {VALUES}", "i64", STATIC),
    "range()": (lambda x, i, h: list(range(i[0])), TraceError, "using it as a Python integer", "i64", STATIC),
    "complex()": (lambda x, i, h: complex(x[0, 0]), TraceError, f"complex() {VALUES}", "f32", STATIC),
    "item()": (lambda x, i, h: x[0].item(), TraceError, f"item() {VALUES}", "f32[3]", STATIC),
    "tolist()": (lambda x, i, h: x.tolist(), TraceError, f"tolist() {VALUES}", "f32[n, 3]", STATIC),
    "asarray": (
        lambda x, i, h: np.asarray(x),
        TraceError,
        f"numpy.asarray: converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "use zenith.numpy.asarray in place of numpy.asarray",
    ),
    "array": (
        lambda x, i, h: np.array([x, x]),
        TraceError,
        f"numpy.array: converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        "use zenith.numpy.array in place of numpy.array",
    ),
    "another library's conversion": (
        lambda x, i, h: memoryview(x.__array__()),
        TraceError,
        f"converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        CONVERT,
    ),
    "index": (
        lambda x, i, h: np.ones(9)[i],
        TraceError,
        f"indexing a NumPy array with it {VALUES}",
        "i64[n]",
        "index an array of the program: zenith.numpy.asarray(table)[i], zenith.numpy.asarray(table)[i, j]",
    ),
    "two indices": (
        lambda x, i, h: np.ones((9, 9))[i, i],
        TraceError,
        f"indexing a NumPy array with it {VALUES}",
        "i64[n]",
        "index an array of the program: zenith.numpy.asarray(table)[i], zenith.numpy.asarray(table)[i, j]",
    ),
    "index of a list": (
        lambda x, i, h: [x, x][i[0]],
        TraceError,
        f"indexing a list with it {VALUES}",
        "i64",
        "make one array of it, zenith.numpy.stack(items)[i], or choose a function by zenith.switch(i, functions)",
    ),
    "dlpack": (lambda x, i, h: np.from_dlpack(x), TraceError, "", "", ""),
    "format": (
        lambda x, i, h: f"{x:.2f}",
        TraceError,
        f"formatting it {VALUES}",
        "f32[n, 3]",
        "zenith.debug.print('{...}', x) prints it when the program runs",
    ),
    "setitem": (write_an_element, TraceError, f"{WRITING} is the argument x, which", "f32[n, 3]", COPY),
    "setitem in place": (change_an_element, TraceError, f"{WRITING} is the argument x, which", "f32[n, 3]", COPY),
    "view of an argument": (change_a_view, TraceError, f"{WRITING} is a view of the argument x", "f32[3]", COPY),
    "perhaps a view": (change_a_reshape, TraceError, f"{WRITING} may be a view of the argument x", "f32[3*n]", COPY),
    "read-only": (
        lambda x, i, h: np.broadcast_to(x * 2, (2, *x.shape)).fill(0),
        TraceError,
        "writing into a view that is read-only, as in NumPy",
        "f32[2, n, 3]",
        "copy it first: x = x.copy()",
    ),
    "number": (
        change_a_number,
        TraceError,
        "writing into a number: what NumPy gives without axes is no array",
        "f32",
        "make an array of it first, numpy.array(x), or compute a new number",
    ),
    "made outside": (
        change_from_inside,
        TraceError,
        f"{WRITING} was made outside of step, which is traced on its own",
        "f32[n, 3]",
        "pass it as an argument (a carried value of a loop), copy it there, x = x.copy(), and return the copy",
    ),
    "lost": (
        read_after_an_ambiguous_write,
        TraceError,
        "whether this array was changed is left open: the write at ",
        "f32[3, n]",
        "say which one you mean: copy after the reshape, x.copy(), or write first",
    ),
    "other kind": (
        change_integers,
        DTypeError,
        "add gives float64 here, which cannot be written into int64",
        "",
        "convert first, as numpy.add(...).astype(numpy.int64), or make the array of float64",
    ),
    "other shape": (
        write_another_shape,
        ShapeError,
        "cannot write an array (4,) into a selection (3,)",
        "",
        "make the sizes equal, or 1 (sizes are matched from the last axis on)",
    ),
    "out": (lambda x, i, h: np.add(x, 1, out=x), TraceError, f"{WRITING} is the argument x", "f32[n, 3]", COPY),
    "out of a function": (
        lambda x, i, h: np.sum(x, out=np.zeros(())),
        TraceError,
        "sum cannot write what is traced into an array that NumPy made (out=, or an in-place operator)",
        "f32",
        TRACED,
    ),
    "numpy in place": (add_into_numpy, TraceError, "add cannot write what is traced into an", "f64[3]", TRACED),
    "numpy element": (write_into_numpy, TraceError, f"writing it into a NumPy array {VALUES}", "f32", TRACED),
    "numpy row": (write_a_row_into_numpy, TraceError, f"writing it into a NumPy array {VALUES}", "f32[3]", TRACED),
    "numpy at": (
        lambda x, i, h: np.add.at(np.zeros(3), i, 1.0),
        TraceError,
        "add.at cannot write what is traced into an array that NumPy made",
        "numpy float64[3]",
        TRACED,
    ),
    "copyto": (lambda x, i, h: np.copyto(x, 0), TraceError, f"{WRITING} is the argument x", "f32[n, 3]", COPY),
    "mask": (
        lambda x, i, h: x[x > 0],
        TraceError,
        "indexing with a boolean mask gives a result whose size depends on values",
        "bool[n, 3]",
        "say how many elements there are at most: zenith.numpy.extract(mask, x, size=n); or keep the shape: "
        "numpy.where(mask, x, 0)",
    ),
    "nonzero": (
        lambda x, i, h: np.nonzero(x),
        TraceError,
        "nonzero: the size of its result depends on values",
        "f32[n, 3]",
        "say how many there are at most: zenith.numpy.nonzero(x, size=n), which fills up what is missing; or keep the "
        "shape: numpy.where(mask, x, 0)",
    ),
    "unique": (
        lambda x, i, h: np.unique(i),
        TraceError,
        "unique: the size of its result depends on values",
        "i64[n]",
        "say how many there are at most: zenith.numpy.unique(x, size=n)",
    ),
    "where of one": (
        lambda x, i, h: np.where(x > 0),
        TraceError,
        "nonzero: the size of its result depends on values",
        "bool[n, 3]",
        "say how many there are at most: zenith.numpy.nonzero(x, size=n)",
    ),
    "shapes": (
        lambda x, i, h: x + np.zeros(4),
        ShapeError,
        "add: shapes (n, 3) and (4,) do not fit together: sizes 3 and 4 differ",
        "",
        "make the sizes equal, or 1 (sizes are matched from the last axis on)",
    ),
    "symbolic shapes": (
        lambda x, i, h: x[:, 0] * np.zeros(4),
        ShapeError,
        "multiply: shapes (n,) and (4,) do not fit together: sizes n = 5 and 4 differ",
        "",
        "make the sizes equal, or 1",
    ),
    "matmul": (
        lambda x, i, h: x @ x,
        ShapeError,
        "matmul: the inner sizes of (n, 3) and (n, 3) must be equal: 3 == n does not hold (3 and 5 in this call)",
        "",
        "change the sizes",
    ),
    "dtype": (
        lambda x, i, h: x & 1,
        DTypeError,
        "bitwise_and is not defined for these element types",
        "float32, int",
        "cast an operand first",
    ),
    "integers of 16-bit floats": (
        lambda x, i, h: h & 1,
        DTypeError,
        "bitwise_and is not defined for these element types",
        "float16, int",
        "cast an operand first",
    ),
    "float8": (
        lambda x, i, h: x + np.zeros(3, ml_dtypes.float8_e4m3fn),
        DTypeError,
        "Zenith has no element type for float8_e4m3fn",
        "",
        "convert first, with astype: to bool, ",
    ),
    "overflow": (
        lambda x, i, h: i.astype(np.int32) + 2**31,
        NumberError,
        "Python integer 2147483648 is out of bounds for int32",
        "",
        "cast the array to a wider type first, or write numpy.int64(2147483648)",
    ),
    "int power": (
        lambda x, i, h: i**-1,
        DTypeError,
        "integers to negative integer powers are not allowed, as in NumPy",
        "i64[n]",
        "use a float exponent, or x.astype(numpy.float64)",
    ),
    "function": (
        lambda x, i, h: np.einsum_path("ij->i", x),
        UnsupportedError,
        "numpy.einsum_path is not supported on traced arrays",
        "",
        "near matches that are: ",
    ),
    "vectorize": (
        lambda x, i, h: np.vectorize(lambda v: v + 1, otypes=[float])(x),
        TraceError,
        "numpy.vectorize: it calls Python for each element",
        "f32[n, 3]",
        "zenith.numpy.vectorize(function)(x), or zenith.vmap(function)(x) for a function of slices",
    ),
    "frompyfunc": (
        lambda x, i, h: np.frompyfunc(abs, 1, 1)(x),
        TraceError,
        "abs (vectorized): it calls Python for each element, as numpy.frompyfunc has made it",
        "",
        "zenith.numpy.vectorize(function)(x), or zenith.vmap(function)(x) for a function of slices",
    ),
    "a matrix that is not square": (
        lambda x, i, h: np.linalg.inv(x),
        ShapeError,
        "inv needs square matrices, not (n, 3): n == 3 does not hold (5 and 3 in this call)",
        "",
        "change the sizes",
    ),
    "eigenvalues of any matrix": (
        lambda x, i, h: np.linalg.eig(x),
        TraceError,
        "eig: its result is real or complex by the matrix's values, which no program's is",
        "",
        "use eigh or eigvalsh for symmetric and Hermitian matrices, or zenith.pure_callback",
    ),
    "a type by values": (
        lambda x, i, h: np.real_if_close(x),
        TraceError,
        "real_if_close: its result is real or complex by the values, which no program's is",
        "",
        "take the real part, numpy.real(x), or keep it complex",
    ),
    "method": (
        lambda x, i, h: x.tobytes(),
        MissingAttributeError,
        "ndarray.tobytes is not supported on traced arrays",
        "f32[n, 3]",
        "write it with functions that are supported",
    ),
    "ufunc": (
        lambda x, i, h: np.isnat(x),
        UnsupportedError,
        "numpy.isnat is not supported on traced arrays",
        "",
        "",
    ),
    "ufunc method": (
        lambda x, i, h: znp.exp.reduce(x),
        UnsupportedError,
        "numpy.exp.reduce: only functions of two numbers are folded",
        "",
        "call it, or use one of two operands",
    ),
    "ufunc at": (
        lambda x, i, h: np.divide.at(x * 2, 0, 1),
        UnsupportedError,
        "numpy.divide.at is not supported on traced arrays",
        "",
        "those that are: add, maximum, minimum, multiply, subtract",
    ),
    "ufunc where": (
        lambda x, i, h: np.add(x, 1, where=x > 0),
        UnsupportedError,
        "add: the options where are not supported",
        "",
        "use numpy.where for where=",
    ),
    "size from values": (
        lambda x, i, h: x.reshape(i[0], -1),
        TraceError,
        "a size must be known before the program runs, not computed by it",
        "i64",
        "compute it from shapes (x.shape[0]), or pass it as a static argument",
    ),
    "returned object": (
        lambda x, i, h: ["text"],
        TraceError,
        "f returned a str, which is no array",
        "",
        "return arrays and numbers, in tuples, lists and dictionaries if you like",
    ),
    "debug format": (
        lambda x, i, h: zenith.debug.print("{} {}", x),
        TraceError,
        "debug.print: the format '{} {}' needs more or other arguments than the 1 given",
        "",
        "give one argument for each {}",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    expect(CASES[name], None if name == "returned object" else __file__)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ValueTypeError, TypeError),
        (ShapeError, ValueError),
        (DTypeError, TypeError),
        (UnsupportedError, NotImplementedError),
        (NumberError, OverflowError),
        (MissingAttributeError, AttributeError),
    ],
)
def test_errors_are_builtin_errors_too(error, builtin):
    assert issubclass(error, builtin)


def test_concrete_arrays_meet_the_same_errors():
    with pytest.raises(ShapeError, match=r"add: shapes \(2,\) and \(3,\) do not fit together: sizes 2 and 3 differ"):
        znp.add(np.zeros(2), np.zeros(3))
    with pytest.raises(DTypeError, match="absolute: Zenith has no element type for float128"):
        znp.abs(np.zeros(2, np.longdouble))


def test_the_whole_text():
    with pytest.raises(ShapeError) as caught:
        trace(lambda x: [x + np.zeros(4)], [InputSpec("x", float64, (N,), (3,))], "f")
    assert str(caught.value).splitlines() == [
        "add: shapes (n,) and (4,) do not fit together: sizes n = 3 and 4 differ",
        f"  at {__file__}:{caught.value.where.line} in <lambda>:  "
        'trace(lambda x: [x + np.zeros(4)], [InputSpec("x", float64, (N,), (3,))], "f")',
        "  fix: make the sizes equal, or 1 (sizes are matched from the last axis on)",
    ]
