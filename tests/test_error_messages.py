"""The text of every error that tracing raises: what was wrong, the types, the user's line, the fix."""

import numpy as np
import pytest

import zenith.debug
import zenith.numpy as znp
from zenith.errors import (
    DTypeError,
    MissingAttributeError,
    NumberError,
    ShapeError,
    TraceError,
    UnsupportedError,
    ZenithError,
)
from zenith.ir.dims import dim, symbol
from zenith.ir.types import float16, float32, float64, int64
from zenith.trace import InputSpec, trace

N = symbol("n")
SPECS = [
    InputSpec("x", float32, (N, dim(3)), (5, 3)),
    InputSpec("i", int64, (N,), (5,)),
    InputSpec("h", float16, (N,), (5,)),
]
VALUES = "needs the values of a traced array, which exist only when the program runs"
MADE = (
    "make a new array: numpy.where(mask, new, x), numpy.concatenate([...]), or collect the parts and numpy.stack them"
)
STATIC = "keep it an array and use NumPy functions on it (astype to convert), or make the argument static"
BRANCH = "choose between arrays with numpy.where(condition, a, b), combine conditions with & | ~, or make the argument "
BRANCH += "static"
RESULT = "use the result: y = f(x) instead of f(x, out=y), y = y + x instead of y += x"
CONVERT = (
    "use zenith.numpy.asarray or zenith.numpy.array (numpy.stack for a list of traced arrays), and "
    "zenith.numpy.take(table, i, axis=0) to index a NumPy array"
)
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
    parts = np.zeros(3)
    parts[0] = x[0, 0]


def write_a_row_into_numpy(x, i, h):
    parts = np.zeros((2, 3))
    parts[0] = x[0]


def add_into_numpy(x, i, h):
    total = np.zeros(3)
    total += x[0]


CASES = {
    "if": (branch, TraceError, f"a Python condition (if, while, and, or, not, assert) {VALUES}", "bool", BRANCH),
    "and": (lambda x, i, h: x[0, 0] > 0 and x[0, 1] > 0, TraceError, "a Python condition", "bool", BRANCH),
    "float()": (lambda x, i, h: float(x.sum()), TraceError, f"float() {VALUES}", "f32", STATIC),
    "int()": (lambda x, i, h: int(i[0]), TraceError, f"int() {VALUES}", "i64", STATIC),
    "range()": (lambda x, i, h: list(range(i[0])), TraceError, "using it as a Python integer", "i64", STATIC),
    "complex()": (lambda x, i, h: complex(x[0, 0]), TraceError, f"complex() {VALUES}", "f32", STATIC),
    "item()": (lambda x, i, h: x[0, 0].item(), TraceError, f"item() {VALUES}", "f32", STATIC),
    "tolist()": (lambda x, i, h: x.tolist(), TraceError, f"tolist() {VALUES}", "f32[n, 3]", STATIC),
    "asarray": (
        lambda x, i, h: np.asarray(x),
        TraceError,
        f"converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        CONVERT,
    ),
    "array": (
        lambda x, i, h: np.array([x, x]),
        TraceError,
        f"converting it to a NumPy array {VALUES}",
        "f32[n, 3]",
        CONVERT,
    ),
    "index": (lambda x, i, h: np.ones(9)[i], TraceError, f"converting it to a NumPy array {VALUES}", "i64[n]", CONVERT),
    "dlpack": (lambda x, i, h: np.from_dlpack(x), TraceError, "", "", ""),
    "format": (
        lambda x, i, h: f"{x:.2f}",
        TraceError,
        f"formatting it {VALUES}",
        "f32[n, 3]",
        "zenith.debug.print('{...}', x) prints it when the program runs",
    ),
    "setitem": (write_an_element, TraceError, "a traced array cannot be changed in place", "f32[n, 3]", MADE),
    "setitem in place": (change_an_element, TraceError, "a traced array cannot be changed in place", "f32[n, 3]", MADE),
    "out": (
        lambda x, i, h: np.add(x, 1, out=x),
        TraceError,
        "add cannot write into an array (out=, or an in-place operator on a NumPy array) while tracing",
        "f32[n, 3]",
        RESULT,
    ),
    "out of a function": (
        lambda x, i, h: np.sum(x, out=np.zeros(())),
        TraceError,
        "sum cannot write into an array",
        "f32[n, 3]",
        RESULT,
    ),
    "numpy in place": (add_into_numpy, TraceError, "add cannot write into an array", "f32[3]", RESULT),
    "numpy element": (
        write_into_numpy,
        TraceError,
        f"writing it into a NumPy array {VALUES}",
        "f32",
        "build the array from traced parts: zenith.numpy.zeros(...) with zenith.numpy.where, or "
        "zenith.numpy.stack and concatenate",
    ),
    "numpy row": (
        write_a_row_into_numpy,
        TraceError,
        f"writing it into a NumPy array {VALUES}",
        "f32[3]",
        "build the array from traced parts: zenith.numpy.zeros(...)",
    ),
    "copyto": (lambda x, i, h: np.copyto(x, 0), TraceError, "copyto: it writes into an array", "", "make a new array"),
    "len": (
        lambda x, i, h: len(x),
        TraceError,
        "len() must be a number, but the size n is not fixed",
        "f32[n, 3]",
        "use x.shape[0], or int(x.shape[0]) to compile for this size only",
    ),
    "loop": (
        lambda x, i, h: [row + 1 for row in x],
        TraceError,
        "a Python loop over an axis whose size n is not fixed",
        "f32[n, 3]",
        "work on whole arrays, or loop over range(int(x.shape[0])) to compile for this size only",
    ),
    "mask": (
        lambda x, i, h: x[x > 0],
        TraceError,
        "indexing with a boolean mask gives a result whose size depends on values",
        "bool[n, 3]",
        "keep the shape: numpy.where(mask, x, 0), or sums of numpy.where(mask, x, 0)",
    ),
    "nonzero": (
        lambda x, i, h: np.nonzero(x),
        TraceError,
        "nonzero: the size of its result depends on values",
        "",
        "keep the shape: numpy.where(mask, x, 0), or count with numpy.count_nonzero",
    ),
    "unique": (
        lambda x, i, h: np.unique(i),
        TraceError,
        "unique: the size of its result depends on values",
        "",
        "call it before the traced function and pass the result as an argument",
    ),
    "where of one": (
        lambda x, i, h: np.where(x > 0),
        TraceError,
        "where(condition) alone gives a result whose size depends",
        "",
        "give both choices, where(condition, x, y), and keep the shape",
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
    "int8": (
        lambda x, i, h: x + np.zeros(3, np.int8),
        DTypeError,
        "Zenith has no element type for int8",
        "",
        "convert first, with astype: to bool, int32, int64, uint32, float32 or float64",
    ),
    "complex": (lambda x, i, h: x * 1j, TypeError, "", "", ""),
    "uint32 sum": (
        lambda x, i, h: i.astype(np.uint32).sum(),
        DTypeError,
        "sum of uint32 is uint64 in NumPy",
        "",
        "sum(x, dtype=numpy.int64), or dtype=numpy.uint32 to wrap",
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
        lambda x, i, h: np.nancumsum(x),
        UnsupportedError,
        "numpy.nancumsum is not supported on traced arrays",
        "",
        "near matches that are: ",
    ),
    "linalg": (
        lambda x, i, h: np.linalg.inv(x),
        UnsupportedError,
        "numpy.linalg.inv is not supported on traced arrays",
        "",
        "",
    ),
    "method": (
        lambda x, i, h: x.sort(),
        MissingAttributeError,
        "ndarray.sort is not supported on traced arrays",
        "f32[n, 3]",
        "write it with functions that are supported",
    ),
    "ufunc": (
        lambda x, i, h: np.spacing(x),
        UnsupportedError,
        "numpy.spacing is not supported on traced arrays",
        "",
        "",
    ),
    "ufunc method": (
        lambda x, i, h: np.add.at(x, 0, 1),
        UnsupportedError,
        "numpy.add.at is not supported on traced arrays",
        "",
        "methods that are: __call__, outer, and reduce of add",
    ),
    "ufunc where": (
        lambda x, i, h: np.add(x, 1, where=x > 0),
        UnsupportedError,
        "add: the options where are not supported",
        "",
        "use numpy.where for where=, astype for dtype=",
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
    function, error, what, types, fix = CASES[name]
    with pytest.raises(error) as caught:
        trace(function, SPECS, "f")
    if not what:
        return
    found = caught.value
    assert isinstance(found, ZenithError)
    assert found.what.startswith(what)
    assert ", ".join(map(str, found.types)) == types
    assert (found.fix or "").find(fix) >= 0
    assert found.where is not None
    if name != "returned object":
        assert found.where.file == __file__
        assert f"at {__file__}:{found.where.line} in {found.where.function}" in str(found)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (TraceError, TypeError),
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
    with pytest.raises(DTypeError, match="absolute computes in complex128 here"):
        znp.abs(np.zeros(2, complex))


def test_the_whole_text():
    with pytest.raises(ShapeError) as caught:
        trace(lambda x: [x + np.zeros(4)], [InputSpec("x", float64, (N,), (3,))], "f")
    assert str(caught.value).splitlines() == [
        "add: shapes (n,) and (4,) do not fit together: sizes n = 3 and 4 differ",
        f"  at {__file__}:{caught.value.where.line} in <lambda>:  "
        'trace(lambda x: [x + np.zeros(4)], [InputSpec("x", float64, (N,), (3,))], "f")',
        "  fix: make the sizes equal, or 1 (sizes are matched from the last axis on)",
    ]
