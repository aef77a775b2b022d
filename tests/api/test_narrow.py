"""Programs on 16-bit floats as users write them: derivatives, batches, loops, order, files, the cache."""

import ml_dtypes
import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.running import call, compiled
from zenith.config import config
from zenith.ir.text import parse

DTYPES = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])


def random(dtype, *shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def near(found, exact, ulps=4.0):
    """The element type's error of some roundings, relative to the largest element."""
    exact = np.asarray(exact, np.float64)
    unit = float(ml_dtypes.finfo(found.dtype).eps) * max(1.0, np.abs(exact).max(initial=0.0))
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=0, atol=ulps * unit)


def wide(tree):
    return {k: v.astype(np.float64) for k, v in tree.items()} if isinstance(tree, dict) else tree.astype(np.float64)


def loss(params, x):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return np.mean(np.log1p(np.exp(hidden * 2)) - hidden.max(axis=1, keepdims=True))


@DTYPES
def test_gradients(dtype):
    params, x = {"w": random(dtype, 7, 5), "b": random(dtype, 5, seed=1)}, random(dtype, 33, 7, seed=2)
    value, gradient = zenith.jit(zenith.value_and_grad(loss))(params, x)
    exact_value, exact = zenith.jit(zenith.value_and_grad(loss))(wide(params), wide(x))
    assert value.dtype == dtype and {g.dtype for g in gradient.values()} == {np.dtype(dtype)}
    near(np.asarray(value), exact_value)
    for name, found in gradient.items():
        near(found, exact[name])


@DTYPES
def test_batches(dtype):
    x, w = random(dtype, 4, 6, 5), random(dtype, 5, 3, seed=1)
    found = zenith.jit(zenith.vmap(lambda x, w: np.exp(x @ w), in_axes=(0, None)))(x, w)
    assert found.dtype == dtype
    near(found, np.exp(wide(x) @ wide(w)))


@DTYPES
def test_loops_carry_16_bits(dtype):
    w, x = random(dtype, 6, 6), random(dtype, 9, 6, seed=3)

    def cell(state, x):
        state = np.tanh(state @ w + x)
        return state, state * 2

    last, all_states = zenith.jit(lambda x: zenith.scan(cell, np.zeros(6, dtype), x))(x)
    assert last.dtype == all_states.dtype == dtype
    state = np.zeros(6)
    for row in wide(x):
        state = np.tanh(state @ wide(w) + row)
    near(last, state, ulps=8)
    count = zenith.jit(lambda x: zenith.while_loop(lambda s: s < 10, lambda s: s * 1.5, x))(np.asarray(1, dtype))
    assert count.dtype == dtype and float(count) == pytest.approx(11.390625, rel=float(ml_dtypes.finfo(dtype).eps) * 4)


@DTYPES
def test_order_indices_and_sums(dtype):
    x = random(dtype, 20, 17)
    x[3, 4], x[5, 5] = np.nan, -0.0

    def f(x, i):
        y = znp.cumsum(x[6:], axis=1)
        return np.sort(x, axis=1), np.argsort(x, axis=1), x[i], y, np.where(x > 0, x, 0), np.argmax(x, axis=1)

    sorted_, order, taken, sums, positive, largest = zenith.jit(f)(x, np.array([3, 0, 19]))
    single = x.astype(np.float32)
    np.testing.assert_array_equal(sorted_.astype(np.float32), np.sort(single, axis=1))
    np.testing.assert_array_equal(order, np.argsort(single, axis=1, kind="stable"))
    np.testing.assert_array_equal(taken.astype(np.float32), single[[3, 0, 19]])
    near(sums, np.cumsum(wide(x)[6:], axis=1))
    np.testing.assert_array_equal(positive.astype(np.float32), np.where(single > 0, single, 0))
    np.testing.assert_array_equal(largest, np.argmax(single, axis=1))
    assert {a.dtype for a in (sorted_, taken, sums, positive)} == {np.dtype(dtype)}


@DTYPES
def test_an_embedding_learns(dtype):
    """A scatter adds in float32: many small gradients are not lost in a large one."""
    table, indices = np.zeros((3, 4), dtype), np.zeros(3000, np.int64)
    gradient = zenith.jit(zenith.grad(lambda t: np.sum(t[indices]) * 0.5))(table)
    assert gradient.dtype == dtype
    near(gradient[0], np.full(4, 1500.0), ulps=1)
    assert not gradient[1:].any()


@DTYPES
def test_programs_are_saved_with_their_arrays(dtype, tmp_path):
    w = random(dtype, 40, 30)
    f = zenith.jit(lambda x: np.maximum(x @ w + 0.5, 0) * dtype(3))
    x = random(dtype, 11, 40, seed=5)
    expected = f(x)
    f.save(tmp_path / "f.zenith")
    found = zenith.load(tmp_path / "f.zenith")(x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.view(np.int16), expected.view(np.int16))


@DTYPES
def test_programs_come_from_the_cache(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    x, name = random(dtype, 50), "f16" if dtype == np.float16 else "bf16"
    text = f"def f(x: {name}[n]) -> ({name}[n]):\n    v1 = exp(x)\n    v2 = mul(v1, x)\n    return (v2,)"
    graph = parse(text)
    first, second = (compiled(graph, "cpu") for _ in range(2))
    assert (first.report.cached, second.report.cached) == (False, True)
    one, other = (call(e, graph, [x])[0] for e in (first, second))
    np.testing.assert_array_equal(one.view(np.int16), other.view(np.int16))


def test_the_two_meet_in_float32():
    x, y = random(np.float16, 5), random(ml_dtypes.bfloat16, 5)
    found = zenith.jit(lambda x, y: x * y)(x, y)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, x.astype(np.float32) * y.astype(np.float32))
