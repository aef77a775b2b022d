"""Training in 16 bits: what optimisers keep is float32; masters collect small updates; losses are scaled."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zenith
from zenith import optim, tree
from zenith.errors import ArgumentError, TraceError
from zenith.optim import LossScale, Optimizer
from zenith.optim.optimizer import map_leaves

DTYPES = pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
OPTIMIZERS = {
    "sgd": optim.sgd(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": optim.adamw(optim.warmup_cosine(0.1, 2, 8)),
    "lion": optim.lion(0.01, weight_decay=0.1),
    "clipped": optim.chain(optim.clip_by_global_norm(0.1), optim.clip(0.05), optim.sgd(optim.linear(0.1, 0.01, 5))),
}


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@DTYPES
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_of_16_bit_parameters_are_those_of_float32(name: str, dtype: Any) -> None:
    optimizer, w = OPTIMIZERS[name], random(5).astype(dtype)
    update = zenith.jit(optimizer.update)
    state, exact = optimizer.init(w), optimizer.init(w.astype(np.float32))
    for seed in range(3):
        g = random(5, seed=seed).astype(dtype)
        found, state = update(g, state, w)
        wanted, exact = optimizer.update(g.astype(np.float32), exact, w.astype(np.float32))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)
    kept = [np.asarray(leaf) for leaf in tree.flatten(state)[0]]
    assert {leaf.dtype for leaf in kept} <= {np.dtype(np.float32), np.dtype(np.int64)}
    assert update.cache_info().misses == 1 and optim.apply_updates(w, found).dtype == dtype


def test_small_gradients_of_float16_have_squares() -> None:
    """1e-4 has none in float16, and a step of Adam would be divided by zero."""
    optimizer, w = optim.adam(1e-3), np.ones(3, np.float16)
    updates, _ = zenith.jit(optimizer.update)(np.full(3, 1e-4, np.float16), optimizer.init(w), w)
    np.testing.assert_allclose(updates, -1e-3, rtol=1e-3)


def test_the_norm_of_float16_gradients_may_be_large() -> None:
    g = np.full(100, 300, np.float16)
    assert float(zenith.jit(optim.global_norm)(g)) == float(optim.global_norm(g)) == 3000
    clip = optim.clip_by_global_norm(1.0)
    np.testing.assert_allclose(clip.update(g, clip.init(g))[0], 0.1, rtol=1e-6)


@DTYPES
def test_masters_collect_what_parameters_lose(dtype: Any) -> None:
    params = {"w": random(4, 3).astype(dtype), "exact": np.ones(2, np.float32)}
    gradients = {"w": np.full((4, 3), 2.0**-4, dtype), "exact": np.ones(2, np.float32)}
    plain, kept = optim.sgd(2.0**-12), optim.with_masters(optim.sgd(2.0**-12))

    def run(optimizer: Optimizer) -> Any:
        @zenith.jit(donate_argnums=(0, 1))
        def step(params: Any, state: Any) -> Any:
            updates, state = optimizer.update(gradients, state, params)
            return optim.apply_updates(params, updates), state

        found, state = map_leaves(np.copy, params), optimizer.init(params)
        for _ in range(512):
            found, state = step(found, state)
        assert step.cache_info().misses == 1
        return found, state

    (lost, _), (found, state) = run(plain), run(kept)
    exact = params["w"].astype(np.float64) - 512 * 2.0**-16
    large = np.abs(params["w"].astype(np.float64)) > 0.2
    np.testing.assert_array_equal(lost["w"][large], params["w"][large])
    np.testing.assert_allclose(state.params["w"], exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["w"], state.params["w"].astype(dtype))
    np.testing.assert_allclose(found["exact"], lost["exact"], rtol=1e-6)
    assert found["w"].dtype == dtype and state.params["w"].dtype == np.float32


def test_masters_are_memory_of_their_own() -> None:
    w = np.ones(3, np.float32)
    assert not np.shares_memory(optim.with_masters(optim.sgd(0.1)).init(w).params, w)


X, Y = random(64, 8, seed=1).astype(np.float16), random(64, 1, seed=2)
SMALL = 1e-4


def error(params: Any) -> Any:
    """Its derivatives are about 1e-9, which float16 counts as zero."""
    hidden = np.tanh(X @ params["w"])
    return np.mean((((hidden @ params["v"]).astype(np.float32) - Y.astype(np.float32)) * SMALL) ** 2)


def learnt(optimizer: Optimizer, steps: int) -> tuple[float, float, Any, Any]:
    """The error before and after some steps, the state, and the compiled step."""
    params = {"w": (random(8, 16) / 3).astype(np.float16), "v": (random(16, 1, seed=3) / 4).astype(np.float16)}
    first = float(error(params))

    @zenith.jit(donate_argnums=(0, 1))
    def step(params: Any, state: Any) -> Any:
        scaled = state.scaled if isinstance(state, LossScale) else (lambda loss: loss)
        gradient = zenith.grad(lambda p: scaled(error(p)))(params)
        assert gradient["w"].dtype == np.float16
        updates, state = optimizer.update(gradient, state, params)
        return optim.apply_updates(params, updates), state

    state = optimizer.init(params)
    for _ in range(steps):
        params, state = step(params, state)
    return first, float(error(params)), state, step


def test_a_network_of_float16_learns_by_a_scaled_loss_and_not_without() -> None:
    adam = optim.with_masters(optim.adam(1e-2))
    first, without, state, _ = learnt(adam, 80)
    assert without == first
    first, found, state, step = learnt(optim.loss_scaling(adam, 2.0**60, interval=20), 80)
    assert found < 0.6 * first and step.cache_info().misses == 1
    assert 2.0**20 < state.scale < 2.0**56 and state.state.state[0].count > 50  # it overflowed at first


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_step_that_overflows_changes_no_bit(bad: float, compiled: bool) -> None:
    optimizer = optim.loss_scaling(optim.with_masters(optim.adamw(optim.linear(0.1, 0.01, 9))), 2.0**10, interval=2)
    params = {"w": np.array([1.5, -0.0, 0.0, 1e-7], np.float16), "b": np.array([-0.0, 2.0], np.float32)}

    def step(params: Any, state: Any, gradients: Any) -> Any:
        updates, state = optimizer.update(gradients, state, params)
        return optim.apply_updates(params, updates), state

    step = zenith.jit(step) if compiled else step
    good = {"w": np.full(4, 3, np.float16), "b": np.full(2, 5, np.float32)}
    wrong = {"w": good["w"].copy(), "b": np.array([5, bad], np.float32)}
    params, state = step(params, optimizer.init(params), good)
    params["w"][1] = params["b"][0] = -0.0
    after, skipped = step(params, state, wrong)
    for a, b in zip(*(tree.flatten((p, s.state))[0] for p, s in ((params, state), (after, skipped))), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert (float(skipped.scale), int(skipped.count)) == (2.0**9, 0)
    _, moved = step(after, skipped, good)
    assert moved.state.state[0].count == 2
    assert not compiled or step.cache_info().misses == 1


def test_scales_grow_and_back_off() -> None:
    optimizer = optim.loss_scaling(optim.sgd(0.1), 8.0, growth=4.0, backoff=0.25, interval=3)
    w, state, scales = np.ones(1, np.float32), optimizer.init(np.ones(1, np.float32)), []
    for finite in (1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1):
        updates, state = optimizer.update(np.full(1, 8.0 if finite else np.nan, np.float32), state, w)
        scales.append(float(state.scale))
        assert (float(updates[0]) == 0) == (not finite)
    assert scales == [8, 8, 32, 32, 8, 8, 8, 2, 0.5, 0.5, 0.5, 2]


def test_scales_stay_finite_and_positive() -> None:
    optimizer = optim.loss_scaling(optim.sgd(0.1), 2.0**126, interval=1)
    w = np.ones(1, np.float32)
    state = optimizer.init(w)
    for _ in range(4):
        _, state = optimizer.update(w, state, w)
    assert float(state.scale) == 2.0**127
    for _ in range(400):
        _, state = optimizer.update(np.array([np.nan], np.float32), state, w)
    assert 0 < state.scale < 1e-37


def test_what_is_refused() -> None:
    for wrong in ({"initial": 0.0}, {"initial": np.inf}, {"growth": 1.0}, {"backoff": 1.0}, {"backoff": 0.0},
                  {"interval": 0}):  # fmt: skip
        with pytest.raises(ArgumentError, match="scale no loss"):
            optim.loss_scaling(optim.sgd(0.1), **wrong)
    masters = optim.with_masters(optim.sgd(0.1))
    with pytest.raises(TraceError, match="masters need the parameters"):
        masters.update(np.ones(2), masters.init(np.ones(2)))
