"""The engines for matrix products."""

from __future__ import annotations

from collections.abc import Collection

from zenith.backends.engines import Engine, always
from zenith.backends.kernel import Kernel
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.lower.operand import element_type
from zenith.backends.lower.product import tensor_cores
from zenith.backends.lower.product.cpu import lower_product
from zenith.backends.lower.product.gpu import lower_shared_product
from zenith.backends.lower.product.scaled import lower_scaled_product
from zenith.backends.target import GuardedTile, Target
from zenith.ir.graph import Graph
from zenith.ir.types import int8, int32, uint8


def _lower_product(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result, face = tile_result(body), KernelInterface.of(body)
    rows, columns = (n.static for n in result.shape[-2:])
    left, right = (element_type(face, operand) for operand in body.args(result.node))
    tile = target.product_tile(result.dtype, columns, (left, right))
    if isinstance(tile, GuardedTile):
        once = len(fixed) == len(body.inputs)
        return lower_shared_product(body, tile.fitting(rows, columns), once)
    return lower_product(body, tile, fixed)


def _lower_scaled(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    tile = target.product_tile(int32, tile_result(body).shape[-1].static, (int8, uint8))
    assert not isinstance(tile, GuardedTile), "other targets have these products written out"
    return lower_scaled_product(body, tile)


ENGINES: tuple[Engine, ...] = (
    Engine("product", ("product",), "matrix products in tiles, with an elementwise epilogue", 0,
           always, _lower_product),
    Engine("scaled_product", ("scaled_product",), "products of int8 by levels of 4 or 8 bits, with scales of groups", 0,
           always, _lower_scaled),
    Engine("tensor_cores", ("product",), "products of 16-bit floats, by option of float32, on a GPU's tensor cores", 0,
           tensor_cores.accepts, tensor_cores.lower),
)  # fmt: skip
