"""The engines for attention on tensor cores, forward and backward: which groups they take, with which schedules.

Operands are 16-bit floats in memory, whose products are exact in float32, as are their sums nearly. Weights and
cotangents of scores are rounded to 16 bits as operands of the next product, where the engine for plain threads stays in
float32: that is the one difference, and less than the rounding of a result, which is an average of many.
"""

from __future__ import annotations

from collections.abc import Collection

from zenith.backends.engines import Refusal, in_two_steps
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.delta import with_delta
from zenith.backends.lower.attention.register_resident import forward_shape, lower_register_attention
from zenith.backends.lower.attention.register_resident_vjp import backward_shape, lower_register_attention_vjp
from zenith.backends.lower.attention.task_vjp import wanted
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.lower.operand import access
from zenith.backends.target import Target
from zenith.backends.tensor_core_tiles import AttentionTile
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.lowering import Tile
from zenith.ir.types import DType

COST = 0.5  # tensor cores multiply several times as fast
WIDEST = 256  # columns of a head
Kernels = list[tuple[tuple[int, ...], AttentionTile]]


def _forward_tile(body: Graph, target: Target) -> AttentionTile | Refusal:
    heads = _heads(body)
    if isinstance(heads, Refusal):
        return heads
    found = target.attention_tile(forward_shape(*heads))
    return Refusal(f"{target.name}: {found}") if isinstance(found, str) else found


def _backward_tiles(body: Graph, target: Target) -> Kernels | Refusal:
    """A tile for the results of each kernel; where sums of two do not fit, each gets a kernel of its own."""
    heads = _heads(body)
    if isinstance(heads, Refusal):
        return heads
    found: Kernels = []
    for results in wanted(body):
        whole = target.attention_tile(backward_shape(*heads, results))
        groups = [(r,) for r in results] if isinstance(whole, str) else [results]
        for group in groups:
            tile = target.attention_tile(backward_shape(*heads, group))
            if isinstance(tile, str):
                return Refusal(f"{target.name}: {tile}")
            found.append((group, tile))
    return found


def _heads(body: Graph) -> tuple[DType, int, int] | Refusal:
    """The operands' elements in memory, and the columns of queries and of values."""
    face, result = KernelInterface.of(body), tile_result(body)
    lowering = body.node(result.node).primitive.lowering
    assert isinstance(lowering, Tile)
    operands = body.args(result.node)[: lowering.matrices]
    index = tuple(symbol(f"head{axis}") for axis, _ in enumerate(result.shape[:-2]))
    kinds = {access(face, operand, index).dtype for operand in operands}
    if len(kinds) > 1 or not next(iter(kinds)).is_narrow:
        return Refusal(f"operands are {', '.join(sorted(map(str, kinds)))}: tensor cores multiply 16-bit floats")
    head, columns = operands[0].shape[-1].static, operands[2].shape[-1].static
    if head is None or columns is None or not min(head, columns) >= 1 or max(head, columns) > WIDEST:
        return Refusal(f"the size of a head is not known, or above {WIDEST}: sums do not fit in registers")
    return next(iter(kinds)), head, columns


def _write_forward(body: Graph, target: Target, fixed: Collection[str], tile: AttentionTile) -> list[Kernel]:
    return lower_register_attention(body, tile)


def _write_backward(body: Graph, target: Target, fixed: Collection[str], tiles: Kernels) -> list[Kernel]:
    return with_delta(body, target, lambda rest: lower_register_attention_vjp(rest, tiles))


accepts_forward, lower_forward = in_two_steps(COST, _forward_tile, _write_forward)
accepts_backward, lower_backward = in_two_steps(COST, _backward_tiles, _write_backward)
