"""``model.generate`` over a compiled forward: the tokens of the model, and a program for each graph of TorchDynamo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo import lookup_backend

import zenith
from tests.generation.models import model_of

pytestmark = [pytest.mark.usefixtures("fresh_compiler"), pytest.mark.thorough]
SIZES = [(1, 3), (1, 5), (1, 9), (2, 4), (2, 7), (3, 5)]  # batches and lengths


def sequences(backend: Callable[..., Any], cache: str | None) -> tuple[list[list[list[int]]], list[int]]:
    """What ``generate`` gives for prompts of all sizes, and how many graphs there were after each."""
    torch.compiler.reset()
    model, graphs = model_of(num_hidden_layers=1), [0]

    def counted(graph: Any, examples: Any) -> Any:
        graphs[0] += 1
        return backend(graph, examples)

    model.forward = torch.compile(model.forward, backend=counted)
    found, counts = [], []
    for batch, length in SIZES:
        ids = torch.arange(batch * length).reshape(batch, length) + 3
        more = {} if cache is None else {"cache_implementation": cache}
        found.append(model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False, eos_token_id=None,
            pad_token_id=0, disable_compile=True, **more,
        ).tolist())  # fmt: skip
        counts.append(graphs[0])
    return found, counts


@pytest.mark.parametrize("cache", [None, "static"])
def test_programs_are_as_many_as_graphs(cache):
    """These are as many as with any backend: lengths and batches compile no more than TorchDynamo does."""
    expected = sequences(lambda graph, examples: graph.forward, cache)
    found = sequences(lookup_backend("zenith"), cache)
    assert found == expected
    assert [g.cache_info().misses for g in zenith.torch.graphs()] == [1] * expected[1][-1]
