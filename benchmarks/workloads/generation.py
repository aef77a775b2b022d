"""W10 and W11: greedy generation by a language model, a token at a time, over a cache of keys and values.

The prompt's pass is eager for everybody; the step that decodes one token, called again and again, is what is compiled.
The results are the logits of every step, so that what is checked is more than which token had the largest.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.workloads.llama import SIBLING, Llama
from benchmarks.workloads.workload import Arrays, Workload

SEED = 42
PROMPT, NEW = 28, 100


def generator(llama: Llama, weights: Arrays) -> Any:
    """Tokens (1, PROMPT) to the logits (NEW, tokens) of those that follow, as a module with a ``step``."""
    import torch
    from transformers import StaticCache

    from zenith.torch.decoder import cache_keyword

    model = llama.torch(SEED)
    keyword = cache_keyword(model)
    cache: Any = StaticCache(model.config, max_cache_len=PROMPT + NEW)

    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, token: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.model(token, **{keyword: cache}).logits[:, -1]
            return logits

    class Generator(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prompt, self.step = Step(), Step()

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            cache.reset()
            found = [self.prompt(tokens)]
            for _ in range(NEW - 1):
                found.append(self.step(found[-1].argmax(-1, keepdim=True)))
            return torch.cat(found)

    return Generator()


def generation(name: str, llama: Llama, **more: Any) -> Workload:
    """Greedy, batch 1."""
    return Workload(
        name=name,
        description=f"{NEW} tokens after a prompt of {PROMPT}, greedy, batch 1, with a static cache, "
        f"by a Llama: {llama}",
        batches=lambda: [llama.text(1, 1, PROMPT)],
        first=lambda: llama.text(2, 1, PROMPT),
        torch=partial(generator, llama),
        part="step",
        libraries=("transformers",),
        **more,
    )


GENERATE = generation("generate", SIBLING)
