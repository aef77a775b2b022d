"""The engines for attention and its backward pass."""

from __future__ import annotations

from collections.abc import Collection

from zenith.backends.engines import Engine, always
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention import tensor_cores
from zenith.backends.lower.attention.cpu import lower_attention
from zenith.backends.lower.attention.cpu_vjp import lower_attention_vjp
from zenith.backends.lower.attention.delta import with_delta
from zenith.backends.lower.attention.gpu import lower_shared_attention
from zenith.backends.lower.attention.gpu_vjp import lower_shared_attention_vjp
from zenith.backends.lower.attention.pairs import lower_paired_attention, takes_pairs
from zenith.backends.lower.nest import tile_result
from zenith.backends.target import GuardedTile, Target
from zenith.ir.graph import Graph
from zenith.ir.types import bfloat16


def _lower_attention(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result = tile_result(body)
    stored = (bfloat16, bfloat16) if takes_pairs(body, target.rounds_to) else None
    tile = target.product_tile(result.dtype, None, stored)
    if isinstance(tile, GuardedTile):
        return lower_shared_attention(body, tile.fitting(None, result.shape[-1].static))
    return lower_paired_attention(body, tile) if tile.terms > 1 else lower_attention(body, tile)


def _lower_attention_vjp(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result = tile_result(body)
    tile = target.product_tile(result.dtype, None)
    if isinstance(tile, GuardedTile):
        cut = tile.fitting(None, result.shape[-1].static)
        return with_delta(body, target, lambda rest: lower_shared_attention_vjp(rest, cut))
    return with_delta(body, target, lambda rest: lower_attention_vjp(rest, tile))


ENGINES: tuple[Engine, ...] = (
    Engine("attention", ("attention",), "flash attention: an online softmax, the scores are never written to memory", 0,
           always, _lower_attention),
    Engine("attention_cores", ("attention",), "flash attention on 16-bit floats, on a GPU's tensor cores", 0,
           tensor_cores.accepts_forward, tensor_cores.lower_forward),
    Engine("attention_vjp", ("attention_vjp",), "flash attention's backward pass: weights are recomputed, not saved", 0,
           always, _lower_attention_vjp),
    Engine("attention_vjp_cores", ("attention_vjp",), "flash attention's backward pass, on a GPU's tensor cores", 0,
           tensor_cores.accepts_backward, tensor_cores.lower_backward),
)  # fmt: skip
