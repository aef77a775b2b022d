"""Attention with dropout and a mask: bools mask, numbers are added, wherever the mask stands among the arguments."""

import itertools

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F

import zenith

ALMOST_NONE = 1e-9  # a probability with which nothing is dropped, though the operator draws


class Attention(nn.Module):
    """Scaled dot-product attention with a mask as a positional argument or by name."""

    def __init__(self, dropout, by_name, gqa):
        super().__init__()
        self.dropout, self.by_name, self.gqa = dropout, by_name, gqa

    def forward(self, q, k, v, mask):
        options = {"dropout_p": self.dropout, "enable_gqa": self.gqa}
        if self.by_name:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)
        return F.scaled_dot_product_attention(q, k, v, mask, **options)


def _mask(kind):
    bools = torch.ones(6, 6).tril().bool()
    return bools if kind == "bool" else torch.zeros(6, 6).masked_fill(~bools, -torch.inf)


@pytest.mark.parametrize(
    ("dropout", "by_name", "gqa", "kind"),
    list(itertools.product((0.0, ALMOST_NONE), (False, True), (False, True), ("bool", "float"))),
)
def test_masks_hide_what_they_hide_without_dropout(dropout, by_name, gqa, kind):
    torch.manual_seed(0)
    q, (k, v) = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 2 if gqa else 4, 6, 8).unbind()
    module, mask = Attention(dropout, by_name, gqa), _mask(kind)
    torch.testing.assert_close(zenith.from_torch(module, (q, k, v, mask))(q, k, v, mask), module(q, k, v, mask))


def test_a_causal_model_in_training_sees_no_later_tokens():
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2,
        attn_pdrop=ALMOST_NONE, resid_pdrop=0.0, embd_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    model = transformers.GPT2Model(config).train()
    tokens = torch.arange(12).reshape(1, 12)
    found = zenith.from_torch(model, (tokens,))(tokens).last_hidden_state
    torch.testing.assert_close(found, model(tokens).last_hidden_state, rtol=1e-4, atol=1e-5)
