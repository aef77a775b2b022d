"""``zenith.generate``: the sequences of the model's own ``generate``, by few programs, for any prompts."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, T5ForConditionalGeneration

import zenith
from tests.generation.models import ARCHITECTURES, TOKENS, continued, model_of
from zenith.errors import ArgumentError, UnsupportedError, ValueTypeError, ZenithError

PROMPT = [5, 17, 99, 3, 41, 8]
PROMPTS = [[5, 6, 7, 8, 9], [11, 4], [71, 12, 13, 14, 15, 16, 17, 18]]


@pytest.fixture(scope="module")
def model() -> Any:
    return model_of()


@pytest.fixture(scope="module")
def generator(model: Any) -> zenith.Generator:
    return zenith.Generator(model)


def test_the_sequence_is_that_of_the_model(model, generator):
    assert generator.generate(PROMPT, 12, stop=()) == continued(model, PROMPT, 12)


def test_prompts_of_any_lengths(model, generator):
    found = generator.generate(PROMPTS, 9, stop=())
    assert found == [continued(model, prompt, 9) for prompt in PROMPTS]


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_arrays_of_ids_with_a_mask(model, generator, kind):
    ids, mask = kind([[5, 6, 7], [0, 11, 4]]), kind([[1, 1, 1], [0, 1, 1]])
    found = generator.generate(ids, 5, attention_mask=mask, stop=())
    assert type(found) is type(ids) and found.dtype == ids.dtype and found.shape == (2, 8)
    assert found[0].tolist() == continued(model, [5, 6, 7], 5)
    assert found[1].tolist() == [0, *continued(model, [11, 4], 5)]


def test_one_row_of_ids(model, generator):
    found = generator.generate(np.array(PROMPT, np.int32), 3, stop=())
    assert found.dtype == np.int32 and found.tolist() == continued(model, PROMPT, 3)


def test_two_programs_for_one_sequence_and_two_for_several(model):
    generator = zenith.Generator(model)
    for length in (1, 2, 5, 17):
        prompt = list(range(3, 3 + length))
        assert generator.generate(prompt, 4 + length, stop=()) == continued(model, prompt, 4 + length)
    assert generator.step.cache_info().misses == 2
    for batch in (2, 3):
        found = generator.generate([PROMPT] * batch, 4, stop=())
        assert found == [continued(model, PROMPT, 4)] * batch
    assert generator.step.cache_info().misses == 4


def test_logits_are_those_of_the_model(model, generator):
    """Of each step, against a single pass over the whole sequence."""
    whole = np.array([continued(model, PROMPT, 10)])
    step = generator._step()
    cache = step.cache(whole.shape[1], 1)
    with torch.no_grad():
        expected = model(torch.from_numpy(whole)).logits[0].double().numpy()
    for time, read in [(6, 0), *((t + 1, t) for t in range(6, 16))]:
        logits = step.logits(cache, whole[:, read:time], np.ones((1, time), np.int64))
        error = np.mean((logits[0] - expected[time - 1]) ** 2) / np.mean(expected[time - 1] ** 2)
        assert error < 1e-10


@pytest.mark.thorough
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(name):
    model = model_of(name)
    found = zenith.generate(model, PROMPTS, 8, stop=())
    assert found == [continued(model, prompt, 8) for prompt in PROMPTS]
    assert zenith.generate(model, PROMPT, 8, stop=()) == continued(model, PROMPT, 8)


@pytest.mark.parametrize("name", ["gpt2", "gemma3_text"])
def test_learned_positions_and_sliding_windows(name):
    model = model_of(name)
    found = zenith.generate(model, [PROMPT, [9, 4]], 8, stop=())
    assert found == [continued(model, PROMPT, 8), continued(model, [9, 4], 8)]


def test_sequences_end_at_their_own_tokens(model, generator):
    first, second = (continued(model, prompt, 9) for prompt in PROMPTS[:2])
    end = first[len(PROMPTS[0]) + 2]  # at the third token of the first prompt
    found = generator.generate(PROMPTS[:2], 9, stop=end)
    assert found[0] == first[: first.index(end, len(PROMPTS[0])) + 1]
    rest = second[len(PROMPTS[1]) :]
    assert found[1] == (second[: len(PROMPTS[1]) + rest.index(end) + 1] if end in rest else second)
    padded = generator.generate(np.array([PROMPTS[0]]), 9, stop=[end])
    assert padded.tolist() == [found[0]]


def test_the_models_own_end_stops(model):
    own = copy.deepcopy(model)
    own.generation_config.eos_token_id = continued(model, PROMPT, 2)[-1]
    assert zenith.generate(own, PROMPT, 9) == continued(model, PROMPT, 2)


def test_streams_are_the_same_tokens_as_they_come(generator):
    tokens = [int(t[0]) for t in generator.stream(PROMPT, 7, stop=())]
    assert PROMPT + tokens == generator.generate(PROMPT, 7, stop=())
    started = generator.stream(PROMPT, 7, stop=())
    assert int(next(started)[0]) == tokens[0]
    started.close()


def test_a_repetition_penalty_is_that_of_transformers(model, generator):
    found = generator.generate(PROMPTS, 8, repetition_penalty=1.7, stop=())
    assert found == [continued(model, prompt, 8, repetition_penalty=1.7) for prompt in PROMPTS]


def test_draws_repeat_by_their_seed(generator):
    draws = [generator.generate(PROMPT, 20, temperature=1.5, seed=seed, stop=()) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert generator.generate(PROMPT, 5, temperature=0.5, top_k=1, stop=()) == generator.generate(PROMPT, 5, stop=())


def test_changes_of_weights_are_followed_without_compiling(model):
    own = copy.deepcopy(model)
    generator = zenith.Generator(own)
    before = generator.generate(PROMPT, 6, stop=())
    with torch.no_grad():
        own.lm_head.weight.mul_(-1)
    assert generator.generate(PROMPT, 6, stop=()) == continued(own, PROMPT, 6) != before
    own.load_state_dict(model_of(seed=1).state_dict())
    assert generator.generate(PROMPT, 6, stop=()) == continued(own, PROMPT, 6)
    assert generator.step.cache_info().misses == 2


@pytest.mark.parametrize("change", ["weights", "mode"])
def test_a_sequence_has_one_model(model, change):
    """Keys and values of a cache go with the weights that made them."""
    own = copy.deepcopy(model)
    generator = zenith.Generator(own)
    stream = generator.stream(PROMPT, 6, stop=())
    for _ in range(2):
        next(stream)
    if change == "weights":
        with torch.no_grad():
            own.lm_head.weight.mul_(-1)
        assert generator.generate(PROMPT, 3, stop=()) == continued(own, PROMPT, 3)
    else:
        own.train()
    with pytest.raises(ZenithError, match="in the middle of a sequence"):
        next(stream)


def test_weights_that_nobody_can_watch(model):
    """NumPy may write to these at any time, unseen: a sequence takes them as they are at its beginning."""
    own = copy.deepcopy(model)
    generator = zenith.Generator(own)
    assert generator.generate(PROMPT, 6, stop=()) == continued(own, PROMPT, 6)
    array = own.lm_head.weight.detach().numpy()
    for _ in range(2):
        array *= -1
        assert generator.generate(PROMPT, 6, stop=()) == continued(own, PROMPT, 6)


@pytest.mark.parametrize("pad", [-1, TOKENS, 5000])
def test_padding_that_is_no_token_of_the_model(model, generator, pad):
    own = copy.deepcopy(model)
    own.generation_config.pad_token_id = pad
    end = continued(model, PROMPT, 2)[-1]
    found = zenith.generate(own, np.array([PROMPT, PROMPT[::-1]]), 6, stop=end, repetition_penalty=1.1)
    assert found[0, len(PROMPT) + 2 :].tolist() == [pad] * 4
    assert found[1].tolist() == generator.generate(PROMPT[::-1], 6, stop=(), repetition_penalty=1.1)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_frequencies_that_change_with_the_length_are_refused(kind):
    more = {"dynamic": {}, "longrope": {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4,
                                        "original_max_position_embeddings": 8}}  # fmt: skip
    rope = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0, **more[kind]}
    with pytest.raises(UnsupportedError, match=kind):
        zenith.generate(model_of(rope_parameters=rope), PROMPT)


def test_attributes_and_hooks_of_the_model_are_followed(model):
    own = copy.deepcopy(model)
    generator = zenith.Generator(own)
    before = generator.generate(PROMPT, 6, stop=())
    own.model.layers[0].self_attn.scaling = 3.0
    assert generator.generate(PROMPT, 6, stop=()) == continued(own, PROMPT, 6)
    own.model.layers[0].self_attn.scaling = model.model.layers[0].self_attn.scaling
    assert generator.generate(PROMPT, 6, stop=()) == before


def test_quantised_weights_are_those_of_their_time(model):
    own = copy.deepcopy(model)
    generator = zenith.Generator(zenith.quantize(own, scheme="weight_only"))
    generator.generate(PROMPT, 2, stop=())
    with torch.no_grad():
        own.lm_head.weight.mul_(2)
    with pytest.raises(ZenithError, match="changed since it was quantised"):
        generator.generate(PROMPT, 2)


def test_narrow_ids_widen_and_the_last_position_counts(model):
    found = zenith.generate(model, np.array(PROMPT, np.uint8), 3, stop=())
    assert found.dtype == np.int64 and found.tolist() == continued(model, PROMPT, 3)
    short = model_of("gpt2", n_positions=8)
    assert zenith.generate(short, PROMPT, 3, stop=()) == continued(short, PROMPT, 3)
    with pytest.raises(ArgumentError, match="8 positions"):
        zenith.generate(short, PROMPT, 4)


def test_options_that_there_are_not_and_logits_that_are_no_numbers(model, generator):
    with pytest.raises(ArgumentError, match="temprature"):
        generator.generate(PROMPT, 2, temprature=1.0)
    own = copy.deepcopy(model)
    with torch.no_grad():
        own.lm_head.weight[3] = np.nan
    with pytest.raises(ArgumentError, match="nan"):
        zenith.generate(own, PROMPT, 2, temperature=1.0)


def test_programs_are_kept_with_the_model_but_not_copied(model):
    zenith.generate(model, PROMPT, 2)
    known = model.__dict__["_zenith_generators"].by_precision["exact"]
    zenith.generate(model, PROMPT, 3)
    assert model.__dict__["_zenith_generators"].by_precision["exact"] is known
    shallow = copy.copy(model)
    zenith.generate(shallow, PROMPT, 1)
    assert shallow.__dict__["_zenith_generators"].by_precision["exact"] is not known
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert zenith.generate(copied, PROMPT, 4, stop=()) == continued(model, PROMPT, 4)


def test_weights_are_released_when_asked():
    own = model_of(hidden_size=64, intermediate_size=96)
    expected, other = continued(own, PROMPT, 6), continued(own, PROMPTS[0], 6)
    generator = zenith.Generator(own, release_weights=True)
    assert generator.generate(PROMPT, 6, stop=()) == expected
    assert own.lm_head.weight.is_meta and own.model.layers[0].mlp.up_proj.weight.is_meta
    assert generator.generate(PROMPTS[0], 6, stop=()) == other
    with pytest.raises(ZenithError, match="released"):
        generator.generate(PROMPTS, 6)


@pytest.mark.parametrize(("precision", "short"), [("bf16", "bf16["), ("fp16", ": f16[")])
def test_products_are_rounded(model, precision, short):
    generator = zenith.Generator(model_of(hidden_size=64), precision=precision)
    assert len(generator.generate(PROMPT, 4, stop=())) == 10
    assert short in str(generator.step.show("optimized"))


def test_a_folder(model, tmp_path):
    model.save_pretrained(tmp_path / "whole")
    assert zenith.Generator(tmp_path / "whole").generate(PROMPT, 5, stop=()) == continued(model, PROMPT, 5)
    with pytest.raises(ArgumentError, match=r"no config\.json"):
        zenith.Generator(str(tmp_path))
    weights = load_file(tmp_path / "whole" / "model.safetensors")
    old = {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": torch.ones(4) for n in range(2)}
    save_file(weights | old, tmp_path / "whole" / "model.safetensors", metadata={"format": "pt"})
    assert zenith.Generator(tmp_path / "whole").generate(PROMPT, 5, stop=()) == continued(model, PROMPT, 5)
    for name, change, what in (
        ("less", lambda w: w.pop("model.norm.weight"), r"1 missing \(model\.norm\.weight"),
        ("more", lambda w: w.update(other=torch.ones(2)), r"1 surplus \(other"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text((tmp_path / "whole" / "config.json").read_text())
        changed = dict(weights)
        change(changed)
        save_file(changed, tmp_path / name / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ArgumentError, match=what):
            zenith.Generator(tmp_path / name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_in_16_bits(dtype):
    """Their cache is in 16 bits, too; PyTorch rounds at other places."""
    model = model_of(hidden_size=64).to(dtype)
    generator = zenith.Generator(model)
    ids = np.array([[5, 17, 99, 3, 41, 8]])
    step = generator._step()
    cache = step.cache(6, 1)
    assert cache[0][0].dtype.itemsize == 2
    step.logits(cache, ids[:, :5], np.ones((1, 5), np.int64))
    found = step.logits(cache, ids[:, 5:], np.ones((1, 6), np.int64))
    with torch.no_grad():
        exact = model.float()(torch.from_numpy(ids)).logits[:, -1].numpy()
    assert found.dtype == np.float32
    assert np.linalg.norm(found - exact) / np.linalg.norm(exact) < 0.03


@pytest.mark.parametrize(
    ("ids", "options", "what"),
    [
        ([[TOKENS]], {}, "prompt 0 has the ids 120 to 120"),
        ([[1], [-1]], {}, "prompt 1 has the ids"),
        ([[1], []], {}, "prompt 1 has no token"),
        ([], {}, "no token"),
        (PROMPT, {"max_new_tokens": 0}, "max_new_tokens is 0"),
        (PROMPT, {"temperature": -1}, "temperature is -1"),
        (PROMPT, {"top_k": 3}, "temperature 0"),
        (PROMPT, {"temperature": 1.0, "top_k": 0}, "top_k is 0"),
        (PROMPT, {"temperature": 1.0, "top_p": 1.5}, "top_p is 1.5"),
        (PROMPT, {"repetition_penalty": 0}, "repetition_penalty is 0"),
        (PROMPT, {"max_new_tokens": 5000}, "2048 positions"),
        (PROMPT, {"stop": ["a"]}, "stop is"),
        (PROMPT, {"seed": -1}, "seed is -1"),
        (PROMPT, {"attention_mask": [1]}, "needs no attention_mask"),
        (np.array([PROMPT]), {"attention_mask": np.ones((1, 2))}, "mask"),
        (np.array([PROMPT]), {"attention_mask": np.full((1, 6), 0.5)}, "other values than 0 and 1"),
        (PROMPT, {"max_new_tokens": True}, "max_new_tokens is True"),
        (PROMPT, {"max_new_tokens": 10**30}, "2048 positions"),
        (PROMPT, {"temperature": "hot"}, "temperature is 'hot'"),
        (PROMPT, {"temperature": None}, "temperature is None"),
        (PROMPT, {"temperature": 1.0, "top_k": 2.5}, r"top_k is 2\.5"),
        (PROMPT, {"temperature": 1.0, "top_p": "5"}, "top_p is '5'"),
        (PROMPT, {"repetition_penalty": None}, "repetition_penalty is None"),
        (PROMPT, {"seed": 1.5}, r"seed is 1\.5"),
        (PROMPT, {"stop": 1.5}, r"stop is 1\.5"),
    ],
)
def test_what_cannot_be_is_named(model, ids, options, what):
    with pytest.raises(ArgumentError, match=what) as error:
        zenith.generate(model, ids, **options)
    assert "test_generate.py" in str(error.value)


@pytest.mark.parametrize("ids", [1.5, "words", [[1.5]], np.zeros((1, 3)), [5, [6]], [5, None]])
def test_ids_are_integers(model, ids):
    with pytest.raises(ValueTypeError, match="ids are"):
        zenith.generate(model, ids)


def test_models_are_causal_language_models_in_evaluation(model):
    encoder = AutoConfig.for_model("t5", d_model=8, num_layers=1, num_heads=1, d_ff=8, d_kv=8, vocab_size=50)
    compiled = zenith.from_torch(torch.nn.Linear(2, 2), (torch.zeros(1, 2),))
    for other in (torch.nn.Linear(2, 2), None, type(model), compiled, T5ForConditionalGeneration(encoder)):
        with pytest.raises(ValueTypeError, match="causal language model"):
            zenith.generate(other, PROMPT)
    with pytest.raises(ValueTypeError, match=r"zenith\.Generator\(path\)"):
        zenith.generate("folder", PROMPT)
    with pytest.raises(ArgumentError, match="precision"):
        zenith.generate(model, PROMPT, precision="fp8")
    with pytest.raises(UnsupportedError, match="no language model"):
        x = np.ones((2, 8), np.float32)
        zenith.generate(zenith.quantize(lambda x: x @ np.eye(8, dtype=np.float32), [x]), PROMPT)
    with pytest.raises(UnsupportedError, match="writes no keys and values"):
        zenith.generate(model_of("mamba", hidden_size=32, num_hidden_layers=1, state_size=8), PROMPT)
    training = copy.deepcopy(model).train()
    with pytest.raises(ArgumentError, match=r"model\.eval\(\)"):
        zenith.generate(training, PROMPT)


def test_a_folder_of_tied_weights_and_old_buffers(tmp_path):
    model = model_of("gpt2", n_layer=1)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights |= {"lm_head.weight": weights["transformer.wte.weight"].clone(),
                "transformer.h.0.attn.masked_bias": torch.tensor(-1e4)}  # fmt: skip
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert zenith.Generator(tmp_path).generate(PROMPT, 3, stop=()) == continued(model, PROMPT, 3)
