"""Attention as one operator, and its derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import zenith.numpy as znp
from zenith import nn
from zenith.errors import UnsupportedError, user_line
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.rules import Context, rounded_once, rule, to
from zenith.trace.bind import b


@rule("scaled_dot_product_attention")
def _attention(
    c: Context, q: Array, k: Array, v: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Array:  # fmt: skip
    if dropout_p:
        raise UnsupportedError("attention with dropout is not supported", fix="call module.eval() first")
    return znp.attention(q, k, v, attn_mask, causal=is_causal, scale=scale)


@rule("_scaled_dot_product_flash_attention_for_cpu")
def _flash_attention(
    c: Context, q: Array, k: Array, v: Array, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Array | None = None, scale: float | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """The averages, and the logarithm of each query's sum of exponentials, which its derivative reads."""
    heads = _Heads.of(c.arguments[:3], dropout_p)
    masks, options = _options(q, k, attn_mask, is_causal, scale)
    found = b.attention(heads.split(q), *heads.spread(k, v), *map(heads.split, masks), empty=0.0, **options)
    return tuple(heads.joined(result, q.shape[:2]) for result in found)


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def _backward(
    c: Context, grad: Array, q: Array, k: Array, v: Array, out: Array, logarithm: Array, dropout_p: float,
    is_causal: bool, *, attn_mask: Array | None = None, scale: float | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    """As :mod:`zenith.ir.ops.attention` has it: nothing but the logarithms is saved by the forward pass."""
    heads = _Heads.of(c.arguments[1:4], dropout_p)
    masks, options = _options(q, k, attn_mask, is_causal, scale)
    wide = logarithm.dtype
    delta = znp.sum(to(grad, wide) * to(out, wide), axis=-1)
    queries = map(heads.split, (grad, logarithm, delta, *masks))
    by_query, *by_keys = b.attention_vjp(heads.split(q), *heads.spread(k, v), *queries, **options)
    return heads.joined(by_query, q.shape[:2]), *map(heads.summed, by_keys)


@dataclass(frozen=True)
class _Heads:
    """How the heads of queries share keys and values, which are in groups: ``own`` of them, ``sharing`` for each.

    ``sharing`` is 1 where each head has its own.
    """

    own: int
    sharing: int

    @classmethod
    def of(cls, examples: Sequence[torch.Tensor], dropout_p: float) -> _Heads:
        """The heads of queries, keys and values; UnsupportedError where they cannot share, or weights are dropped."""
        (rows, queries), *others = (example.shape[:-2] for example in examples)
        own = others[0][1]
        if dropout_p or any(tuple(other) != (rows, own) for other in others) or queries % own:
            raise UnsupportedError("attention with dropout, or with other heads for values than for keys, has "
                                   "no rule", where=user_line(), fix="leave it to PyTorch")  # fmt: skip
        return cls(own, queries // own)

    def split(self, array: Array) -> Array:
        """What each query has, in groups of heads."""
        if self.sharing == 1:
            return array
        return znp.reshape(array, (array.shape[0], self.own, self.sharing, *array.shape[2:]))

    def spread(self, *arrays: Array) -> list[Array]:
        """What each key has, for all heads that share it."""
        if self.sharing == 1:
            return list(arrays)
        return [znp.broadcast_to(a[:, :, None], (*a.shape[:2], self.sharing, *a.shape[2:])) for a in arrays]

    def joined(self, array: Array, heads: Sequence[Size]) -> Array:
        """The heads of queries on one axis, as before ``split``."""
        return array if self.sharing == 1 else znp.reshape(array, (*heads, *array.shape[3:]))

    def summed(self, array: Array) -> Array:
        """The gradient of what heads share."""
        return array if self.sharing == 1 else znp.sum(array, axis=2)


def _options(q: Array, k: Array, mask: Array | None, causal: bool,
             scale: float | None) -> tuple[list[Array], dict[str, Any]]:  # fmt: skip
    """The mask, of the scores' shape, and the parameters of the primitive."""
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if mask is None:
        return [], {"scale": factor, "causal": causal, "mask": "none"}
    kind = "bool" if mask.dtype == np.bool_ else "add"
    mask = znp.broadcast_to(mask if kind == "bool" else to(mask, q.dtype), (*q.shape[:-1], k.shape[-2]))
    return [mask], {"scale": factor, "causal": causal, "mask": kind}


@rule("_transformer_encoder_layer_fwd")
@rounded_once
def _encoder_layer(
    c: Context, x: Array, columns: int, heads: int, qkv_weight: Array, qkv_bias: Array, proj_weight: Array,
    proj_bias: Array, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Array, norm_bias_1: Array,
    norm_weight_2: Array, norm_bias_2: Array, ffn_weight_1: Array, ffn_bias_1: Array, ffn_weight_2: Array,
    ffn_bias_2: Array, mask: Array | None = None, mask_type: int | None = None,
) -> Array:  # fmt: skip
    """An encoder layer of a transformer in evaluation, as ``torch.nn.TransformerEncoderLayer`` calls it."""

    def attended(x: Array) -> Array:
        return _heads(x, x, x, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type)

    def forwarded(x: Array) -> Array:
        hidden = x @ znp.transpose(ffn_weight_1) + ffn_bias_1
        hidden = nn.gelu(hidden) if use_gelu else nn.relu(hidden)
        return hidden @ znp.transpose(ffn_weight_2) + ffn_bias_2

    def first(x: Array) -> Array:
        return nn.layer_norm(x, norm_weight_1, norm_bias_1, eps)

    def second(x: Array) -> Array:
        return nn.layer_norm(x, norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = x + attended(first(x))
        return x + forwarded(second(x))
    x = first(x + attended(x))
    return second(x + forwarded(x))


@rule("_native_multi_head_attention")
@rounded_once
def _multi_head(
    c: Context, q: Array, k: Array, v: Array, columns: int, heads: int, qkv_weight: Array, qkv_bias: Array,
    proj_weight: Array, proj_bias: Array, mask: Array | None = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Array, None]:  # fmt: skip
    """The averages alone; the weights are never written to memory."""
    return _heads(q, k, v, heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, mask_type), None


def _heads(
    q: Array, k: Array, v: Array, heads: int, qkv_weight: Array, qkv_bias: Array, proj_weight: Array, proj_bias: Array,
    mask: Array | None, mask_type: int | None,
) -> Array:  # fmt: skip
    """Attention of several heads, arrays ``[N, length, columns]``; a query that sees no key gives no numbers."""
    columns = q.shape[-1]
    qkv = []
    for number, x in enumerate((q, k, v)):
        own = slice(number * columns, (number + 1) * columns)
        linear = x @ znp.transpose(qkv_weight[own]) + qkv_bias[own]
        qkv.append(znp.swapaxes(znp.reshape(linear, (*x.shape[:2], heads, -1)), 1, 2))
    masks = []
    if mask is not None:
        hidden = mask if mask.dtype == np.bool_ else mask != 0
        hidden = hidden[:, None, None] if mask_type == 1 else hidden
        masks = [znp.broadcast_to(~hidden, (*qkv[0].shape[:-1], k.shape[1]))]
    factor = 1 / math.sqrt(columns // heads)
    found, _ = b.attention(*qkv, *masks, scale=factor, causal=False, mask="bool" if masks else "none", empty=math.nan)
    return znp.reshape(znp.swapaxes(found, 1, 2), q.shape) @ znp.transpose(proj_weight) + proj_bias
