"""Optimisers against torch.optim step by step, under jit, with schedules; what they refuse."""

import numpy as np
import pytest
import torch

from zenith import grad, jit, optim
from zenith.errors import TraceError

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.standard_normal((4, 3)), "b": [RNG.standard_normal(3)]}
X, Y = RNG.standard_normal((6, 4)), RNG.standard_normal((6, 3))
PAIRS = {
    "sgd": (optim.sgd(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "momentum": (optim.sgd(0.1, momentum=0.9), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    "nesterov": (
        optim.sgd(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": (optim.adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
    "adamw": (optim.adamw(0.01, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1)),
}


def loss(params, x, y):
    return np.mean((np.tanh(x @ params["w"] + params["b"][0]) - y) ** 2)


def train(optimizer, params, steps, wrap=lambda f: f):
    def step(params, state, x, y):
        updates, state = optimizer.update(grad(loss)(params, x, y), state, params)
        return optim.apply_updates(params, updates), state

    step, state = wrap(step), optimizer.init(params)
    for _ in range(steps):
        params, state = step(params, state, X.astype(params["w"].dtype), Y.astype(params["w"].dtype))
    return params


@pytest.mark.parametrize("name", PAIRS)
def test_steps_are_those_of_torch(name):
    ours, theirs = PAIRS[name]
    w, b = torch.tensor(PARAMS["w"], requires_grad=True), torch.tensor(PARAMS["b"][0], requires_grad=True)
    optimizer = theirs([w, b])
    for _ in range(5):
        optimizer.zero_grad()
        ((torch.tanh(torch.tensor(X) @ w + b) - torch.tensor(Y)) ** 2).mean().backward()
        optimizer.step()
    found = train(ours, PARAMS, 5, jit)
    np.testing.assert_allclose(found["w"], w.detach().numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found["b"][0], b.detach().numpy(), rtol=1e-10, atol=1e-12)


OTHERS = {
    "lion": optim.lion(0.01, weight_decay=0.1),
    "schedule": optim.adam(optim.warmup_cosine(0.1, 2, 8)),
    "clipped": optim.chain(optim.clip_by_global_norm(0.1), optim.clip(0.05), optim.sgd(optim.linear(0.1, 0.01, 5))),
}


@pytest.mark.parametrize("name", [*PAIRS, *OTHERS])
def test_compiled_steps_are_the_plain_ones_and_keep_types(name):
    optimizer = OTHERS[name] if name in OTHERS else PAIRS[name][0]
    for dtype, tolerance in ((np.float64, 1e-10), (np.float32, 1e-4)):
        params = {"w": PARAMS["w"].astype(dtype), "b": [PARAMS["b"][0].astype(dtype)]}
        plain, compiled = train(optimizer, params, 4), train(optimizer, params, 4, jit)
        for a, b in ((plain["w"], compiled["w"]), (plain["b"][0], compiled["b"][0])):
            assert a.dtype == b.dtype == dtype
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_lion_moves_by_the_rate():
    params = np.array([1.0, -2.0, 3.0])
    optimizer = optim.lion(0.1)
    updates, _ = optimizer.update(np.array([0.5, -3.0, 0.0]), optimizer.init(params), params)
    assert updates.tolist() == [-0.1, 0.1, 0]


def test_clipping():
    clip = optim.clip_by_global_norm(1.0)
    big, small = [np.array([3.0]), np.array([4.0])], [np.array([0.3]), np.array([0.4])]
    assert [float(u[0]) for u in clip.update(big, clip.init(big))[0]] == pytest.approx([0.6, 0.8])
    assert [float(u[0]) for u in clip.update(small, ())[0]] == [0.3, 0.4]
    assert [float(u[0]) for u in clip.update([np.zeros(1)], ())[0]] == [0]
    assert optim.clip(1.0).update(np.array([-2.0, 0.5]), ())[0].tolist() == [-1, 0.5]
    assert np.isnan(clip.update([np.array([1e6]), np.array([np.nan])], ())[0]).all()  # as PyTorch's clip_grad_norm_


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (optim.constant(0.5), {0: 0.5, 100: 0.5}),
        (optim.linear(1.0, 0.0, 4), {0: 1, 1: 0.75, 4: 0, 10: 0}),
        (optim.cosine_decay(1.0, 4, 0.2), {0: 1, 2: 0.6, 4: 0.2, 9: 0.2}),
        (optim.exponential_decay(1.0, 10, 0.5), {0: 1, 10: 0.5, 20: 0.25}),
        (optim.warmup_cosine(1.0, 2, 6), {0: 0, 1: 0.5, 2: 1, 4: 0.5, 6: 0}),
        (optim.piecewise(1.0, {2: 0.5, 4: 0.1}), {0: 1, 2: 0.5, 3: 0.5, 4: 0.05}),
    ],
)
def test_schedules(schedule, values):
    compiled = jit(schedule)
    for count, value in values.items():
        assert float(schedule(count)) == pytest.approx(value)
        assert float(compiled(np.int64(count))) == pytest.approx(value)


def test_refusals():
    optimizer = optim.adamw(0.1)
    state = optimizer.init(PARAMS)
    with pytest.raises(TraceError, match="one structure"):
        optimizer.update({"w": PARAMS["w"]}, state, PARAMS)
    with pytest.raises(TraceError, match="weight decay needs the parameters"):
        optimizer.update(PARAMS, state)
