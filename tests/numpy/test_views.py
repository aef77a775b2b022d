"""Which results share an argument's memory, and which results without axes are arrays, as in NumPy itself."""

import warnings

import numpy as np
import pytest

import zenith
from tests.numpy.comparison import specs_for
from zenith.errors import ShapeError, TraceError, UnsupportedError
from zenith.ir.interpret import interpret
from zenith.trace import dispatch, trace
from zenith.trace.memory import NUMBER
from zenith.trace.tracer import Tracer

JOINING = ("column_stack", "concat", "concatenate", "dstack", "hstack", "stack", "vstack")
FURTHER = {
    "array_split": (2,), "astype": (np.float64,), "broadcast_to": ((2, 3, 4),), "clip": (0, 1), "expand_dims": (0,),
    "full_like": (1.0,), "moveaxis": (0, 1), "pad": (1,), "repeat": (2,), "reshape": ((4, 3),), "roll": (1,),
    "split": (3,), "swapaxes": (0, 1), "take": ([0, 1],), "tile": (2,),
    "take_along_axis": (np.zeros((3, 4), int), 0),
}  # fmt: skip
SKIPPED = {"array", "asarray", "asanyarray", "ascontiguousarray", "arange", "tri", "where", "shape", "ndim", "size"}
SKIPPED |= {"tril_indices_from", "triu_indices_from"}  # indices, which follow from the shape
OTHER_RANKS = {
    "argsort",
    "column_stack",
    "cumulative_prod",
    "cumulative_sum",
    "fftn",
    "flip",
    "ifftn",
    "lexsort",
    "tril",
    "triu",
}  # what NumPy takes without axes alone


def arguments(function, name, x):
    if name in JOINING:
        return ([x],)
    if name == "einsum":
        return ("ij->ji", x)
    return (x, x) if isinstance(function, np.ufunc) and function.nin == 2 else (x, *FURTHER.get(name, ()))


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def in_numpy(function, name, x):
    """For each result whether it shares memory and whether it is an array; None where the call is another one."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = as_list(function(*arguments(function, name, x)))
    except (TypeError, ValueError, IndexError, np.exceptions.AxisError):
        return None
    if not found or not all(isinstance(r, (np.ndarray, np.generic)) for r in found):
        return None
    return [(np.may_share_memory(r, x), isinstance(r, np.ndarray)) for r in found]


def when_traced(function, name, x):
    found = []

    def program(t):
        own = t * 1 if t.ndim else np.array(t, like=t)
        for r in as_list(function(*arguments(function, name, own))):
            assert isinstance(r, Tracer), r
            found.append((own.memory in r.memory.related(), r.memory.access != NUMBER))
        return [own]

    try:
        trace(program, specs_for([x], False), "f")
    except TraceError as error:
        assert "the size of its result depends on values" in error.what, error
        return None
    return found


@pytest.mark.parametrize("x", [np.arange(12.0).reshape(3, 4), np.arange(5.0), np.array(2.0)], ids=["2", "1", "0"])
def test_views_are_those_of_numpy(x):
    compared = 0
    for function in list(dispatch._BY_FUNCTION):
        name = getattr(function, "__name__", str(function))
        skipped = name in SKIPPED or (x.ndim < 2 and name in OTHER_RANKS)
        expected = None if skipped else in_numpy(function, name, x)
        found = None if expected is None else when_traced(function, name, x)
        if found is not None:
            assert found == expected, name
            compared += 1
    assert compared > (100 if x.ndim else 80)


def test_constants_are_read_again_when_they_have_changed():
    def function(x):
        table = np.zeros(3)
        first = x + table
        table[0] = 5
        return [first, x + table, zenith.scan(lambda c, v: (c, v + table), 0.0, x[None])[1][0]]

    graph = trace(function, specs_for([np.ones(3)], False), "f").graph
    found = interpret(graph, np.ones(3))
    np.testing.assert_array_equal(found, [[1, 1, 1], [6, 1, 1], [6, 1, 1]])


def inverse_root(x):
    """By the bits of a float32 number, and one step of Newton's method."""
    y = (np.int32(0x5F3759DF) - (x.view(np.int32) >> 1)).view(np.float32)
    return y * (1.5 - 0.5 * x * y * y)


@pytest.mark.parametrize("width", [4, 8])
def test_bits_are_read_as_numbers_of_another_type(width):
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(f"f{width}")
    signed, unsigned, pairs = x.view(f"i{width}"), x.view(f"u{width}"), x.view(f"c{2 * width}")
    small, truth = np.arange(-2, 2, dtype=np.int16), np.array([True, False])
    for given in (x, signed, unsigned, pairs, small, truth, x[0, 0]):
        for wanted in "u2", "i2", "i1", f"f{width}", f"i{width}", f"u{width}", f"c{2 * width}":
            changes_size = np.dtype(wanted).itemsize != given.dtype.itemsize
            if given.ndim == 0 and changes_size:
                continue
            try:
                found = zenith.jit(lambda v, t=wanted: v.view(t))(given)
            except UnsupportedError as error:
                assert changes_size or np.dtype(wanted).kind == "c", error
            else:
                assert found.dtype == wanted and np.array_equal(found, given.view(wanted))
    np.testing.assert_allclose(zenith.jit(inverse_root)(np.float32([0.5, 2, 1e4])), [2**0.5, 0.5**0.5, 1e-2], rtol=2e-3)
    slope = zenith.grad(lambda v: np.sum(v.view(f"c{2 * width}").real ** 2))(x)
    np.testing.assert_array_equal(slope, 2 * x * [1, 0, 1, 0])


def test_a_view_as_another_type_shares_memory():
    def read_after_a_write(x):
        x = x.copy()
        bits = x.view(np.int64)
        x[0] = 1
        return bits

    with pytest.raises(TraceError, match=r"left open(.|\n)*copy after the view"):
        zenith.jit(read_after_a_write)(np.ones(3))
    with pytest.raises(TraceError, match="may be a view of the argument x"):
        zenith.jit(lambda x: x.view(np.int64).fill(0), convert=False)(np.ones(3))
    with pytest.raises(ShapeError, match=r"cannot reshape \(x0,\) to \(-1, 2\)(.|\n)*test_views"):
        zenith.jit(lambda x: x.view(complex))(np.ones(3))
