"""W8: a step of fine-tuning a language model of TinyLlama's architecture by low-rank adapters.

E. Hu et al., LoRA, 2021; by peft, for the projections of queries and values: r 8, alpha 32. The model's own weights
are random and stay. Dropout is off here, since every library would draw other numbers.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy

from benchmarks.workloads.descent import Descent
from benchmarks.workloads.llama import SIBLING, Llama
from benchmarks.workloads.workload import Arrays, Workload

RANK, ALPHA, RATE, SEED = 8, 32, 2e-4, 42


def adapters(llama: Llama) -> Arrays:
    """Of each layer's projections of queries and of values, the narrow product and the wide one."""
    rng = numpy.random.default_rng(SEED)
    narrow = llama.width // llama.heads * llama.groups
    shapes = [s for out in (llama.width, narrow) for s in ((RANK, llama.width), (out, RANK))] * llama.layers
    return tuple((rng.standard_normal(s) / numpy.sqrt(s[-1])).astype(numpy.float32) for s in shapes)


def adapted(llama: Llama, arrays: Arrays) -> Any:
    """The loss of a batch of tokens as a module, in the element type of the adapters' ``arrays``."""
    import torch
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["q_proj", "v_proj"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a deprecated name
        model: Any = get_peft_model(llama.torch(SEED), config)
    learnt = [p for p in model.parameters() if p.requires_grad]
    for parameter, array in zip(learnt, arrays, strict=True):
        parameter.data.copy_(torch.from_numpy(array))

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model.to(torch.from_numpy(arrays[0]).dtype)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = self.model(input_ids=tokens, labels=tokens, use_cache=False).loss
            return loss

    return Loss()


def lora(name: str, llama: Llama, batch: int, length: int, **more: Any) -> Workload:
    """A step of fine-tuning by AdamW."""
    return Workload(
        name=name,
        description=f"a step of fine-tuning by LoRA (r {RANK}) of a Llama: {llama}; "
        f"batch {batch}, length {length}, AdamW",
        batches=lambda: [llama.text(1, batch, length)],
        first=lambda: llama.text(2, batch, length),
        weights=partial(adapters, llama),
        torch=partial(adapted, llama),
        libraries=("transformers", "peft"),
        descent=Descent("adamw", rate=RATE),
        **more,
    )


TRAIN_LORA = lora("train_lora", SIBLING, batch=2, length=128)
