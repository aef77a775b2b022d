"""Generation by models in few bits: what they give is near the model, and near their own levels."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

import zenith
from tests.generation.models import model_of
from zenith.errors import ZenithError
from zenith.quantization.groups import in_groups

IDS = np.random.default_rng(0).integers(0, 120, (1, 20))
SIZES = {"hidden_size": 128, "intermediate_size": 192, "num_attention_heads": 2, "num_key_value_heads": 1}


@pytest.fixture(scope="module")
def model() -> Any:
    return model_of(**SIZES)


def logits(generator: zenith.Generator, ids: np.ndarray, one_by_one: int = 3) -> np.ndarray:
    """Those after all but the last few ids, and after each of these."""
    step = generator._step()
    cache = step.cache(ids.shape[1], 1)
    start, found = ids.shape[1] - one_by_one, []
    for first, last in [(0, start), *((t, t + 1) for t in range(start, ids.shape[1]))]:
        found.append(step.logits(cache, ids[:, first:last], np.ones((1, last), np.int64))[0])
    return np.array(found)


def expected(model: Any, count: int = 4) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = model(torch.from_numpy(IDS)).logits[0, -count:].numpy()
    return found


def relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("symmetric", [False, True])
def test_four_bits_are_those_of_the_levels(model, symmetric):
    """A model whose matrices are the numbers of the levels differs by what rounding activations costs."""
    levels = copy.deepcopy(model)
    for name, parameter in levels.named_parameters():
        if parameter.ndim == 2 and "embed" not in name:
            stored, groups = in_groups(parameter.detach().numpy().T, 4, 64, symmetric)
            parameter.data = torch.from_numpy(np.ascontiguousarray(groups.numbers(stored).T))
    small = zenith.quantize(model, scheme="weight_only", bits=4, granularity="group:64", symmetric=symmetric)
    assert len(small.report.products) == 15
    assert relative(logits(zenith.Generator(small), IDS), expected(levels)) < 0.03


@pytest.mark.parametrize(
    ("options", "bound"),
    [({}, 0.03), ({"granularity": "group:32"}, 0.03), ({"bits": 4, "granularity": "group:32"}, 0.35)],
)
def test_logits_are_near_the_models(model, options, bound):
    small = zenith.quantize(model, scheme="weight_only", **options)
    generator = zenith.Generator(small)
    assert relative(logits(generator, IDS), expected(model)) < bound
    found = generator.generate([[5, 6, 7], [8]], 4, stop=())
    assert found[0] == zenith.generate(small, [5, 6, 7], 4, stop=())


def test_levels_of_each_row_go_as_well(model):
    small = zenith.quantize(model, [{"input_ids": torch.from_numpy(IDS), "use_cache": False}], scheme="dynamic")
    assert relative(logits(zenith.Generator(small), IDS), expected(model)) < 0.05


def test_weights_are_released():
    own = model_of(**SIZES)
    small = zenith.quantize(own, scheme="weight_only", bits=4, granularity="group:64")
    generator = zenith.Generator(small, release_weights=True)
    first = generator.generate([5, 6, 7], 6, stop=())
    assert own.model.layers[0].mlp.up_proj.weight.is_meta and not own.model.norm.weight.is_meta
    assert generator.generate([5, 6, 7], 6, stop=()) == first
    with pytest.raises(ZenithError, match="released"):
        generator.generate([[1, 2], [3, 4]], 2)
