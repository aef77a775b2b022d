"""Families of language models from small configurations: one compilation, two shapes, as near to float64 as PyTorch.

Three of them are in every run; the others, and compiled ones, are longer tests.
"""

import pytest
import torch

import zenith
from tests.torch.test_models import check, text, transformers  # noqa: F401 (a fixture)

SMALL = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99, "num_hidden_layers": 1}
DECODER = SMALL | {"use_cache": False}
GROUPED = DECODER | {"num_key_value_heads": 2}
HEADS = GROUPED | {"head_dim": 8}
OLD = {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 99, "use_cache": False}
BOTH = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": 99, "max_position_embeddings": 64, "use_cache": False,
}  # fmt: skip
T5 = {
    "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 99, "use_cache": False,
    "decoder_start_token_id": 0,
}  # fmt: skip

ENCODERS = {
    "Bert": SMALL, "Roberta": SMALL, "XLMRoberta": SMALL, "Camembert": SMALL, "Ernie": SMALL, "MPNet": SMALL,
    "LayoutLM": SMALL, "Electra": SMALL | {"embedding_size": 16}, "Albert": SMALL | {"embedding_size": 16},
    "DistilBert": {"dim": 32, "n_heads": 4, "hidden_dim": 64, "n_layers": 1, "vocab_size": 99}, "Deberta": SMALL,
    "DebertaV2": SMALL, "RoFormer": SMALL | {"embedding_size": 32},
    "ModernBert": SMALL | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
                           "sep_token_id": 2},
}  # fmt: skip
DECODERS = {
    "GPT2": OLD, "GPTJ": OLD | {"rotary_dim": 4}, "CodeGen": OLD | {"rotary_dim": 4}, "GPTNeoX": DECODER,
    "GPTNeo": {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 99, "intermediate_size": 64,
               "attention_types": [[["global", "local"], 1]], "use_cache": False},
    "OPT": {"hidden_size": 32, "num_attention_heads": 4, "ffn_dim": 64, "vocab_size": 99, "num_hidden_layers": 1,
            "word_embed_proj_dim": 32, "use_cache": False, "pad_token_id": 1},
    "Llama": GROUPED, "Mistral": GROUPED, "Qwen2": GROUPED, "Qwen3": HEADS, "Gemma": HEADS, "Gemma2": HEADS,
    "Gemma3Text": HEADS, "Phi": DECODER, "Phi3": GROUPED | {"pad_token_id": 0}, "StableLm": GROUPED, "Cohere": GROUPED,
}  # fmt: skip
TRANSLATORS = {"T5": T5, "Bart": BOTH}
FAMILIES = ENCODERS | DECODERS | TRANSLATORS
IN_EVERY_RUN = ("Electra", "OPT", "Bart")


def build(library, name):
    """A model of random weights, always the same."""
    torch.manual_seed(0)
    return getattr(library, f"{name}Model")(getattr(library, f"{name}Config")(**FAMILIES[name])).eval()


def arguments(name, batch, length):
    """Tokens and their mask; a translator's decoder gets the same tokens."""
    given = text(batch, length)
    return given | ({"decoder_input_ids": given["input_ids"]} if name in TRANSLATORS else {})


def compare(library, name, backend):
    module = build(library, name)
    fast = zenith.from_torch(module, (), arguments(name, 2, 7), backend=backend)
    for batch, length in ((2, 7), (3, 5)):
        check(fast, module, **arguments(name, batch, length))
    assert fast.cache_info().misses == 1


def families():
    return [pytest.param(n, marks=() if n in IN_EVERY_RUN else pytest.mark.thorough) for n in FAMILIES]


@pytest.mark.parametrize("name", families())
def test_families(transformers, name):  # noqa: F811
    compare(transformers, name, "reference")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["Albert", "GPTNeoX", "T5"])
def test_compiled_families(transformers, name):  # noqa: F811
    compare(transformers, name, None)
