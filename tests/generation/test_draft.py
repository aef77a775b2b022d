"""A draft model: the choices of single steps of the model, in fewer of them where the draft agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import zenith
from tests.generation.models import continued, model_of
from zenith.errors import ArgumentError, ValueTypeError, ZenithError
from zenith.generation.draft import Draft

PROMPT = [5, 17, 99, 3, 41, 8]


@pytest.fixture(scope="module")
def model() -> Any:
    return model_of()


@pytest.fixture(scope="module")
def near(model: Any) -> Any:
    """A model that agrees in most tokens, not in all."""
    own = model_of()
    with torch.no_grad():
        for number, weight in enumerate(own.parameters()):
            torch.manual_seed(number)
            weight += 0.3 * weight.std() * torch.randn(weight.shape) if weight.ndim == 2 else 0
    return own


@pytest.fixture(scope="module")
def far() -> Any:
    """A model that agrees in next to none."""
    return model_of("gpt2", seed=1)


@pytest.fixture(scope="module")
def generator(model: Any) -> zenith.Generator:
    return zenith.Generator(model)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("kind", ["model", "near", "far"])
def test_the_sequence_is_that_of_single_steps(model, generator, kind, count, request):
    draft = request.getfixturevalue(kind)
    found = generator.generate(PROMPT, 40, stop=(), assistant_model=draft, num_assistant_tokens=count)
    assert found == continued(model, PROMPT, 40)


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.1}, {"temperature": 0.3, "seed": 3, "top_k": 20}])
def test_choices_of_all_kinds_are_the_same(generator, near, options):
    found = generator.generate(PROMPT, 30, stop=(), assistant_model=near, **options)
    assert found == generator.generate(PROMPT, 30, stop=(), **options)


def test_prompts_with_padding(model, generator, near):
    mask = np.array([[0, 0, *[1] * len(PROMPT)]])
    ids = np.array([[7, 7, *PROMPT]])
    found = generator.generate(ids, 20, stop=(), attention_mask=mask, assistant_model=near)
    assert found[0, 2:].tolist() == continued(model, PROMPT, 20)


def test_steps_are_as_few_as_the_draft_agrees(model):
    """With itself a model agrees always: a step for the prompt, then one for every six tokens."""
    generator, draft = zenith.Generator(model), zenith.Generator(model)
    generator.generate(PROMPT, 31, stop=(), assistant_model=draft, num_assistant_tokens=5)
    single, several = (step.cache_info() for step in (generator.step, generator._step().run_every))
    assert (single.hits + single.misses, several.hits + several.misses) == (1, 5)
    drafted = draft.step.cache_info()
    assert drafted.misses == 2 and drafted.hits + drafted.misses == 25


def test_a_draft_reads_every_token_once_and_again_after_a_refusal():
    fed: list[list[int]] = []

    def logits(ids: Any, mask: Any, every: bool) -> Any:
        assert mask.shape == (1, mask.sum())
        fed.append(ids[0].tolist())
        return np.eye(20)[[ids[0, -1] + 1]]  # the next number

    draft = Draft(logits)
    assert draft(np.array([3, 7]), 3).tolist() == [8, 9, 10]
    assert draft(np.array([3, 7, 8, 12]), 2).tolist() == [13, 14]  # the second token was refused
    assert draft(np.array([3, 7, 8, 12, 13, 14, 15]), 1).tolist() == [16]  # all were right
    assert fed == [[3, 7], [8], [9], [12], [13], [14, 15]]


def test_quantised_drafts_and_streams(model, generator):
    draft = zenith.quantize(model_of(), scheme="weight_only", bits=4, granularity="group:16")
    expected = continued(model, PROMPT, 20)
    assert zenith.generate(model, PROMPT, 20, stop=(), assistant_model=draft) == expected
    end = expected[len(PROMPT) + 7]
    stream = generator.stream(np.array([PROMPT]), 20, stop=end, assistant_model=draft)
    found = [int(tokens[0]) for tokens in stream]
    assert found == expected[len(PROMPT) : expected.index(end, len(PROMPT)) + 1]


def test_a_draft_that_changes_in_the_middle_is_an_error(generator):
    draft = model_of(seed=2)
    stream = generator.stream(np.array([PROMPT]), 20, stop=(), assistant_model=draft)
    next(stream), next(stream)
    with torch.no_grad():
        draft.lm_head.weight.mul_(2)
    with pytest.raises(ZenithError, match="changed in the middle"):
        list(stream)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_assistant_tokens": 3}, "num_assistant_tokens is 3"),
        ({"num_assistant_tokens": 0, "assistant_model": 1}, "num_assistant_tokens is 0"),
        ({"prompt_lookup_num_tokens": 3, "assistant_model": 1}, "one of it and assistant_model"),
    ],
)
def test_options_that_do_not_go_together(generator, options, words):
    with pytest.raises(ArgumentError, match=words):
        generator.generate(PROMPT, 3, **options)


def test_drafts_that_cannot_propose(generator, near):
    with pytest.raises(ArgumentError, match="has 90 tokens, and the model 120"):
        generator.generate(PROMPT, 3, assistant_model=model_of(vocab_size=90))
    with pytest.raises(ArgumentError, match="16 positions"):
        generator.generate(PROMPT, 30, assistant_model=model_of(max_position_embeddings=16))
    with pytest.raises(ArgumentError, match="training mode"):
        generator.generate(PROMPT, 3, assistant_model=model_of().train())
    with pytest.raises(ArgumentError, match="assistant_model is for one prompt, and there are 2"):
        generator.generate([PROMPT, PROMPT], 3, assistant_model=near)
    with pytest.raises(ValueTypeError, match="is a name"):
        generator.generate(PROMPT, 3, assistant_model="folder")
    with pytest.raises(ValueTypeError, match="takes a causal language model"):
        generator.generate(PROMPT, 3, assistant_model=torch.nn.Linear(2, 2))
