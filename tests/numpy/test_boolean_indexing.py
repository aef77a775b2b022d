"""Elements that a traced mask selects: computed with, summed and written back as NumPy does, or refused by name."""

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.numpy.comparison import run_traced, values
from zenith.errors import CheckError, DTypeError, ShapeError, TraceError

X, Y, R = values(np.dtype("f8"), (4, 3), 1), values(np.dtype("f8"), (4, 3), 2), values(np.dtype("f8"), (3,), 3)


def written_back(x, y, r):
    a, m = x.copy(), x > 0
    a[m] *= 2
    a[m] += y[m]
    a[~m] = -a[~m]
    a[a > 1] = np.sqrt(a[a > 1])
    a[m] = np.maximum(a[m], y[m]) * r.sum() + 3
    return a


def rows(x, y, r):
    a, b, m = x.copy(), x.copy(), x[:, 0] > 0
    a[:, r > 0] *= 2
    b[m] += r
    b[m, 1] = 7
    b[m] = b[m] / y[m] * np.float64(2)
    b[None, m] -= [[1.0]]
    return a, b


def sums(x, y, r):
    chosen = x[x > 0]
    found: tuple = chosen.sum(), chosen.mean(), np.mean(x[y > 0] ** 2), chosen.max(initial=0), np.min(chosen, initial=9)
    one = np.sum(chosen, keepdims=True), (chosen / chosen.sum(keepdims=True)).max(initial=0)
    found += (*one, np.any(chosen > 1), np.all(chosen > 0), np.amax(chosen, 0, initial=0))
    more = (chosen > 1).any(), (r[0] * chosen).all(), np.std(x[x < 0], ddof=1), chosen.var(axis=0)
    return *found, *more, r.sum() * chosen.prod(), x[x > 9].sum(), chosen.astype(np.float32).sum(dtype=np.float64)


def snapshots(x, y, r):
    a, m = x.copy(), x > 0
    before = a[m]
    a *= 2
    m &= y > 0
    a[x > 0] = before + before.copy()
    a[m] -= 1
    return a


def integers(x, y, r):
    a = (x * 4).astype(np.int32)
    a[a > 2] //= 2
    a[a < 0] += 1
    a[y > 0] = np.divmod(a[y > 0], 3)[1]
    return a


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("function", [written_back, rows, sums, snapshots, integers], ids=lambda f: f.__name__)
def test_programs_mean_what_numpy_does(function, symbolic):
    expected = function(X, Y, R)
    found = run_traced(function, X, Y, R, symbolic=symbolic)
    for a, e in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-12)
        assert np.asarray(a).dtype == np.asarray(e).dtype


def test_kernels_and_other_sizes():
    fast = zenith.jit(written_back)
    for n in (4, 1, 7):
        x, y = values(np.dtype("f8"), (n, 3), 4), values(np.dtype("f8"), (n, 3), 5)
        np.testing.assert_allclose(fast(x, y, R), written_back(x, y, R), rtol=1e-12)
    assert fast.cache_info().misses == 1


def test_bfloat16():
    def halved(x):
        x = x.copy()
        x[x > 0] /= 2
        return x

    x = X.astype(ml_dtypes.bfloat16)
    assert zenith.jit(halved)(x).tobytes() == halved(x).tobytes()


def test_derivatives_outside_the_mask_are_not_nan():
    def loss(x):
        y = x.copy()
        y[x > 0] = np.sqrt(y[x > 0]) + np.log(x[x > 0])
        return y.sum() + (1 / x[x != 0]).sum()

    x = np.array([4.0, -1.0, 0.0, 0.25])
    expected = np.where(x > 0, 0.5 / np.sqrt(abs(x) + (x == 0)) + 1 / (x + (x == 0)), 1) - 1 / (x + (x == 0)) ** 2
    expected[2] = 1  # which the mask leaves out twice
    np.testing.assert_allclose(zenith.grad(loss)(x), expected)


GATHERED = {
    "returned": lambda a: a[a > 0],
    "returned in a dictionary": lambda a: {"x": a[a > 0]}["x"],
    "indexed": lambda a: a[a > 0][0],
    "counted": lambda a: len(a[a > 0]) + a,
    "its shape": lambda a: a + a[a > 0].shape[0],
    "with another mask": lambda a: a[a > 0] + a[a >= np.min(a[a > 0])],
    "sorted": lambda a: np.sort(a[a > 0]),
    "joined": lambda a: np.concatenate([a[a > 0], a[0]]),
    "chosen from": lambda a: np.where(a[a > 0] > 1, 1, 2),
    "an array of it": lambda a: np.asarray(a[a > 0]),
    "sums of rows": lambda a: a[a[:, 0] > 0].sum(axis=0),
    "a product": lambda a: a[a > 0] @ a[a > 0],
    "ufunc.reduce": lambda a: np.add.reduce(a[a > 0]),
    "transposed": lambda a: a[a > 0].T,
    "with a row of its own length": lambda a: a[a > 0] + np.arange(len(a[a > 0])),
}


@pytest.mark.parametrize("name", GATHERED)
def test_what_needs_their_number_gathers_them(name):
    assert np.count_nonzero(X > 0) > 1
    found, expected = zenith.jit(GATHERED[name])(X), GATHERED[name](X)
    assert np.shape(found) == np.shape(expected) and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, 1e-12)


REFUSED = {
    "as a condition": (lambda a: a if a[a > 0] else -a, "truth|condition"),
    "a compiled function": (lambda a: zenith.jit(lambda q: q + 1)(a[a > 0]), "depends on values"),
    "as many as an array": (lambda a: a[a > 0] + a[0], "depends on values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_size_is_refused(name):
    function, said = REFUSED[name]
    with pytest.raises(TraceError, match=said) as error:
        zenith.jit(function)(X)
    assert "test_boolean_indexing.py" in str(error.value)


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "bool"])
def test_extremes_need_an_element(dtype):
    def extremes(a):
        return a[a > 0].max(), np.min(a[a > 0])

    compiled, x = zenith.jit(extremes), np.abs(X * 3).astype(dtype)
    assert compiled(x) == extremes(x) and compiled(x)[0].dtype == x.dtype
    with pytest.raises(CheckError, match="of what a mask selects, and it selects nothing"):
        compiled(np.zeros_like(x))


def test_what_does_not_combine_with_them():
    with pytest.raises(
        ShapeError, match=r"add would repeat what a mask selects of an array \(a0, 1\) to one \(a0, 3\)"
    ):
        zenith.jit(lambda a: (a[a[:, 0] > 0] + np.arange(3.0)).sum())(
            X[:, :1],
        )
    with pytest.raises(DTypeError, match="multiply gives float64 here, which cannot be written into int64"):
        zenith.jit(halves)(np.arange(4))


def halves(a):
    a = a.copy()
    a[a > 0] *= 0.5
    return a
