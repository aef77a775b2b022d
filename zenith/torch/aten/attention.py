"""Attention, kept whole, and its derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import zenith.numpy as znp
from zenith import nn
from zenith.errors import UnsupportedError
from zenith.torch.aten.rules import Context, rounded_once, rule, to
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


@rule("_transformer_encoder_layer_fwd")
@rounded_once
def _encoder_layer(
    c: Context, x: Any, columns: int, heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any,
    norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """An encoder layer of a transformer in evaluation, as ``torch.nn.TransformerEncoderLayer`` calls it."""

    def attended(x: Any) -> Any:
        return _heads(x, x, x, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    def forwarded(x: Any) -> Any:
        hidden = x @ znp.transpose(ffn_weight_1) + ffn_bias_1
        hidden = nn.gelu(hidden) if use_gelu else nn.relu(hidden)
        return hidden @ znp.transpose(ffn_weight_2) + ffn_bias_2

    def first(x: Any) -> Any:
        return nn.layer_norm(x, norm_weight_1, norm_bias_1, eps)

    def second(x: Any) -> Any:
        return nn.layer_norm(x, norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = x + attended(first(x))
        return x + forwarded(second(x))
    x = first(x + attended(x))
    return second(x + forwarded(x))


@rule("_native_multi_head_attention")
@rounded_once
def _multi_head(
    c: Context, q: Any, k: Any, v: Any, columns: int, heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
    proj_bias: Any, mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """The averages alone; the weights are never written to memory."""
    return _heads(q, k, v, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type), None


def _heads(
    q: Any, k: Any, v: Any, heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any, mask: Any,
    mask_type: int | None,
) -> Any:  # fmt: skip
    """Attention of several heads, arrays ``[N, length, columns]``; a query that sees no key gives no numbers."""
    columns = q.shape[-1]
    parts = []
    for number, x in enumerate((q, k, v)):
        own = slice(number * columns, (number + 1) * columns)
        moved = x @ znp.transpose(qkv_weight[own]) + qkv_bias[own]
        parts.append(znp.swapaxes(znp.reshape(moved, (*x.shape[:2], heads, -1)), 1, 2))
    masks = []
    if mask is not None:
        hidden = mask if mask.dtype == np.bool_ else mask != 0
        hidden = hidden[:, None, None] if mask_type == 1 else hidden
        masks = [znp.broadcast_to(~hidden, (*parts[0].shape[:-1], k.shape[1]))]
    factor = 1 / math.sqrt(columns // heads)
    found, _ = b.attention(*parts, *masks, scale=factor, causal=False, mask="bool" if masks else "none", empty=math.nan)
    return znp.reshape(znp.swapaxes(found, 1, 2), q.shape) @ znp.transpose(proj_weight) + proj_bias
