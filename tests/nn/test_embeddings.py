"""Rows of tables and bags of them against PyTorch's, with gradients; dropout's shares, means and keys."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import zenith
from tests.nn.compare_torch import agree
from zenith import nn, random
from zenith.errors import ArgumentError, NumberError, OutOfBoundsError, ShapeError

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((7, 3))
BAGS = np.array([[1, 4, 4], [0, 6, 1]])
ROW, OFFSETS = np.array([5, 1, 1, 0, 2, 6, 3]), np.array([0, 2, 2, 6])  # the second bag is empty
SHARES = RNG.standard_normal(7)


def test_rows():
    agree(lambda w: nn.embedding(w, BAGS), lambda w: F.embedding(torch.tensor(BAGS), w), TABLE)
    agree(lambda w: nn.embedding(w, BAGS, 4), lambda w: F.embedding(torch.tensor(BAGS), w, 4), TABLE)
    for wrong in (-1, 7):
        with pytest.raises(OutOfBoundsError):
            nn.embedding(TABLE, [wrong])


@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode, padding):
    row, bags, offsets = map(torch.tensor, (ROW, BAGS, OFFSETS))
    options = {"mode": mode, "padding_idx": padding}
    agree(lambda w: nn.embedding_bag(w, ROW, OFFSETS, **options), lambda w: F.embedding_bag(row, w, offsets, **options),
          TABLE)  # fmt: skip
    agree(lambda w: nn.embedding_bag(w, BAGS, **options), lambda w: F.embedding_bag(bags, w, **options), TABLE)
    ends, last = np.append(OFFSETS, 7), {"include_last_offset": True, **options}
    agree(lambda w: nn.embedding_bag(w, ROW, ends, **last),
          lambda w: F.embedding_bag(row, w, torch.tensor(ends), **last), TABLE)  # fmt: skip


def test_weighted_bags():
    row, offsets = torch.tensor(ROW), torch.tensor(OFFSETS)
    agree(lambda w, s: nn.embedding_bag(w, ROW, OFFSETS, "sum", s),
          lambda w, s: F.embedding_bag(row, w, offsets, mode="sum", per_sample_weights=s), TABLE, SHARES)  # fmt: skip


def test_compiled_bags():
    step = zenith.jit(zenith.value_and_grad(lambda w, i, o: np.sum(np.sin(nn.embedding_bag(w, i, o)))))
    for count in (7, 5):
        found, gradient = step(TABLE, ROW[:count], OFFSETS[: count - 3])
        exact = zenith.grad(lambda w, n=count: np.sum(np.sin(nn.embedding_bag(w, ROW[:n], OFFSETS[: n - 3]))))(TABLE)
        np.testing.assert_allclose(gradient, exact, rtol=1e-12, atol=1e-14)
    assert step.cache_info().misses == 1 and np.isfinite(found)


def test_refusals_of_bags():
    with pytest.raises(ArgumentError, match="no mode 'min'"):
        nn.embedding_bag(TABLE, BAGS, mode="min")
    with pytest.raises(ArgumentError, match="weights of samples are for sums"):
        nn.embedding_bag(TABLE, BAGS, per_sample_weights=np.ones((2, 3)))
    with pytest.raises(ShapeError, match="indices of one axis with offsets"):
        nn.embedding_bag(TABLE, ROW)


def test_dropout():
    """The share that is dropped, the mean that stays, and the gradient, which is the mask."""
    x, key = np.full((200, 300), 2.0), random.key(3)
    y = nn.dropout(x, 0.25, key)
    assert set(np.unique(y)) == {0.0, 2.0 / 0.75} and abs(np.mean(y == 0) - 0.25) < 0.01
    assert np.array_equal(y, nn.dropout(x, 0.25, key)) and not np.array_equal(y, nn.dropout(x, 0.25, random.key(4)))
    gradient = zenith.grad(lambda v: np.sum(nn.dropout(v, 0.25, key)))(x)
    np.testing.assert_allclose(gradient, y / 2.0, rtol=1e-15)
    assert nn.dropout(x, 0.0, key) is x and not nn.dropout(x, 1.0, key).any()


def test_channels_are_dropped_whole():
    y = nn.dropout(np.ones((20, 30, 4, 5)), 0.5, random.key(0), axes=(0, 1))
    assert ((y == 0).all((2, 3)) | (y == 2).all((2, 3))).all() and 0.4 < np.mean(y == 0) < 0.6


def test_alpha_dropout_keeps_mean_and_variance():
    x = random.normal(random.key(1), (400, 500), np.float64)
    y = nn.alpha_dropout(x, 0.3, random.key(0))
    assert abs(np.mean(y)) < 0.01 and abs(np.var(y) - 1) < 0.02
    values, counts = np.unique(y, return_counts=True)
    assert counts.max() / y.size == pytest.approx(0.3, abs=0.01) and values[counts.argmax()] < -1
    assert not nn.alpha_dropout(x, 1.0, random.key(0)).any()


def test_a_probability_is_between_0_and_1():
    with pytest.raises(NumberError, match=r"dropout of 1.5 is not between 0 and 1"):
        nn.dropout(np.ones(3), 1.5, random.key(0))
