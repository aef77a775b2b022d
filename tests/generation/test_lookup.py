"""Tokens that are looked up in the sequence: the choices of single steps, in fewer where text repeats itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zenith
from tests.generation.models import continued, model_of
from zenith.errors import ArgumentError
from zenith.generation.lookup import looked_up

PROMPT = [5, 17, 99, 3, 41, 8, 5, 17, 99, 3]


@pytest.fixture(scope="module")
def model() -> Any:
    return model_of(num_hidden_layers=1)


@pytest.fixture(scope="module")
def generator(model: Any) -> zenith.Generator:
    return zenith.Generator(model)


@pytest.mark.parametrize(
    ("ids", "most", "expected"),
    [
        ([7, 1, 2, 3, 4, 9, 1, 2], 2, [3, 4]),
        ([1, 2, 8, 1, 2, 9, 9, 1, 2], 2, [9, 9]),  # the latest place
        ([6, 1, 2, 8, 8, 1, 2, 9, 6, 1, 2], 2, [8, 8]),  # that of three tokens before that of two
        ([4, 4, 4, 4, 4, 4], 2, [4, 4]),
        ([4, 4, 4, 4], 5, [4]),
        ([1, 2, 1, 3], 2, []),
        ([1], 2, []),
    ],
)
def test_what_followed_before(ids, most, expected):
    assert looked_up(np.array(ids), most).tolist() == expected


@pytest.mark.parametrize("most", [1, 4])
def test_the_sequence_is_that_of_single_steps(model, generator, most):
    found = generator.generate(PROMPT, 40, stop=(), prompt_lookup_num_tokens=most)
    assert found == continued(model, PROMPT, 40)


def test_steps_are_fewer_and_one_program_serves_all_numbers_of_tokens(model):
    generator = zenith.Generator(model)
    for prompt in (PROMPT, PROMPT[:3] * 4):
        generator.generate(prompt, 40, stop=(), prompt_lookup_num_tokens=6)
    single, several = (step.cache_info() for step in (generator.step, generator._step().run_every))
    assert single.misses == 2 and several.misses == 1
    assert sum(info.hits + info.misses for info in (single, several)) < 2 * 40 - 10


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.1}, {"temperature": 0.3, "seed": 3, "top_k": 20}])
def test_choices_of_all_kinds_are_the_same(generator, options):
    found = generator.generate(PROMPT, 30, stop=(), prompt_lookup_num_tokens=4, **options)
    assert found == generator.generate(PROMPT, 30, stop=(), **options)


def test_sequences_end_among_looked_up_tokens(model, generator):
    whole = continued(model, PROMPT, 40)[len(PROMPT) :]
    for end in dict.fromkeys(whole):
        options: dict[str, Any] = {"stop": end, "prompt_lookup_num_tokens": 5}
        expected = whole[: whole.index(end) + 1]
        assert generator.generate(PROMPT, 40, **options) == PROMPT + expected
        assert [int(t[0]) for t in generator.stream(np.array([PROMPT]), 40, **options)] == expected
    for count in (1, 2, 3):
        found = generator.generate(PROMPT, count, stop=(), prompt_lookup_num_tokens=5)
        assert found == PROMPT + whole[:count]


def test_windows_and_learned_positions():
    for name in ("mistral", "gpt2"):
        model = model_of(name)
        found = zenith.generate(model, PROMPT, 30, stop=(), prompt_lookup_num_tokens=5)
        assert found == continued(model, PROMPT, 30)


def test_weights_are_released_once_all_programs_are_there():
    own = model_of(hidden_size=64, intermediate_size=96, num_hidden_layers=1)
    expected = continued(own, PROMPT, 30)
    generator = zenith.Generator(own, release_weights=True)
    generator.generate([7, 8], 1, stop=(), prompt_lookup_num_tokens=4)
    for _ in range(2):
        assert generator.generate(PROMPT, 30, stop=(), prompt_lookup_num_tokens=4) == expected
    assert own.lm_head.weight.is_meta


@pytest.mark.parametrize("most", [0, 2.5, "many", True])
def test_numbers_of_tokens(generator, most):
    with pytest.raises(ArgumentError, match="prompt_lookup_num_tokens is"):
        generator.generate(PROMPT, 3, prompt_lookup_num_tokens=most)
    with pytest.raises(ArgumentError, match="for one prompt, and there are 2"):
        generator.generate([PROMPT, PROMPT], 3, prompt_lookup_num_tokens=3)
