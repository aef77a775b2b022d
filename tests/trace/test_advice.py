"""What errors advise where users coming from NumPy, SciPy and JAX go wrong: the fix names what does it in Zenith."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.interpolate
import scipy.sparse
import scipy.stats

import zenith
import zenith.numpy as znp
from zenith.errors import MissingAttributeError, ZenithError

X, KEY = np.ones(5), zenith.random.key(0)
SPLINE, SPARSE, NORMAL = (
    scipy.interpolate.CubicSpline([0, 1, 2], [0, 1, 4]),
    scipy.sparse.eye(5).tocsr(),
    scipy.stats.norm(),
)
CALLBACK = "zenith.pure_callback"


@dataclass
class Pair:
    first: np.ndarray


def halved(x):
    while np.max(np.abs(x)) > 1e-3:
        x = x * 0.5
    return x


def counted(x):
    c = np.zeros(5, int)
    c[x > 0] += 1
    return c


def orthogonal(p):
    return zenith.fori_loop(0, 3, lambda i, q: np.linalg.qr(q[:, :1], "complete")[0], np.outer(p, p))


# fmt: off
CASES = {
    "while": (halved, (X,), "a Python condition", "zenith.while_loop(condition, body, x)"),
    "if": (lambda x: x if x.sum() > 0 else -x, (X,), "a Python condition", "zenith.cond(condition, f, g, x)"),
    "a method of SciPy's": (lambda x: scipy.stats.norm.pdf(x), (X,), "scipy.stats.", CALLBACK),
    "a frozen one": (lambda x: NORMAL.cdf(x), (X,), "scipy.stats.", CALLBACK),
    "a sparse product": (lambda x: SPARSE @ x, (X,), "scipy.sparse.", CALLBACK),
    "a sparse method": (lambda x: SPARSE.dot(x), (X,), "scipy.sparse.", CALLBACK),
    "an object that is called": (lambda x: SPLINE(x), (X,), "scipy.interpolate.CubicSpline:", CALLBACK),
    "a function of SciPy's": (lambda x: scipy.signal.convolve(x, x), (X,), "scipy.signal.convolve:", CALLBACK),
    "a mask that writes": (counted, (X,), "indexing a NumPy array", "zenith.numpy.zeros(shape)"),
    "LAPACK in a loop": (orthogonal, (X,), "complete_qr calls Python", "for i in range(n), which is unrolled"),
    "cond of arrays": (lambda x: zenith.cond(x.sum() > 0, x, -x), (X,),
        "cond takes functions, and true_fun is a traced",
                       "cond(pred, lambda: x, lambda: y)"),
    "a loop of a number": (lambda x: zenith.fori_loop(0, 3, 1.0, x), (X,),
        "fori_loop takes functions, and body_fun is of",
                           "fori_loop(0, n, lambda"),
    "while of arrays": (lambda x: zenith.while_loop(x, lambda v: v, x), (X,),
        "while_loop takes functions", "while_loop("),
    "scan of arrays": (lambda x: zenith.scan(x, x), (X,),
        "scan takes functions, and f is a traced", "scan(lambda carry"),
    "a generator for a key": (lambda x: zenith.random.normal(np.random.default_rng(0)) + x, (X,),
                              "normal: a key is a uint32 array, not NumPy's Generator", "zenith.random.key(seed)"),
    "a dataclass": (lambda p: p.first * 2, (Pair(X),), "p is a Pair", "zenith.tree.register_dataclass(Pair)"),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_the_fix_names_what_does_it(name):
    import scipy.signal  # noqa: F401  which takes a second to import

    function, args, what, fix = CASES[name]
    with pytest.raises(ZenithError) as caught:
        zenith.jit(function, backend="reference", convert=False)(*args)
    assert caught.value.what.startswith(what), caught.value.what
    assert fix in (caught.value.fix or "")


def test_names_that_are_elsewhere_or_nowhere():
    for ask, fix in (
        (lambda: znp.random, "zenith.random.normal(key, shape)"),
        (lambda: zenith.random.poison, "poisson"),
        (lambda: zenith.random.zipf, "dir(zenith.random)"),
    ):
        with pytest.raises(MissingAttributeError) as caught:
            ask()
        assert fix in caught.value.fix


def test_lapack_in_a_python_loop_is_compiled():
    f = zenith.jit(lambda p: [p := np.fft.ifft(np.fft.fft(p) * 0.5) for _ in range(3)][-1])
    np.testing.assert_allclose(f(X + 0j), X / 8)


def test_functions_need_not_be_plain():
    assert zenith.cond(True, partial(np.add, 1), np.negative, 2.0) == 3
