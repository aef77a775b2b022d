"""Adapters that are switched after a module was compiled, by peft: programs follow, and each state has its own."""

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

import zenith
from tests.torch.test_from_torch import compare


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def test_switched_and_disabled_adapters():
    torch.manual_seed(0)
    config, x = LoraConfig(r=2, target_modules=["first", "second"], init_lora_weights=False), torch.randn(4, 6)
    model = get_peft_model(Two(), config)
    model.add_adapter("other", config)
    model.eval()
    fast = zenith.from_torch(model, (x,), backend="reference")
    with torch.no_grad():
        own, modes = compare(fast, model, x), []
        for _ in range(3):
            with model.disable_adapter():
                assert not torch.equal(compare(fast, model, x), own)
            model.set_adapter("other")
            assert not torch.equal(compare(fast, model, x), own)
            model.set_adapter("default")
            assert torch.equal(compare(fast, model, x), own)
            modes.append(dict(fast._programs.modes))
    assert modes[1].keys() == modes[2].keys() and fast.cache_info().misses == 5  # all is known, and found again
    model.merge_adapter()
    compare(fast, model, x)
