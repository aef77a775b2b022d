"""Every function is compared with NumPy itself: computed at once, traced with fixed sizes, traced with symbols."""

import numpy as np

import zenith.numpy as znp
from zenith.ir import types
from zenith.ir.dims import dim, symbol
from zenith.ir.interpret import interpret
from zenith.ir.types import dtype_of
from zenith.ir.verify import verify
from zenith.trace import InputSpec, trace

DTYPES = tuple(t.numpy for t in types.DTYPES if t != types.bfloat16)  # NumPy has no rules for the latter


def specs_for(arrays, symbolic):
    """One spec for each array; with ``symbolic`` every axis has a symbol of its own."""
    return [
        InputSpec(
            f"x{i}",
            dtype_of(a.dtype),
            tuple(symbol(f"s{i}_{k}") if symbolic else dim(n) for k, n in enumerate(a.shape)),
            a.shape,
        )
        for i, a in enumerate(arrays)
    ]


def traced(function, *arrays, symbolic=True):
    """The trace of a function that returns one array or a sequence of them."""
    return trace(lambda *xs: as_list(function(*xs)), specs_for(arrays, symbolic), "f")


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def run_traced(function, *arrays, symbolic=True):
    graph = verify(traced(function, *arrays, symbolic=symbolic).graph)
    return interpret(graph, *arrays)


def assert_same(actual, expected, ulps=8.0):
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype.kind == "c" and not np.isfinite(expected).all():
        _assert_same_parts(actual, expected, ulps)
    elif expected.dtype.kind in "fc":
        rtol = ulps * np.finfo(expected.dtype).eps
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
        tiny = np.finfo(expected.dtype).tiny
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * scale * 0.5 + tiny)
    else:
        np.testing.assert_array_equal(actual, expected)


def _assert_same_parts(actual, expected, ulps):
    """Finite numbers as usual; others by real and imaginary part: an infinity paired with nan has no definite sign."""
    finite = np.isfinite(expected)
    assert_same(actual[finite], expected[finite], ulps)
    actual, expected = actual[~finite], expected[~finite]
    for part in (np.real, np.imag):
        a, e = part(actual), part(expected)
        compared = ~np.isfinite(e) & ~(np.isnan(expected) & np.isinf(a) & np.isinf(e))
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(e))
        np.testing.assert_array_equal(a[compared], e[compared])


def check(function, *arrays, ulps=8.0):
    """``function(xp, *arrays)`` gives the same with NumPy and, in every mode, with Zenith."""
    with np.errstate(all="ignore"):
        expected = as_list(function(np, *arrays))
        at_once = as_list(function(znp, *arrays))
    modes = {
        "at once": at_once,
        "fixed sizes": run_traced(lambda *xs: function(np, *xs), *arrays, symbolic=False),
        "symbols": run_traced(lambda *xs: function(np, *xs), *arrays),
        "own namespace": run_traced(lambda *xs: function(znp, *xs), *arrays),
    }
    for results in modes.values():
        assert len(results) == len(expected)
        for a, e in zip(results, expected, strict=True):
            assert_same(a, e, ulps)


def values(dtype, shape, seed=0, low=-3.0, high=3.0):
    """Numbers of a type: small integers, fair bools, uniform floats."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype)
    if dtype.kind == "u":
        return rng.integers(0, 9, shape).astype(dtype)
    if dtype.kind == "i":
        return rng.integers(-9, 10, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)
