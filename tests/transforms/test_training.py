"""Training of a digits classifier: a thousand steps stay as close to float64 as PyTorch's, with reproducible bits."""

import numpy as np
import pytest
import torch

from tests.transforms.envelope import RUNS, nudged, require_inside
from zenith import jit, optim, value_and_grad

sklearn = pytest.importorskip("sklearn.datasets")

STEPS, BATCH, RATE = 1000, 64, 1e-2


@pytest.fixture(scope="module")
def data():
    """Training and test images with their labels, and the rows of every batch."""
    digits = sklearn.load_digits()
    images, labels = digits.data / 16.0, digits.target
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    images, labels = images[order], labels[order]
    rows = [rng.integers(0, 1400, BATCH) for _ in range(STEPS)]
    return images[:1400], labels[:1400], images[1400:], labels[1400:], rows


def start():
    """Weights of a network with one hidden layer."""
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((64, 32)) / 8).astype(np.float32), np.zeros(32, np.float32),
        (rng.standard_normal((32, 10)) / 6).astype(np.float32), np.zeros(10, np.float32),
    ]  # fmt: skip


def scores(params, x):
    w1, b1, w2, b2 = params
    return np.tanh(x @ w1 + b1) @ w2 + b2


def cross_entropy(params, x, wanted):
    """The mean of -log p of the wanted class, given as one-hot rows."""
    s = scores(params, x)
    s = s - np.max(s, axis=-1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(s), axis=-1)) - np.sum(s * wanted, axis=-1))


def train_with_zenith(data):
    """Loss and gradient norm of every step, and the final parameters."""
    images, labels, _, _, rows = data
    images, wanted = images.astype(np.float32), np.eye(10, dtype=np.float32)[labels]
    optimizer = optim.adam(RATE)

    @jit
    def step(params, state, x, y):
        loss, gradient = value_and_grad(cross_entropy)(params, x, y)
        updates, state = optimizer.update(gradient, state, params)
        return loss, optim.global_norm(gradient), optim.apply_updates(params, updates), state

    params, curve = start(), []
    state = optimizer.init(params)
    for chosen in rows:
        loss, norm, params, state = step(params, state, images[chosen], wanted[chosen])
        curve.append((float(loss), float(norm)))
    assert step.cache_info().misses == 1
    return np.array(curve), params


def train_with_torch(data, dtype, perturbed=None):
    """The same by PyTorch; ``perturbed`` moves every weight by one unit in its last place, up or down."""
    images, labels, _, _, rows = data
    params = []
    for i, array in enumerate(start()):
        if perturbed is not None:
            array = nudged(array, (perturbed, i))
        params.append(torch.tensor(array, dtype=dtype, requires_grad=True))
    x, y = torch.tensor(images, dtype=dtype), torch.tensor(labels)
    optimizer, curve = torch.optim.Adam(params, RATE), []
    for chosen in rows:
        optimizer.zero_grad()
        hidden = torch.tanh(x[chosen] @ params[0] + params[1])
        loss = torch.nn.functional.cross_entropy(hidden @ params[2] + params[3], y[chosen])
        loss.backward()
        norm = torch.sqrt(sum((p.grad**2).sum() for p in params))
        optimizer.step()
        curve.append((loss.item(), norm.item()))
    return np.array(curve), [p.detach().numpy() for p in params]


@pytest.fixture
def one_torch_thread():
    """Tiny operations: threads of torch would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def accuracy(params, data):
    return float(np.mean(np.argmax(scores(params, data[2]), axis=1) == data[3]))


def test_a_thousand_steps(data, one_torch_thread):
    curve, params = train_with_zenith(data)
    repeated, same = train_with_zenith(data)
    assert np.array_equal(curve, repeated) and all(np.array_equal(a, b) for a, b in zip(params, same, strict=True))
    exact, _ = train_with_torch(data, torch.float64)
    runs = [train_with_torch(data, torch.float32, perturbed=i) for i in range(RUNS)]
    require_inside(curve, exact, [run for run, _ in runs])
    assert curve[-1, 0] < 0.1 * curve[0, 0]
    accuracies = [accuracy(p, data) for _, p in runs]
    assert min(accuracies) - 0.005 <= accuracy(params, data) <= max(accuracies) + 0.005
