"""Causal language models of any architecture, small and with random weights."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

TOKENS = 120
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPS = {**SIZES, "num_key_value_heads": 2}
SLIDING = {**GROUPS, "sliding_window": 4}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": GROUPS,
    "mistral": SLIDING,
    "qwen2": GROUPS,
    "qwen3": {**GROUPS, "head_dim": 16},
    "gemma2": {**SLIDING, "head_dim": 8},
    "gemma3_text": {**SLIDING, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"]},
    "phi": SIZES,
    "phi3": {**SIZES, "pad_token_id": 0},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "gpt_neo": {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]],
                "window_size": 4, "max_position_embeddings": 64},
    "gpt_neox": SIZES,
    "opt": {"hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 64, "word_embed_proj_dim": 32},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "falcon": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "olmo2": {**SIZES, "pad_token_id": 0},
    "stablelm": {**SIZES, "num_key_value_heads": 4},
    "starcoder2": GROUPS,
    "cohere": GROUPS,
}  # fmt: skip


def model_of(name: str = "llama", seed: int = 0, **more: Any) -> Any:
    """A model of an architecture, in evaluation."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": TOKENS, **ARCHITECTURES.get(name, {}), **more}
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **sizes)).eval()


def continued(model: Any, prompt: list[int], count: int, **options: Any) -> list[int]:
    """What the model's own ``generate`` makes of a prompt, without an end."""
    ids = torch.tensor([prompt])
    found: list[int] = model.generate(
        ids, max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0, **options
    )[0].tolist()
    return found
