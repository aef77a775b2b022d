"""Language models of TinyLlama's architecture with random weights, by transformers: of its size and a small sibling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy

from benchmarks.workloads.workload import Arrays


@dataclass(frozen=True)
class Llama:
    """A language model's sizes: ``groups`` are the heads of keys and values, ``tokens`` the vocabulary."""

    layers: int
    width: int
    middle: int
    heads: int
    groups: int
    tokens: int

    def __str__(self) -> str:
        return (
            f"{self.layers} layers, {self.width} wide, {self.heads} heads over {self.groups}, {self.middle} in the "
            f"middle, {self.tokens} tokens"
        )

    def text(self, seed: int, batch: int, length: int) -> Arrays:
        """Random tokens (batch, length), as the one argument of a call."""
        return (numpy.random.default_rng(seed).integers(0, self.tokens, (batch, length)),)

    def torch(self, seed: int) -> Any:
        """The model in float32, with the weights of a seed."""
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(seed)
        config = LlamaConfig(
            hidden_size=self.width, intermediate_size=self.middle, num_hidden_layers=self.layers,
            num_attention_heads=self.heads, num_key_value_heads=self.groups, vocab_size=self.tokens,
        )  # fmt: skip
        return LlamaForCausalLM(config)


TINY_LLAMA = Llama(layers=22, width=2048, middle=5632, heads=32, groups=4, tokens=32000)
SIBLING = Llama(layers=4, width=256, middle=704, heads=8, groups=4, tokens=1000)
