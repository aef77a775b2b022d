"""Rules of casting: casts that NumPy refuses are refused, and those that it allows have NumPy's results."""

import ml_dtypes
import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import check, run_traced
from zenith.errors import ArgumentError, DTypeError, NumberError
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


NUMBERS = (
    np.nan,
    np.float32(np.nan),
    np.inf,
    1e300,
    1e19,
    300.0,
    300,
    -1,
    -1.5,
    2.7,
    True,
    1j,
    2 + 0j,
    [1, 300],
    [np.nan, 2.0],
    [1j, 0],
)


def write(y, index, number):
    y[index] = number
    return y


FORMS = {
    "at an index": lambda y, n: write(y, 0, n),
    "in a slice": lambda y, n: write(y, slice(1, 3), n),
    "at some indices": lambda y, n: write(y, np.array([0, 2]), n),
    "under a mask": lambda y, n: write(y, y > 0, n),
    "fill": lambda y, n: (y.fill(n), y)[1],
    "put": lambda y, n: (np.put(y, [1, 2], n), y)[1],
    "putmask": lambda y, n: (np.putmask(y, y > 0, n), y)[1],
    "place": lambda y, n: (np.place(y, y > 0, n), y)[1],
    "put_along_axis": lambda y, n: (np.put_along_axis(y, np.array([0, 1]), n, 0), y)[1],
}


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "u8", "f2", "f8"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("ignore:overflow")
def test_numbers_that_are_known_are_stored_as_numpy_stores_them(form, dtype):
    for number in NUMBERS:
        if np.ndim(number) and form in ("at an index", "under a mask", "fill"):
            continue
        y = np.arange(3).astype(dtype)
        try:
            expected = FORMS[form](y.copy(), number)
        except RuntimeWarning:
            continue  # NumPy first makes an array of such a scalar or list, which is refused here
        except (TypeError, ValueError, OverflowError) as refusal:
            with pytest.raises(type(refusal).__mro__[-3], match=r"cannot be stored in an array of|is out of bounds"):
                run_traced(lambda a: FORMS[form](a * 1 if a.dtype.kind != "b" else a & True, number), y)  # noqa: B023
        else:
            found = run_traced(lambda a: FORMS[form](a * 1 if a.dtype.kind != "b" else a & True, number), y)  # noqa: B023
            np.testing.assert_array_equal(found[0], expected)


def test_arrays_are_stored_whatever_their_kind():
    with pytest.warns(np.exceptions.ComplexWarning, match="discards the imaginary part") as caught:
        found = run_traced(lambda x, c: write(x * 1, 0, c[0] * 2), X, C)
    assert caught[0].filename == __file__ and found[0].tolist() == [0, -2.5, 3.5]
    with pytest.warns(np.exceptions.ComplexWarning) as caught:
        assert znp.full(2, 1j, float).tolist() == [0, 0]
    assert caught[0].filename == __file__
    found = run_traced(lambda i: write(i * 1, 0, np.array(np.nan)), N)
    assert found[0].tolist() == [-(2**63), 2, 4]


@pytest.mark.parametrize("numbers", [[1, np.nan], np.nan, [1.0, np.inf], 1j, [300, 1], 300.0], ids=str)
def test_arrays_of_a_type_are_made_of_its_numbers(numbers):
    for function in (znp.array, znp.asarray):
        with pytest.raises((TypeError, ValueError, OverflowError), match="cannot be stored in an array of uint8"):
            function(numbers, dtype=np.uint8)
    with pytest.raises(NumberError, match="300 is out of bounds for uint8"):
        znp.full(2, 300, np.uint8)


def test_16_bit_floats_become_each_other_as_types_of_one_kind():
    for one, other in ((BRAIN, HALF), (HALF, BRAIN)):
        assert castable(one, other, "same_kind") and not castable(one, other, "safe") and castable(one, one, "no")
        assert loop(np.add, (one, other), one) == (one, one) and loop(np.sqrt, (one,), other) == (other,)
        assert run_traced(lambda a, dtype=other: np.add(a, a, dtype=dtype), np.ones(2, one))[0].dtype == other
