"""W8: a step of fine-tuning a language model of TinyLlama's architecture by low-rank adapters.

E. Hu et al., LoRA, 2021; by peft, beside the projections of queries and values: r 8, alpha 32. The model's own weights
are random and stay. Dropout is off here, since every library would draw other numbers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy

from benchmarks.workloads.descent import Descent
from benchmarks.workloads.workload import Arrays, Workload

RANK, ALPHA, RATE, SEED = 8, 32, 2e-4, 42


@dataclass(frozen=True)
class Llama:
    """A language model's sizes: ``groups`` are the heads of keys and values, ``tokens`` the vocabulary."""

    layers: int
    width: int
    middle: int
    heads: int
    groups: int
    tokens: int

    def adapters(self) -> Arrays:
        """Of each layer's projections of queries and of values, the narrow product and the wide one."""
        rng = numpy.random.default_rng(SEED)
        narrow = self.width // self.heads * self.groups
        shapes = [s for out in (self.width, narrow) for s in ((RANK, self.width), (out, RANK))] * self.layers
        return tuple((rng.standard_normal(s) / numpy.sqrt(s[-1])).astype(numpy.float32) for s in shapes)

    def torch(self, adapters: Arrays) -> Any:
        """The loss of a batch of tokens as a module, in the adapters' element type."""
        import torch
        from peft import LoraConfig, get_peft_model
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(SEED)
        config = LlamaConfig(
            hidden_size=self.width, intermediate_size=self.middle, num_hidden_layers=self.layers,
            num_attention_heads=self.heads, num_key_value_heads=self.groups, vocab_size=self.tokens, use_cache=False,
        )  # fmt: skip
        lora = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["q_proj", "v_proj"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that is on its way out
            model: Any = get_peft_model(LlamaForCausalLM(config), lora)
        learnt = [p for p in model.parameters() if p.requires_grad]
        for parameter, array in zip(learnt, adapters, strict=True):
            parameter.data.copy_(torch.from_numpy(array))

        class Loss(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model.to(torch.from_numpy(adapters[0]).dtype)

            def forward(self, tokens: torch.Tensor) -> torch.Tensor:
                loss: torch.Tensor = self.model(input_ids=tokens, labels=tokens).loss
                return loss

        return Loss()


def lora(name: str, llama: Llama, batch: int, length: int, **more: Any) -> Workload:
    """A step of fine-tuning by AdamW."""

    def tokens(seed: int) -> Arrays:
        return (numpy.random.default_rng(seed).integers(0, llama.tokens, (batch, length)),)

    return Workload(
        name=name,
        description=f"a step of fine-tuning by LoRA (r {RANK}) of a Llama: {llama.layers} layers, {llama.width} wide, "
        f"{llama.heads} heads over {llama.groups}, {llama.middle} in the middle, {llama.tokens} tokens; "
        f"batch {batch}, length {length}, AdamW",
        batches=lambda: [tokens(1)],
        first=lambda: tokens(2),
        weights=llama.adapters,
        torch=llama.torch,
        libraries=("transformers", "peft"),
        descent=Descent("adamw", rate=RATE),
        **more,
    )


TINY_LLAMA = Llama(layers=22, width=2048, middle=5632, heads=32, groups=4, tokens=32000)
TRAIN_LORA = lora("train_lora", Llama(4, 256, 704, 8, 4, 1000), batch=2, length=128)
