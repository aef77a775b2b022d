"""The engines for products and convolutions on tensor cores: which groups they take, and with which schedule.

A product of 16-bit floats is exact in float32, so that widened and 16-bit operands give the same terms; their sums are
float32 in both cases. Operands of float32 would be rounded to TF32: such a group is taken where the user allows it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from zenith.backends.engines import Refusal, in_two_steps
from zenith.backends.kernel import Kernel
from zenith.backends.lower.convolution.gpu import lower_shared_convolution, product_shape
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.lower.operand import element_type
from zenith.backends.lower.product.gpu import lower_shared_product
from zenith.backends.target import Target
from zenith.backends.tensor_core_tiles import MatrixTile, ProductShape
from zenith.ir.dims import product
from zenith.ir.graph import Graph
from zenith.ir.types import DType, float32

COST = 0.5  # tensor cores multiply several times as fast


def schedules(body: Graph, target: Target) -> tuple[MatrixTile, ...] | Refusal:
    """The schedules that a target has for a group, or why there is none."""
    result = tile_result(body)
    if target.threads is None:
        return Refusal(f"{target.name} has no tensor cores")
    if result.dtype != float32:
        return Refusal(f"tensor cores sum in float32, not in {result.dtype}")
    left, right = _elements(body)
    if left != right:
        return Refusal(f"one operand is {left}, the other {right}: tensor cores multiply elements of one type")
    if left == float32 and not target.tf32:
        return Refusal("tensor cores would round float32 operands to TF32: compile with tf32=True to allow it")
    found = tuple(t for t in target.matrix_tiles if t.instruction.element == left)
    return found or Refusal(f"{target.name} has no instruction for {left}")


def _elements(body: Graph) -> tuple[DType, DType]:
    """The element types of both operands in memory."""
    face, result = KernelInterface.of(body), tile_result(body)
    left, right = (element_type(face, operand) for operand in body.args(result.node))
    return left, right


def _shape(body: Graph) -> ProductShape:
    result = tile_result(body)
    *batch, rows, columns = result.shape
    terms = body.args(result.node)[0].shape[-1]
    return product(batch).static, rows.static, columns.static, terms.static


def _write(body: Graph, target: Target, fixed: Collection[str], tiles: Sequence[MatrixTile]) -> list[Kernel]:
    return lower_shared_product(body, target.pick(tiles, _shape(body)), len(fixed) == len(body.inputs))


def _write_convolution(
    body: Graph, target: Target, fixed: Collection[str], tiles: Sequence[MatrixTile]
) -> list[Kernel]:
    result = tile_result(body)
    shape = product_shape(result.shape, body.args(result.node)[1].shape[1])
    return lower_shared_convolution(body, target.pick(tiles, shape), len(fixed) == len(body.inputs))


accepts, lower = in_two_steps(COST, schedules, _write)
accepts_convolution, lower_convolution = in_two_steps(COST, schedules, _write_convolution)
