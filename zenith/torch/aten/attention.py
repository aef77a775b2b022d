"""Attention, kept whole."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith.errors import UnsupportedError
from zenith.torch.aten.rules import Context, rule


@rule("scaled_dot_product_attention")
def _attention(
    c: Context, q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if dropout_p:
        raise UnsupportedError("attention with dropout is not supported", fix="call module.eval() first")
    return znp.attention(q, k, v, attn_mask, causal=is_causal, scale=scale)
