"""16-bit floats beside float32 weights, complex gradients, narrow integers: layers, losses and optimisers."""

import numpy as np
import pytest

import zenith
from zenith import nn, optim, random

HALF, SINGLE = np.float16, np.float32
ONES = np.ones(2, SINGLE)
CASES = {
    "rms_norm": (lambda: nn.rms_norm(HALF([[300, 400]]), ONES), [[0.8485, 1.1314]]),
    "layer_norm": (lambda: nn.layer_norm(HALF([[0, 1000]]), ONES), [[-1, 1]]),
    "batch_norm": (lambda: nn.batch_norm_training(HALF([[0], [1000]]), SINGLE([0]), SINGLE([1]))[0], [[-1], [1]]),
    "fake_quantize": (lambda: nn.fake_quantize(HALF([1e-4]), SINGLE(1e-5)), [1e-4]),
    "cross_entropy": (lambda: nn.cross_entropy(np.zeros((1, 9999), HALF), [0], weight=np.ones(9999, SINGLE)), 9.2102),
    "avg_pool": (lambda: nn.avg_pool(np.full((1, 1, 2), 60000, HALF), 2), [[[60000]]]),
    "adaptive_avg_pool": (lambda: nn.adaptive_avg_pool(np.ones((1, 1, 300, 300), HALF), 1), [[[[1]]]]),
    "triplet_margin_loss": (lambda: nn.triplet_margin_loss([[0.0, 0]], [[2.0, 0]], [[5.0, 0]], p=np.inf), 0),
    "last offset": (lambda: nn.embedding_bag([[1.0], [2], [4]], [0, 1, 2], [0, 1, 2], mode="sum",
                                             include_last_offset=True), [[1], [2]]),
    "negative padding": (lambda: nn.embedding_bag([[1.0], [2]], [[0, 1]], mode="sum", padding_idx=-1), [[1]]),
    "sum of bytes": (lambda: nn.l1_loss(np.full(3, 100, np.int8), np.zeros(3, np.int8), reduction="sum"), 300),
    "global_norm": (lambda: optim.global_norm([np.array([3j, 4])]), 5),
    "global_norm of bytes": (lambda: optim.global_norm([np.array([100], np.int8)]), 100),
    "clipped": (lambda: optim.clip_by_global_norm(1.0).update([np.array([3j, 3.0])], ())[0][0],
                [0.70711j, 0.70711]),
}  # fmt: skip
CASES["huber_loss"] = (
    lambda: zenith.grad(lambda x: nn.huber_loss(x, np.zeros(3), reduction="sum"))(np.array([np.inf, 0.5, -3.0])),
    [1, 0.5, -1],
)


@pytest.mark.parametrize("name", CASES)
def test_results(name):
    function, expected = CASES[name]
    np.testing.assert_allclose(function(), expected, rtol=2e-3, atol=1e-6)


def test_adam_follows_complex_gradients_by_their_parts():
    optimizer, params = optim.adam(0.1), np.array([0j])
    updates, _ = optimizer.update(np.array([1j]), optimizer.init(params), params)
    np.testing.assert_allclose(updates, [-0.1j], atol=1e-6)


def test_bounds_of_uint64_are_clipped():
    found = random.randint(random.key(0), (9,), np.uint64(0), np.uint64(2**64 - 1), np.int32)
    assert len(set(found.tolist())) > 5 and found.min() >= 0
