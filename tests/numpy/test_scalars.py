"""Results without axes: numbers where NumPy gives numbers, arrays where it gives arrays, for every function."""

import copy
import warnings

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith.trace import dispatch, ufuncs

VECTOR, MATRIX, WHOLE = np.array([3.0, 1.0, 2.0]), np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1, 2, 3])
NUMBER = np.float64(2.0)
CALLS = {
    "vector": (VECTOR,), "matrix": (MATRIX,), "integers": (WHOLE,), "number": (NUMBER,), "vectors": (VECTOR, VECTOR),
    "matrices": (MATRIX, MATRIX), "numbers": (NUMBER, NUMBER), "pair": (VECTOR, WHOLE),
}  # fmt: skip
# What is no array in a trace of plain NumPy (numpy.asarray(x)), or means something else there.
EAGER_ONLY = {"array", "asarray", "from_dlpack", "broadcast_arrays", "unique_all", "unique_inverse", "linalg.multi_dot"}
# NumPy gives a copy for a transform of no axes.
NONE = {"fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn"}


def kind(result):
    """What a result is, as far as users see it: a number, an array, or several of these."""
    if isinstance(result, (tuple, list)):
        return tuple(map(kind, result))
    return "array" if isinstance(result, np.ndarray) else "number"


def functions(name):
    """NumPy's function of a name, and ours."""
    theirs: object = np
    for part in name.split("."):
        theirs = getattr(theirs, part, None)
    return theirs, dispatch.implementation(name)


def numpy_gives(theirs, args):
    """NumPy's results; None where it refuses, or every result has axes."""
    try:
        found = theirs(*map(copy.copy, args))
    except Exception:  # the arguments are not for this function
        return None
    results = found if isinstance(found, (tuple, list)) else (found,)
    is_known = all(isinstance(r, (np.ndarray, np.generic, int, float, complex)) for r in results)
    return found if is_known and any(np.ndim(r) == 0 for r in results) else None


def attempt(function, *args):
    """The kind of a result, or None for a call that Zenith refuses with an error of its own."""
    try:
        return kind(function(*map(copy.copy, args)))
    except zenith.ZenithError:
        return None


NAMES = [n for n in dispatch.names() if callable(functions(n)[0]) and n not in NONE]


@pytest.mark.parametrize("call", CALLS)
def test_every_function_gives_numbers_where_numpy_does(call):
    args, seen, wrong = CALLS[call], 0, []
    for name in NAMES:
        theirs, ours = functions(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = numpy_gives(theirs, args)
            if expected is None:
                continue
            jitted = zenith.jit(lambda *given, theirs=theirs: theirs(*given), backend="reference")
            found = [attempt(ours, *args), None if name in EAGER_ONLY else attempt(jitted, *args)]
        seen += 1
        wrong += [(name, kind(expected), found)] if any(f not in (None, kind(expected)) for f in found) else []
    assert not wrong
    assert seen >= 5


@pytest.mark.parametrize("name", sorted(ufuncs.reductions()))
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_reductions_of_ufuncs_give_numpys_scalar_types(name, dtype):
    x = np.array([1, 0, 1], dtype)
    theirs, ours = getattr(np, name).reduce, getattr(znp, name).reduce
    try:
        expected = theirs(x)
    except TypeError:
        return
    for found in (ours(x), zenith.jit(theirs, backend="reference")(x)):
        assert type(found) is type(expected) or not isinstance(expected, np.generic)
        assert found == expected


def test_what_is_written_into_stays_an_array():
    out = np.zeros(())
    assert znp.sum(VECTOR, out=out) is out and out == 6
    for made in (znp.zeros(()), znp.array(3.0), znp.asarray(2.0), znp.copy(2.0), znp.reshape(np.ones(1), ())):
        assert isinstance(made, np.ndarray)
        made[...] = 5
        assert made == 5


def test_views_of_arrays_without_axes_are_views():
    x = np.zeros(())
    znp.squeeze(x)[...] = 4
    assert x == 4 and isinstance(znp.real(x), np.ndarray)


def test_operations_on_results_are_numpys():
    total = znp.sum(VECTOR)
    first, total = total, total + 1
    assert (first, total) == (6, 7) and hash(first) == hash(6.0) and isinstance(first, float)
    assert znp.add(first, 1.5) == znp.multiply(first, np.float64(1.25)) == 7.5
    assert type(znp.add(np.float32(1), 1)) is np.float32
