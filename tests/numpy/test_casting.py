"""Rules of casting: what NumPy refuses to make of an array is refused, and what it allows is what it makes."""

import ml_dtypes
import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import check, run_traced
from zenith.errors import ArgumentError, DTypeError
from zenith.numpy.promotion import castable, loop

X, F, N, C = np.array([1.5, -2.5, 3.5]), np.ones(3, "f4"), np.array([1, 2, 4]), np.array([1j, 2, 3])
BRAIN, HALF = np.dtype(ml_dtypes.bfloat16), np.dtype("f2")

REFUSED = {
    "a sum of floats in integers": lambda xp, x, f, i, c: xp.add(x, x, dtype=np.int32),
    "a sum of floats in bool": lambda xp, x, f, i, c: xp.add(x, x, dtype=bool),
    "a quotient in integers": lambda xp, x, f, i, c: xp.divide(i, i, dtype=int),
    "a comparison in floats": lambda xp, x, f, i, c: xp.equal(x, x, dtype=float),
    "a number that is none of integers": lambda xp, x, f, i, c: xp.add(i, 1.5, dtype=int),
    "a narrower sum by a safe rule": lambda xp, x, f, i, c: xp.add(x, 1, dtype="f4", casting="safe"),
    "a sum of two types without casts": lambda xp, x, f, i, c: xp.add(x, f, casting="no"),
    "astype by a safe rule": lambda xp, x, f, i, c: xp.astype(x, np.int32, casting="safe"),
    "astype without a cast": lambda xp, x, f, i, c: xp.astype(x, complex, casting="no"),
    "joining without casts": lambda xp, x, f, i, c: xp.concatenate([x, f], casting="no"),
    "joining floats as integers": lambda xp, x, f, i, c: xp.concatenate([x, x], dtype=np.int32),
    "stacking floats as integers": lambda xp, x, f, i, c: xp.stack([x, x], dtype=np.int32),
    "rows by a safe rule": lambda xp, x, f, i, c: xp.vstack([x, x], dtype="f4", casting="safe"),
    "columns by a safe rule": lambda xp, x, f, i, c: xp.hstack([x, x], dtype="f4", casting="safe"),
    "an einsum in a narrower type": lambda xp, x, f, i, c: xp.einsum("i,i", x, x, dtype="f4"),
    "a product of floats in integers": lambda xp, x, f, i, c: xp.matmul(x, x, dtype=np.int32),
    "a product of signed integers in unsigned ones": lambda xp, x, f, i, c: xp.matmul(i, i, dtype=np.uint8),
}  # fmt: skip


class _Methods:
    """NumPy, whose own ``astype`` knows no rules: the method does."""

    def __getattr__(self, name):
        return (lambda x, *args, **options: x.astype(*args, **options)) if name == "astype" else getattr(np, name)


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses(name):
    function = REFUSED[name]
    with pytest.raises(TypeError):
        function(_Methods(), X, F, N, C)
    for xp in (_Methods(), znp):
        with pytest.raises(DTypeError):
            run_traced(lambda *xs: function(xp, *xs), X, F, N, C)  # noqa: B023
    with pytest.raises(DTypeError):
        function(znp, X, F, N, C)


def test_what_numpy_allows():
    def function(xp, x, f, i, c):
        return (
            xp.add(x, x, dtype=np.int32, casting="unsafe"), xp.add(x, f, casting="safe"), xp.sqrt(i, dtype="f4"),
            xp.add(i, 2, dtype=float), xp.divide(i, i, dtype="f4"), xp.floor(i, dtype=float), xp.abs(c, dtype=float),
            xp.isnan(x, dtype=bool), xp.concatenate([x, f], casting="safe"), xp.stack([x, x], dtype="f4"),
            xp.concatenate([x, x], dtype=np.int8, casting="unsafe"), xp.einsum("i,i", i, i, dtype="f8"),
            xp.einsum("i,i", x, x, dtype="f4", casting="same_kind"), xp.matmul(i, i, dtype="f4"),
            x.astype("f4", casting="same_kind"), i.astype("f8", casting="safe"),
        )  # fmt: skip

    check(function, X, F, N, C)


def test_results_are_written_by_the_rule_that_is_given():
    def unsafe(x):
        y = np.zeros_like(x, dtype=np.int32)
        np.multiply(x, 2.5, out=y, casting="unsafe")
        np.add(x, y, out=y, where=x > 0, casting="unsafe")
        return y

    np.testing.assert_array_equal(run_traced(unsafe, X)[0], unsafe(X))
    out = np.zeros(3, np.int32)
    assert znp.multiply(X, 2.5, out=out, casting="unsafe") is out and out.tolist() == [3, -6, 8]
    with pytest.raises(DTypeError, match="add gives float64 here, which cannot be written into float32"):
        run_traced(lambda x, f: np.add(x, x, out=f * 1, casting="safe"), X, F)
    with pytest.raises(DTypeError, match="add gives float64 here, which cannot be written into int64"):
        run_traced(lambda x, i: np.add(x, x, out=i * 1), X, N)


def test_rules_that_are_none():
    for function in (lambda a: a.astype(int, casting="any"), lambda a: np.add(a, a, casting="any"),
                     lambda a: np.concatenate([a, a], casting="any")):  # fmt: skip
        with pytest.raises(ArgumentError, match="'any' is no rule of casting"):
            run_traced(function, X)


def test_16_bit_floats_become_each_other_as_types_of_one_kind():
    for one, other in ((BRAIN, HALF), (HALF, BRAIN)):
        assert castable(one, other, "same_kind") and not castable(one, other, "safe") and castable(one, one, "no")
        assert loop(np.add, (one, other), one) == (one, one) and loop(np.sqrt, (one,), other) == (other,)
        assert run_traced(lambda a, dtype=other: np.add(a, a, dtype=dtype), np.ones(2, one))[0].dtype == other
