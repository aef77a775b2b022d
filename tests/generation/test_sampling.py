"""The choice of tokens, against the processors of transformers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from zenith.generation.sampling import Sampling

LOGITS = (np.random.default_rng(0).normal(size=(3, 50)) * 3).astype(np.float32)
BEFORE = [np.array([1, 2, 3]), np.array([4, 4, 7]), np.array([49])]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("top_k", [None, 1, 7, 60])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.6, 1.0])
def test_probabilities_are_those_of_transformers(temperature, top_k, top_p):
    warpers = [TemperatureLogitsWarper(temperature)]
    warpers += [] if top_k is None else [TopKLogitsWarper(top_k)]
    warpers += [] if top_p is None else [TopPLogitsWarper(top_p)]
    scores = LogitsProcessorList(warpers)(torch.zeros(3, 1, dtype=torch.long), torch.from_numpy(LOGITS).double())
    expected = torch.softmax(scores, -1).numpy()
    weights = Sampling(temperature, top_k, top_p)._weights(LOGITS.astype(np.float64) / temperature)
    np.testing.assert_allclose(weights / weights.sum(-1, keepdims=True), expected, rtol=1e-9, atol=1e-12)


def test_draws_have_their_probabilities():
    generator, counts = np.random.default_rng(1), np.zeros(50)
    sampling = Sampling(temperature=2.0, top_k=5)
    for _ in range(4000):
        np.add.at(counts, sampling.choose(LOGITS[:1], BEFORE[:1], generator), 1)
    weights = sampling._weights(LOGITS[:1].astype(np.float64) / 2)[0]
    assert np.abs(counts / 4000 - weights / weights.sum()).max() < 0.03
    assert not counts[weights == 0].any()


def test_the_penalty_is_that_of_transformers():
    for row, before in zip(LOGITS, BEFORE, strict=True):
        processor = RepetitionPenaltyLogitsProcessor(1.8)
        scores = processor(torch.from_numpy(before)[None], torch.from_numpy(row)[None].clone())
        found = Sampling(repetition_penalty=1.8).choose(row[None], [before], np.random.default_rng(0))
        assert found[0] == int(scores.argmax())


def test_temperatures_near_zero_take_the_likeliest():
    found = Sampling(temperature=1e-310).choose(LOGITS, BEFORE, np.random.default_rng(0))
    np.testing.assert_array_equal(found, LOGITS.argmax(-1))


def test_a_draw_never_takes_what_weighs_nothing():
    logits = np.full((1, 8), -np.inf, np.float32)
    logits[0, 3] = 1.0
    assert Sampling(temperature=1.0).choose(logits, BEFORE[:1], np.random.default_rng(0)) == 3
