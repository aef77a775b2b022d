"""Fine-tuning by LoRA: a small sibling of TinyLlama with peft's adapters, whose losses are those of PyTorch."""

import pytest
import torch

import zenith
from tests.torch.fine_tuning import SEED, adapted, assert_same_curve


def test_a_few_steps():
    assert_same_curve(3, 1, backend="reference", fallback="error")


@pytest.mark.thorough
@pytest.mark.parametrize(("accumulated", "batch"), [(2, 2), (4, 1)])
def test_fifty_steps(accumulated, batch):
    assert_same_curve(50, 2, accumulated, batch, fallback="error")


def test_adapters_through_from_torch():
    """The model itself compiled: only adapters get gradients."""
    model = adapted(1)
    tokens = torch.arange(32).reshape(2, 16)
    fast = zenith.from_torch(model, (), {"input_ids": tokens, "labels": tokens}, backend="reference")
    gradients = []
    for call in (model, fast):
        torch.manual_seed(SEED)
        model.zero_grad()
        call(input_ids=tokens, labels=tokens).loss.backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys() and all("lora" in name for name in gradients[0])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
