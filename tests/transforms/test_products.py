"""``jvp``, ``vjp`` and ``linearize``: against JAX and each other, and what they refuse."""

import numpy as np
import pytest

from tests.transforms.compare import agree, jax_and_numpy
from zenith import jit, jvp, linearize, vjp
from zenith.errors import ArgumentError, DTypeError, ShapeError, TraceError

RNG = np.random.default_rng(1)
X, DX = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
W, DW = RNG.standard_normal((4, 2)), RNG.standard_normal((4, 2))


def function(x, p, np):
    """Two results of different shapes in a structure, and one that is no float."""
    y = np.tanh(x @ p["w"])
    return {"y": y, "sum": np.sum(y * y, axis=0)}, np.argmax(y, axis=1)


ARGS, TANGENTS = (X, {"w": W}), (DX, {"w": DW})


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_jvp_is_that_of_jax(wrap):
    jax, jnp = jax_and_numpy()
    found = wrap(lambda *a: jvp(lambda *b: function(*b, np)[0], a, TANGENTS))(*ARGS)
    agree(found, jax.jvp(lambda *b: function(*b, jnp)[0], ARGS, TANGENTS))


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_vjp_is_that_of_jax(wrap):
    jax, jnp = jax_and_numpy()
    cotangents = {"y": RNG.standard_normal((3, 2)), "sum": RNG.standard_normal(2)}

    def both(vjp, np):
        def run(*args):
            value, back = vjp(lambda *b: function(*b, np)[0], *args)
            return value, back(cotangents)

        return run

    agree(wrap(both(vjp, np))(*ARGS), both(jax.vjp, jnp)(*ARGS))


def test_linearize_computes_values_once_and_moves_often():
    value, push = linearize(lambda *b: function(*b, np)[0], *ARGS)
    for scale in (1.0, -2.0, 0.0):
        tangents = (scale * DX, {"w": scale * DW})
        expected, moved = jvp(lambda *b: function(*b, np)[0], ARGS, tangents)
        agree(push(*tangents), moved)
        agree(value, expected)


def test_forward_and_reverse_are_transposes():
    _, back = vjp(lambda *b: function(*b, np)[0], *ARGS)
    cotangents = {"y": RNG.standard_normal((3, 2)), "sum": RNG.standard_normal(2)}
    _, moved = jvp(lambda *b: function(*b, np)[0], ARGS, TANGENTS)
    left = sum(np.sum(cotangents[k] * moved[k]) for k in cotangents)
    dx, dp = back(cotangents)
    assert left == pytest.approx(np.sum(dx * DX) + np.sum(dp["w"] * DW))


def test_results_that_are_no_floats_have_zero_tangents_and_ignore_cotangents():
    (_, index), (dy, dindex) = jvp(lambda x: (x * 2, np.argmax(x)), (X[0],), (DX[0],))
    assert dindex == 0 and dindex.dtype == index.dtype and np.array_equal(dy, 2 * DX[0])
    (_, index), back = vjp(lambda x: (x * 2, np.argmax(x)), X[0])
    assert np.array_equal(back((DX[0], index))[0], 2 * DX[0])
    (_, count), back = vjp(lambda x, n: (x * n, n), 2.0, 3)
    assert [float(g) for g in back((1.0, count))] == [3, 0]


def test_aux():
    assert jvp(lambda x: (x * x, "aux" and x + 1), (3.0,), (1.0,), has_aux=True) == (9, 6, 4)
    value, back, aux = vjp(lambda x: (x * x, x + 1), 3.0, has_aux=True)
    assert (value, aux, back(1.0)) == (9, 4, (6,))
    value, push, aux = linearize(lambda x: (x * x, x + 1), 3.0, has_aux=True)
    assert (value, aux, push(1.0)) == (9, 4, 6)


def test_python_numbers_take_the_type_of_their_primal():
    x = np.float32(2)
    assert jvp(np.sin, (x,), (1,))[1].dtype == np.float32
    assert vjp(np.sin, x)[1](1)[0].dtype == np.float32


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jvp(np.sin, (X,), (X[0],)), ShapeError, r"tangents\[0\] must be f64\[3, 4\], not f64\[4\]"),
        (lambda: jvp(np.sin, (X,), (X.astype(np.float32),)), DTypeError, "astype.'float64'."),
        (lambda: jvp(np.add, (X, X), (X,)), TraceError, "another structure"),
        (
            lambda: jvp(np.sin, X[:1], X[:1]),
            ArgumentError,
            "primals must be a tuple or list with (.|\n)*fix: write .primals",
        ),
        (lambda: jvp(np.sin, (X,), X[None]), ArgumentError, "tangents must be a tuple or list"),
        (lambda: vjp(np.sin, X)[1](X[:2]), ShapeError, "cotangents must be"),
        (lambda: vjp(lambda x: (x, x), X)[1](X), TraceError, "another structure"),
        (lambda: linearize(np.sin, X)[1](X, X), TraceError, "another structure"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()
