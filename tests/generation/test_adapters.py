"""LoRA by peft in generation: the active adapter's tokens, by the programs that there are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from peft import IA3Config, LoraConfig, PromptTuningConfig, get_peft_model

import zenith
from tests.generation.models import continued, model_of
from zenith.errors import UnsupportedError, ZenithError

pytestmark = pytest.mark.filterwarnings("ignore:Already found a `peft_config`:UserWarning")
LAYERS = {"llama": "num_hidden_layers", "gpt2": "n_layer"}
PROMPTS = [[5, 6, 7, 8, 9], [11, 4]]


def adapted(name: str = "llama", ranks: tuple[int, ...] = (4, 4), **sizes: Any) -> Any:
    """A model with adapters one, two and three of these ranks, the first of which is active."""
    model: Any = None
    targets = ["c_attn"] if name == "gpt2" else ["q_proj", "v_proj", "up_proj"]
    for label, rank in zip(("one", "two", "three"), ranks, strict=False):
        torch.manual_seed(rank + len(label) + ord(label[0]))
        config = LoraConfig(r=rank, lora_alpha=16 * rank, target_modules=targets, init_lora_weights=False,
                            fan_in_fan_out=name == "gpt2", lora_dropout=0.1)  # fmt: skip
        if model is None:
            model = get_peft_model(model_of(name, **{LAYERS[name]: 1, **sizes}), config, adapter_name=label)
        else:
            model.add_adapter(label, config)
    return model.eval()


@pytest.fixture(scope="module")
def model() -> Any:
    return adapted()


@pytest.fixture(scope="module")
def generator(model: Any) -> zenith.Generator:
    model.set_adapter("one")
    made = zenith.Generator(model)
    assert_own_tokens(made, model)
    return made


def assert_own_tokens(generator: zenith.Generator, model: Any) -> list[list[int]]:
    """The generator's sequences are those of the model as it is, which are returned."""
    found: Any = generator.generate(PROMPTS, 8, stop=())
    assert found == [continued(model, prompt, 8) for prompt in PROMPTS]
    return found


def test_an_adapter_in_the_place_of_another_compiles_nothing(model, generator):
    model.set_adapter("one")
    step, first = generator.step, assert_own_tokens(generator, model)
    model.set_adapter("two")
    second = assert_own_tokens(generator, model)
    model.set_adapter("one")
    assert assert_own_tokens(generator, model) == first != second
    assert generator.step is step and step.cache_info().misses == 2


def test_weights_of_adapters_that_change_and_adapters_that_come_later(model, generator, tmp_path):
    model.set_adapter("two")
    step, before = generator.step, assert_own_tokens(generator, model)
    model.save_pretrained(tmp_path, selected_adapters=["two"])
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B.two" in name:
                parameter.mul_(-3)
    assert assert_own_tokens(generator, model) != before
    model.load_adapter(tmp_path / "two", "loaded")
    model.set_adapter("loaded")
    assert assert_own_tokens(generator, model) == before
    model.set_adapter("one")
    model.delete_adapter("loaded")
    assert_own_tokens(generator, model)
    assert generator.step is step and step.cache_info().misses == 2


def test_other_states_have_programs_of_their_own_that_are_kept(model, generator):
    model.set_adapter("one")
    found, steps = [], []
    for _ in range(2):
        found.append(assert_own_tokens(generator, model))
        steps.append(generator.step)
        with model.disable_adapter():
            found.append(assert_own_tokens(generator, model))
            steps.append(generator.step)
    assert found[0] == found[2] != found[1] == found[3]
    assert steps[0] is steps[2] is not steps[1] is steps[3] and steps[1].cache_info().misses == 2
    layer = model.base_model.model.model.layers[0].self_attn.q_proj
    layer.scaling["one"] *= -2
    assert assert_own_tokens(generator, model) != found[0]
    layer.scaling["one"] /= -2
    assert assert_own_tokens(generator, model) == found[0] and generator.step is steps[0]


def test_other_ranks_and_several_active_adapters():
    model = adapted(ranks=(4, 2, 4))
    generator = zenith.Generator(model)
    for active in (["two"], ["one", "two"], ["three", "two"]):
        model.base_model.set_adapter(active)
        assert_own_tokens(generator, model)
    model.merge_adapter()
    assert_own_tokens(generator, model)


def test_streams_of_two_adapters_in_turns(model, generator):
    expected, streams = [], []
    for name in ("one", "two"):
        model.set_adapter(name)
        expected.append(continued(model, PROMPTS[0], 6)[len(PROMPTS[0]) :])
        streams.append(generator.stream(PROMPTS[0], 6, stop=()))
    found: list[list[int]] = [[], []]
    for _ in range(6):
        for number, name in enumerate(("one", "two")):
            model.set_adapter(name)
            found[number].append(int(next(streams[number])[0]))
    assert found == expected
    model.set_adapter("one")
    stream = generator.stream(PROMPTS[0], 6, stop=())
    next(stream)
    model.set_adapter("two")
    with pytest.raises(ZenithError, match="in the middle of a sequence"):
        next(stream)


def test_learned_positions_behind_the_wrapper():
    """What a wrapper is given as keywords reaches the model: positions that leave out padding."""
    assert_own_tokens(zenith.Generator(model := adapted("gpt2")), model)

    class Wrapper(torch.nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.config = inner, inner.config

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return self.inner(*args, **kwargs)

    inner = model_of("gpt2", n_layer=1)
    found = zenith.generate(Wrapper(inner).eval(), PROMPTS, 8, stop=())
    assert found == [continued(inner, prompt, 8) for prompt in PROMPTS]


def test_hooks_on_the_wrapper_count():
    model = adapted()
    generator = zenith.Generator(model)
    before = assert_own_tokens(generator, model)

    def negated(module: Any, args: Any, result: Any) -> Any:
        return type(result)(logits=-result.logits, past_key_values=result.past_key_values)

    hook = model.register_forward_hook(negated)
    assert generator.generate(PROMPTS, 8, stop=()) != before
    hook.remove()
    assert assert_own_tokens(generator, model) == before


def test_adapters_in_the_model_itself():
    """By the methods of transformers, without a wrapper of peft's."""
    model = model_of(num_hidden_layers=1)
    generator = zenith.Generator(model)
    base = assert_own_tokens(generator, model)
    for name in ("one", "two"):
        torch.manual_seed(len(name) + ord(name[0]))
        config = LoraConfig(r=4, lora_alpha=64, target_modules=["q_proj", "up_proj"], init_lora_weights=False)
        try:
            model.add_adapter(config, adapter_name=name)
        except ValueError as error:  # transformers 5.24 asks for a version that peft does not have yet
            if "not compatible" not in str(error):
                raise
            pytest.skip(str(error))
    model.eval()
    found = []
    for name in ("one", "two"):
        model.set_adapter(name)
        found.append(assert_own_tokens(generator, model))
    assert found[0] != found[1] and generator.step.cache_info().misses == 2
    model.disable_adapters()
    assert assert_own_tokens(generator, model) == base


def test_adapters_of_other_kinds():
    config = IA3Config(
        target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], init_ia3_weights=False
    )
    model = get_peft_model(model_of(num_hidden_layers=1), config, adapter_name="one")
    model.add_adapter("two", config)
    generator = zenith.Generator(model.eval())
    found = []
    for name in ("one", "two"):
        model.set_adapter(name)
        found.append(assert_own_tokens(generator, model))
    assert found[0] != found[1]
    virtual = get_peft_model(
        model_of(num_hidden_layers=1), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=4)
    ).eval()
    with pytest.raises(UnsupportedError, match="PROMPT_TUNING"):
        zenith.generate(virtual, PROMPTS[0])


def test_a_quantised_adapter_is_that_of_its_time():
    model = adapted(hidden_size=64, intermediate_size=96)
    small = zenith.quantize(model, scheme="weight_only")
    generator = zenith.Generator(small)
    assert len(generator.generate(PROMPTS[0], 3, stop=())) == 8
    model.set_adapter("two")
    for _ in range(2):
        with pytest.raises(ZenithError, match="changed since it was quantised"):
            generator.generate(PROMPTS[0], 3, stop=())
