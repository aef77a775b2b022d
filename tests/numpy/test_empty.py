"""Arrays without elements: whatever NumPy answers for them, a program of open sizes and a call at once answer, too."""

import copy
import warnings

import numpy as np
import pytest

import zenith
import zenith.numpy
from zenith.trace import dispatch

NONE, WHOLE, SOME = np.zeros(0), np.zeros(0, int), np.array([1.0, 2.0, 3.0])
CALLS = {
    "one": (NONE,), "integers": (WHOLE,), "no rows": (np.zeros((0, 3)),), "no columns": (np.zeros((3, 0)),),
    "two": (NONE, NONE), "and some": (NONE, SOME), "some and": (SOME, NONE), "indices": (SOME, WHOLE),
}  # fmt: skip
# Undefined contents; a polynomial whose coefficients NumPy gives as a number; what writes into its argument or takes
# what no program computes (a number of axes, a second operand that is out=, quantiles that are none).
OTHERWISE = {"empty", "poly", "quantile", "percentile", "nanquantile", "nanpercentile", "tensorsolve"}
# Refusals of NumPy's functions on traced arrays, which tests/test_error_messages.py shows.
NEVER = (
    "needs the values", "depends on values", "must be known", "the caller's", "operands, not", "positional",
    "must be an integer", "known before", "a shift is", "shift must be", "two borders", "which is no array",
)  # fmt: skip


def answer(function, args):
    """A function's results; the first line of its error where Zenith refuses the call."""
    try:
        return function(*map(copy.copy, args))
    except zenith.ZenithError as error:
        return str(error).splitlines()[0]


def agrees(found, expected):
    """Whether results have the same shapes and elements; a refusal of what no program can do agrees."""
    if isinstance(found, str):
        return any(words in found for words in NEVER)
    pairs = zip(*(r if isinstance(r, (tuple, list)) else [r] for r in (found, expected)), strict=True)
    return all(
        np.shape(f) == np.shape(e) and np.array_equal(f, e, equal_nan=np.asarray(e).dtype.kind in "fc")
        for f, e in pairs
    )


@pytest.mark.parametrize("call", CALLS)
def test_what_numpy_answers_without_elements_is_answered(call):
    args, seen, wrong = CALLS[call], 0, []
    for name in dispatch.names():
        theirs = np
        for part in name.split("."):
            theirs = getattr(theirs, part, None)
        if not callable(theirs) or name.rpartition(".")[2] in OTHERWISE:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = theirs(*map(copy.copy, args))
            except Exception:  # the arguments are not for this function
                continue
            jitted = zenith.jit(lambda *given, theirs=theirs: theirs(*given), backend="reference")
            found = [answer(f, args) for f in (dispatch.implementation(name), jitted)]
        seen += 1
        wrong += [(name, expected, found)] if not all(agrees(f, expected) for f in found) else []
    assert not wrong
    assert seen > 10


def test_one_function_serves_arrays_with_and_without_elements():
    def f(x):
        return np.median(x), np.trapezoid(x), np.unwrap(x), np.histogram(x, bins=3)[0], np.nanmedian(x)

    jitted = zenith.jit(f)
    for n in (3, 0, 5):
        x = np.linspace(0, 9, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = f(x)
        for found, e in zip(jitted(x), expected, strict=True):
            np.testing.assert_allclose(found, e)
    assert jitted.cache_info().misses == 2
