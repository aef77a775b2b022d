"""Training of a convolutional network stays as close to float64 as PyTorch's own does, with reproducible bits.

A little one for every day; the whole one, on 200 batches of 16 images, and Adam run in ``make fuzz``.
"""

import numpy as np
import pytest
import torch

from benchmarks.workloads.images import SMALL, Images, convolved
from tests.transforms.envelope import RUNS, nudged, require_inside
from zenith import jit, nn, optim, value_and_grad
from zenith import numpy as znp

LITTLE = Images((6, 16), size=6)
RULES = {
    "sgd": (lambda: optim.sgd(1e-2, 0.9), lambda parameters: torch.optim.SGD(parameters, 1e-2, momentum=0.9)),
    "adam": (lambda: optim.adam(1e-3), lambda parameters: torch.optim.Adam(parameters, 1e-3)),
}


def start(images):
    """Weights, and the running statistics of each norm."""
    return images.weights(), [(np.zeros(n, np.float32), np.ones(n, np.float32)) for n in images.widths]


def loss(weights, running, x, classes):
    """The cross entropy, and the running statistics after this batch."""
    *stages, head, bias = weights
    moved = []
    for i, (mean, var) in enumerate(running):
        kernel, shift, scale, move = stages[4 * i : 4 * i + 4]
        x, *statistics = nn.batch_norm_training(
            convolved(x, kernel, znp) + shift[:, None, None], mean, var, scale, move
        )
        x = nn.relu(x)
        moved.append(tuple(statistics))
    return nn.cross_entropy(znp.mean(x, axis=(2, 3)) @ head.T + bias, classes), moved


def train_with_zenith(images, batches, rule):
    """Loss and gradient norm of every step, the final weights and statistics."""
    optimizer = RULES[rule][0]()

    @jit(donate_argnums=(0, 1, 2))
    def step(weights, running, state, x, classes):
        (found, running), gradient = value_and_grad(loss, has_aux=True)(weights, running, x, classes)
        updates, state = optimizer.update(gradient, state, weights)
        return found, optim.global_norm(gradient), optim.apply_updates(weights, updates), running, state

    (weights, running), curve = start(images), []
    state = optimizer.init(weights)
    for x, classes in batches:
        found, norm, weights, running, state = step(weights, running, state, x, classes)
        curve.append((float(found), float(norm)))
    assert step.cache_info().misses == 1
    return np.array(curve), [*weights, *(s for pair in running for s in pair)]


def train_with_torch(images, batches, rule, dtype, perturbed=None):
    """The same by PyTorch; ``perturbed`` moves every weight by one unit in its last place, up or down."""
    weights, _ = start(images)
    if perturbed is not None:
        weights = tuple(nudged(w, (perturbed, i)) for i, w in enumerate(weights))
    module = images.torch(weights).to(dtype)
    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.track_running_stats, norm.num_batches_tracked = True, torch.tensor(0)
        norm.running_mean = torch.zeros(norm.num_features, dtype=dtype)
        norm.running_var = torch.ones(norm.num_features, dtype=dtype)
    optimizer, curve = RULES[rule][1](module.parameters()), []
    for x, classes in batches:
        optimizer.zero_grad()
        found = module(torch.tensor(x, dtype=dtype), torch.tensor(classes))
        found.backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in module.parameters()))
        optimizer.step()
        curve.append((found.item(), norm.item()))
    return np.array(curve), [s.numpy() for norm in norms for s in (norm.running_mean, norm.running_var)]


WHOLE = pytest.mark.thorough
CASES = [
    pytest.param(LITTLE, 40, 4, "sgd", id="little sgd"),
    pytest.param(LITTLE, 40, 4, "adam", marks=WHOLE, id="little adam"),
    pytest.param(SMALL, 200, 16, "sgd", marks=WHOLE, id="whole sgd"),
    pytest.param(SMALL, 200, 16, "adam", marks=WHOLE, id="whole adam"),
]


@pytest.mark.parametrize(("images", "steps", "batch", "rule"), CASES)
def test_images_train_as_in_torch(images, steps, batch, rule):
    seen = [images.batch(batch, seed) for seed in range(4)]
    batches = [seen[i % 4] for i in range(steps)]
    curve, found = train_with_zenith(images, batches, rule)
    repeated, same = train_with_zenith(images, batches, rule)
    assert np.array_equal(curve, repeated) and all(np.array_equal(a, b) for a, b in zip(found, same, strict=True))
    exact, statistics = train_with_torch(images, batches, rule, torch.float64)
    runs = [train_with_torch(images, batches, rule, torch.float32, perturbed=i) for i in range(RUNS)]
    require_inside(curve, exact, [run for run, _ in runs])
    assert curve[-1, 0] < 0.9 * curve[0, 0]
    for i, (ours, wanted) in enumerate(zip(found[-len(statistics) :], statistics, strict=True)):
        theirs = max(np.abs(run[i] - wanted).max() for _, run in runs)
        assert np.abs(ours - wanted).max() <= 2 * theirs + 2.0**-20 * np.abs(wanted).max()
