"""The methods and options of ufuncs by the names of zenith.numpy: at once, traced, and what is refused."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import assert_same, check, run_traced, values
from zenith.errors import ShapeError, TraceError, UnsupportedError
from zenith.trace import dispatch, ufuncs

F8 = np.dtype("f8")
X, Y = values(F8, (3, 4)), values(F8, (2,), 1)
UFUNCS = sorted(f.__name__ for f in dispatch._BY_FUNCTION if isinstance(f, np.ufunc) and f.signature is None)


@pytest.mark.parametrize("name", UFUNCS)
def test_every_ufunc_has_its_methods(name):
    for method in ufuncs.METHODS:
        assert callable(getattr(getattr(znp, name), method))


@pytest.mark.parametrize("name", sorted(ufuncs.reductions()))
def test_reduce(name):
    x = X > 0 if name.startswith("logical") else X
    method = lambda xp: getattr(xp, name).reduce  # noqa: E731
    check(lambda xp, a: [method(xp)(a), method(xp)(a, axis=1), method(xp)(a, axis=None, keepdims=True)], x)
    check(lambda xp, a: [method(xp)(a, 1, None, None, True), method(xp)(a, axis=(0, 1))], x)


@pytest.mark.parametrize("name", sorted(ufuncs.accumulations()))
def test_accumulate(name):
    check(lambda xp, a: [getattr(xp, name).accumulate(a), getattr(xp, name).accumulate(a, 1)], X)


def test_outer():
    check(lambda xp, a, b: [xp.multiply.outer(a, b), xp.less.outer(b, a), *xp.divmod.outer(a, b)], X, Y)
    check(lambda xp, a, b: xp.add.outer(a, b, dtype=np.float32), X, Y)


def test_at_writes():
    def function(xp, a, i):
        x = a * 1
        xp.add.at(x, i, 2.0)
        xp.maximum.at(x, (slice(None), 1), 0.5)
        xp.subtract.at(x, ([0, 0], 2), 1.0)
        return x

    check(function, X, np.array([0, 2, 0]))
    x = X.copy()
    znp.negative.at(x, 0)
    assert_same(x, np.concatenate([-X[:1], X[1:]]))


def test_where_and_out():
    def function(xp, a):
        out = xp.zeros_like(a)
        xp.sqrt(a, out=out, where=a > 0)
        xp.add(a[:1], 1, out=out[:1], where=a[0] > 1)
        return out, xp.exp(a, out=None, where=True, casting="same_kind"), xp.add.reduce(a, where=a > 0, initial=3)

    check(function, X)
    with pytest.raises(UnsupportedError, match="where= without out= leaves elements without a value"):
        znp.sqrt(X, where=X > 0)


def test_results_into_arrays():
    x = X.copy()
    assert znp.maximum.accumulate(X, out=x) is x and (x == np.maximum.accumulate(X)).all()
    (found,) = run_traced(lambda a: np.add.accumulate(a, axis=1, out=np.zeros_like(a)), X)
    assert_same(found, np.cumsum(X, 1))


def test_results_with_more_axes_than_their_array_are_refused():
    def added(a):
        a = a[0] + 1.0
        a += a[None]
        return a

    with pytest.raises(ValueError, match="non-broadcastable output"):
        added(X)
    with pytest.raises(ShapeError, match=r"add gives an array \(1, .*\), which cannot be written into"):
        zenith.jit(added)(X)


def test_what_no_program_has_is_refused():
    with pytest.raises(TraceError, match=r"add\.at cannot write what is traced into an array that NumPy made"):
        run_traced(lambda a: znp.add.at(X, 0, a), X)
