"""The derivative of attention: that of the formula written out, of every order, for every mask; without the scores."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith import grad, jit, vmap
from zenith.api import make_graph
from zenith.backends.steps import LaunchStep, walk
from zenith.compile import compile_graph

RNG = np.random.default_rng(3)
Q, K, V = (RNG.standard_normal((2, n, m)) for n, m in ((5, 4), (7, 4), (7, 3)))
BIAS, SEEN = RNG.standard_normal((2, 5, 7)), RNG.random((2, 5, 7)) < 0.7
SEEN[:, :, 0] = True


def written_out(q, k, v, mask=None, causal=False):
    """What NumPy programs write, which knows nothing of the primitive."""
    scores = q @ np.swapaxes(k, -1, -2) / 2.0
    if mask is not None:
        scores = np.where(mask, scores, -1e30) if mask.dtype.kind == "b" else scores + mask
    if causal:
        scores = np.where(np.tri(5, 7, dtype=bool), scores, -1e30)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True) @ v


def loss(attention, *arrays, **options):
    """A number that depends on every average in its own way."""
    result = attention(*arrays, **options)
    return np.sum(np.sin(result) * np.cumsum(np.ones((5, 3)), axis=0))


CASES = {
    "plain": ((Q, K, V), {}, 3),
    "causal": ((Q, K, V), {"causal": True}, 3),
    "a mask that is added, and its gradient": ((Q, K, V, BIAS), {}, 4),
    "a mask of bools": ((Q, K, V, SEEN), {}, 3),
    "an added mask for all heads, and its gradient": ((Q, K, V, BIAS[0]), {"causal": True}, 4),
}


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_the_formula(case, wrap):
    arrays, options, number = CASES[case]
    every = tuple(range(number))
    found = wrap(grad(lambda *a: loss(znp.attention, *a, **options), argnums=every))(*arrays)
    expected = grad(lambda *a: loss(written_out, *a, **options), argnums=every)(*arrays)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_second_derivatives_are_those_of_the_formula(case):
    arrays, options, number = CASES[case]

    def twice(attention):
        def slope(*a):
            first = grad(lambda *x: loss(attention, *x, *a[number:], **options), argnums=tuple(range(number)))
            return sum((np.cos(g)).sum() for g in first(*a[:number]))

        return grad(slope, argnums=tuple(range(number)))

    for a, b in zip(jit(twice(znp.attention))(*arrays), twice(written_out)(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_tangents_and_batches_of_gradients():
    moved = tuple(RNG.standard_normal(x.shape) for x in (Q, K, V))
    found, expected = (
        zenith.jvp(grad(lambda *a, f=f: loss(f, *a), argnums=(0, 1, 2)), (Q, K, V), moved)[1]
        for f in (znp.attention, written_out)
    )
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    each = vmap(grad(lambda *a: loss(znp.attention, *a), argnums=(0, 1, 2)))(Q, K, V)
    for i, gradients in enumerate(zip(*each, strict=True)):
        alone = grad(lambda *a: loss(znp.attention, *a), argnums=(0, 1, 2))(Q[i], K[i], V[i])
        for a, b in zip(gradients, alone, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


def test_one_program_for_every_length_and_no_scores_in_memory():
    """The gradient of a layer with heads, at lengths 0 and 1 too: two kernels go back, memory is linear."""

    def step(x, w):
        heads = [np.transpose(np.reshape(x @ m, (*x.shape[:2], 2, 4)), (0, 2, 1, 3)) for m in w]
        return np.sum(np.sin(znp.attention(*heads, causal=True)))

    w = [RNG.standard_normal((8, 8)).astype(np.float32) for _ in range(3)]
    compiled = jit(grad(step, argnums=(0, 1)))
    for length in (6, 1, 0, 90):
        x = RNG.standard_normal((2, length, 8)).astype(np.float32)
        found = compiled(x, w)[0]
        exact = grad(step)(x.astype(np.float64), [m.astype(np.float64) for m in w])
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
    assert compiled.cache_info().misses == 1
    structs = zenith.ShapeDtypeStruct(("b", "s", 8), "float32"), [zenith.ShapeDtypeStruct((8, 8), "float32")] * 3
    plan = compile_graph(make_graph(grad(step, argnums=(0, 1)))(*structs), "lanes").plan
    kernels = [s.kernel for s in walk(plan.steps) if isinstance(s, LaunchStep)]
    assert sum("attention_vjp" in kernel.doc for kernel in kernels) == 2
    small, large = (plan.arena.evaluate({"b": 1, "s": n}) for n in (2000, 20000))
    assert large <= 11 * small
