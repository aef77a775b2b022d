"""Attention, kept whole, and its derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith.errors import UnsupportedError
from zenith.torch.aten.rules import Context, rule, to
from zenith.trace.bind import b


@rule("scaled_dot_product_attention")
def _attention(
    c: Context, q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if dropout_p:
        raise UnsupportedError("attention with dropout is not supported", fix="call module.eval() first")
    return znp.attention(q, k, v, attn_mask, causal=is_causal, scale=scale)


@rule("_scaled_dot_product_flash_attention_for_cpu")
def _parts(
    c: Context, q: Any, k: Any, v: Any, dropout_p: float = 0.0, is_causal: bool = False, *, attn_mask: Any = None,
    scale: float | None = None,
) -> Any:  # fmt: skip
    """The averages, and the logarithm of each query's sum of exponentials, which its derivative reads."""
    masks, options = _options(c, 0, (q, k, v), attn_mask, dropout_p, is_causal, scale)
    return tuple(b.attention(q, k, v, *masks, empty=0.0, **options))


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def _backward(
    c: Context, grad: Any, q: Any, k: Any, v: Any, out: Any, logarithm: Any, dropout_p: float, is_causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """As :mod:`zenith.ir.ops.attention` has it: nothing but the logarithms is kept of the way forward."""
    masks, options = _options(c, 1, (q, k, v), attn_mask, dropout_p, is_causal, scale)
    wide = logarithm.dtype
    mean = znp.sum(to(grad, wide) * to(out, wide), axis=-1)
    return tuple(b.attention_vjp(q, k, v, grad, logarithm, mean, *masks, **options))


def _options(
    c: Context, first: int, arrays: Sequence[Any], mask: Any, dropout_p: float, causal: bool, scale: float | None
) -> tuple[list[Any], dict[str, Any]]:
    """The mask, of the scores' shape, and the parameters of the primitive."""
    q, k, _ = arrays
    heads = [example.shape[:-2] for example in c.arguments[first : first + 3]]
    if dropout_p or not heads[0] == heads[1] == heads[2]:
        raise UnsupportedError("attention with dropout, or with shared heads, is not computed in parts")
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if mask is None:
        return [], {"scale": factor, "causal": causal, "mask": "none"}
    kind = "bool" if mask.dtype == np.bool_ else "add"
    mask = znp.broadcast_to(mask if kind == "bool" else to(mask, q.dtype), (*q.shape[:-1], k.shape[-2]))
    return [mask], {"scale": factor, "causal": causal, "mask": kind}
