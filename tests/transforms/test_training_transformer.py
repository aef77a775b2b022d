"""Training of a transformer by AdamW stays as close to float64 as PyTorch's own does, with reproducible bits.

A small one in `make fuzz`; ``make train`` takes the one with four layers, which trains for minutes.
"""

import os

import numpy as np
import pytest
import torch

from benchmarks.workloads.encoder import Encoder
from benchmarks.workloads.training import SMALL, transformer
from tests.transforms.envelope import RUNS, nudged, require_inside
from zenith import jit, optim, value_and_grad

RATE = 1e-3
if os.environ.get("ZENITH_TRAINING") == "whole":
    STEPS, WORKLOAD = 200, transformer("whole", SMALL, batch=8, length=128, rate=RATE)
else:
    STEPS, WORKLOAD = 60, transformer("little", Encoder(2, width=32, heads=4, middle=64), batch=4, length=16, rate=RATE)


@pytest.fixture(scope="module")
def batches():
    """Inputs, and a smooth function of them and their neighbours, which the network is to learn."""
    ((x, _),) = WORKLOAD.batches()
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((x.shape[-1],) * 2) / x.shape[-1] ** 0.5
    inputs = [rng.standard_normal(x.shape) for _ in range(4)]
    pairs = [(x, np.tanh((x + np.roll(x, 1, axis=1)) @ mix)) for x in inputs]
    return [pairs[i % 4] for i in range(STEPS)]


def train_with_zenith(batches):
    """Loss and gradient norm of every step, and the final weights."""
    optimizer = optim.adamw(RATE)

    @jit
    def step(weights, state, x, wanted):
        loss, gradient = value_and_grad(lambda weights: WORKLOAD.numpy(weights, np)(x, wanted))(weights)
        updates, state = optimizer.update(gradient, state, weights)
        return loss, optim.global_norm(gradient), optim.apply_updates(weights, updates), state

    weights, curve = WORKLOAD.weights(), []
    state = optimizer.init(weights)
    for x, wanted in batches:
        loss, norm, weights, state = step(weights, state, x.astype(np.float32), wanted.astype(np.float32))
        curve.append((float(loss), float(norm)))
    assert step.cache_info().misses == 1
    return np.array(curve), weights


def train_with_torch(batches, dtype, perturbed=None):
    """The same by PyTorch; ``perturbed`` moves every weight by one unit in its last place, up or down."""
    weights = WORKLOAD.weights()
    if perturbed is not None:
        weights = tuple(nudged(w, (perturbed, i)) for i, w in enumerate(weights))
    module = WORKLOAD.torch(weights).to(dtype)
    optimizer, curve = torch.optim.AdamW(module.parameters(), RATE), []
    for batch in batches:
        optimizer.zero_grad()
        loss = module(*(torch.tensor(x, dtype=dtype) for x in batch))
        loss.backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in module.parameters()))
        optimizer.step()
        curve.append((loss.item(), norm.item()))
    return np.array(curve)


@pytest.mark.thorough
def test_a_transformer_trains_as_in_torch(batches):
    curve, weights = train_with_zenith(batches)
    repeated, same = train_with_zenith(batches)
    assert np.array_equal(curve, repeated) and all(np.array_equal(a, b) for a, b in zip(weights, same, strict=True))
    exact = train_with_torch(batches, torch.float64)
    require_inside(curve, exact, [train_with_torch(batches, torch.float32, perturbed=i) for i in range(RUNS)])
    assert curve[-1, 0] < 0.8 * curve[0, 0]
