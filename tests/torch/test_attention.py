"""PyTorch's attention: masks, groups of heads, other sizes than the example's, eager attention written by hand."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from zenith.errors import UnsupportedError


class Attention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **self.options)


def tensors(heads, own, s, t, batch=2, d=16, e=16, seed=0):
    torch.manual_seed(seed)
    return torch.randn(batch, heads, s, d), torch.randn(batch, own, t, d), torch.randn(batch, own, t, e)


def masks(s, t):
    seen = torch.rand(2, 1, s, t) < 0.6
    seen[:, :, 0] = False
    padding = torch.ones(2, 1, 1, t, dtype=torch.bool)
    padding[1, ..., t // 2 :] = False
    return seen, padding, torch.randn(2, 4, s, t), torch.zeros(s, t).masked_fill(~seen[0, 0], -math.inf)


@pytest.mark.parametrize("kind", range(4))
def test_masks(kind):
    example, other = ((*tensors(4, 4, s, t), masks(s, t)[kind]) for s, t in ((9, 12), (70, 33)))
    fast = zenith.from_torch(Attention(), example, backend="reference")
    for args in (example, other):
        with torch.no_grad():
            torch.testing.assert_close(fast(*args), Attention()(*args))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.2}, {"enable_gqa": True}], ids=str)
def test_options(options):
    own = 2 if "enable_gqa" in options else 4
    example, other = tensors(4, own, 7, 9, e=8), tensors(4, own, 40, 33, e=8)
    module = Attention(**options)
    fast = zenith.from_torch(module, example, backend="reference")
    for args in (example, other):
        with torch.no_grad():
            torch.testing.assert_close(fast(*args), module(*args))


@pytest.mark.parametrize("own", [2, pytest.param(1, marks=pytest.mark.thorough)])
def test_heads_that_share_keys_under_torch_compile(own):
    """Forward and backward, with masks; PyTorch computes no operator of them."""
    torch.compiler.reset()
    module = Attention(enable_gqa=True)
    fast = torch.compile(module, backend="zenith", dynamic=True, options={"fallback": "error", "backend": "reference"})
    for s, t, mask in ((7, 9, None), (9, 12, torch.randn(2, 1, 9, 12))):
        args, twins = ([x.clone().requires_grad_() for x in tensors(4, own, s, t)] for _ in range(2))
        found, wanted = fast(*args, mask), module(*twins, mask)
        torch.testing.assert_close(found, wanted)
        found.square().sum().backward()
        wanted.square().sum().backward()
        torch.testing.assert_close([x.grad for x in args], [x.grad for x in twins])
    assert not zenith.torch.explain().steps


def test_shared_heads_that_are_not_computed_are_no_draws():
    """Values of other heads than the keys are refused where the user wants no steps of PyTorch's."""
    torch.compiler.reset()
    operator = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    q, k, _ = tensors(4, 2, 5, 5)
    with pytest.raises(UnsupportedError, match="heads for values"):
        torch.compile(operator, backend="zenith", options={"fallback": "error"})(q, k, q)
