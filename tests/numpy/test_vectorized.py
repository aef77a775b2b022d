"""Functions of numbers on whole arrays against numpy.vectorize: broadcasting, signatures, element types, names."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import assert_same, run_traced, values
from zenith.errors import ArgumentError, ShapeError, TraceError

F4, F8 = np.dtype("f4"), np.dtype("f8")


def same(make, *arrays):
    """``make(xp)`` gives a function of arrays."""
    expected = make(np)(*arrays)
    for found in (make(znp)(*arrays), *[run_traced(make(znp), *arrays, symbolic=s) for s in (False, True)]):
        pairs = [(found, expected)] if isinstance(found, np.ndarray) and not isinstance(expected, tuple) else None
        for a, e in pairs or zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert_same(a, e)


def test_arrays_are_broadcast():
    x, y = values(F8, (3, 1)), values(F8, (4,), 1)
    same(lambda xp: xp.vectorize(lambda p, q: np.maximum(p, q) + 1), x, y)
    same(lambda xp: lambda a: xp.vectorize(lambda p, q: p * q)(a, 2), x)
    same(lambda xp: xp.vectorize(lambda p, q: (p + q, p > q)), x, y)


def test_results_that_no_argument_changes_and_arguments_of_no_axes():
    same(lambda xp: xp.vectorize(lambda p: 1.5), values(F8, (3,)))
    x = values(F4, (2, 3))
    found = run_traced(lambda a: znp.vectorize(lambda p: p + a.sum())(np.arange(3.0)), x)[0]
    np.testing.assert_allclose(found, np.arange(3.0) + x.sum(), rtol=1e-6)
    assert_same(run_traced(lambda a: znp.vectorize(lambda p: p * 2)(a[0, 0]), x)[0], x[0, 0] * 2)


def test_signatures():
    x, y = values(F8, (5, 1, 3)), values(F8, (4, 3), 1)
    same(lambda xp: xp.vectorize(np.dot, signature="(n),(n)->()"), x, y)
    same(lambda xp: xp.vectorize(lambda a: (a[::-1], a.sum()), signature="(n)->(n),()"), y)
    same(lambda xp: xp.vectorize(np.outer, signature="(m),(n)->(m,n)"), x, y)


def test_element_types_excluded_arguments_and_names():
    x = values(F8, (3,))
    same(lambda xp: xp.vectorize(lambda p: (p, p > 0), otypes="fd"), x)
    same(lambda xp: xp.vectorize(lambda p: p, otypes=[np.float32]), x)
    same(lambda xp: lambda a: xp.vectorize(lambda p, q: p * q.sum(), excluded={1})(a, np.arange(3)), x)
    same(lambda xp: lambda a: xp.vectorize(lambda p, table: p + table[0], excluded={"table"})(a, table=[3]), x)
    same(lambda xp: lambda a: xp.vectorize(lambda p, q=1: p - q)(a, q=a), x)


def test_as_a_decorator():
    @znp.vectorize
    def one(p):
        """Says it."""
        return p + 1

    @znp.vectorize(otypes=[np.float32], signature="()->()")
    def two(p):
        return p + 1

    x = values(F8, (3,))
    assert one.__doc__ == "Says it." and one.__name__ == "one"
    assert_same(zenith.jit(one)(x), x + 1)
    assert_same(zenith.jit(two)(x), (x + 1).astype(np.float32))


def test_derivatives():
    x = values(F8, (3,))
    assert_same(zenith.grad(lambda a: znp.vectorize(lambda p: p * p)(a).sum())(x), 2 * x)


def test_what_does_not_fit_is_refused():
    x = values(F8, (3,))
    with pytest.raises(TraceError, match="a Python condition"):
        run_traced(znp.vectorize(lambda p: p if p > 0 else -p), x)
    with pytest.raises(ArgumentError, match=r"the signature '\(n\),\(n\)->\(\)' is none of 1 arguments"):
        run_traced(znp.vectorize(np.dot, signature="(n),(n)->()"), x)
    with pytest.raises(ShapeError, match="has less axes than"):
        run_traced(znp.vectorize(np.trace, signature="(n,n)->()"), x)
    with pytest.raises(ShapeError, match="the sizes of axis 'n' must be equal"):
        run_traced(znp.vectorize(np.dot, signature="(n),(n)->()"), x, x[:2])
    with pytest.raises(ArgumentError, match=r"2 element types \(otypes\) for 1 results"):
        run_traced(znp.vectorize(np.sin, otypes="dd"), x)
