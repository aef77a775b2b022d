"""The engines for convolutions and their gradients by weights."""

from __future__ import annotations

from collections.abc import Collection

from zenith.backends.engines import Engine, Refusal
from zenith.backends.kernel import Kernel
from zenith.backends.lower.convolution.channels import tile_of
from zenith.backends.lower.convolution.cpu import lower_convolution
from zenith.backends.lower.convolution.direct import lower_direct_convolution, lower_direct_weights
from zenith.backends.lower.convolution.gpu import lower_shared_convolution, product_shape
from zenith.backends.lower.convolution.weight_gradient import known_cut, lower_convolution_weights
from zenith.backends.lower.convolution.winograd import lower_winograd
from zenith.backends.lower.convolution.winograd_cost import few_pixels, winograd_cost
from zenith.backends.lower.nest import tile_result
from zenith.backends.lower.product import tensor_cores
from zenith.backends.target import GuardedTile, Target
from zenith.ir.graph import Graph


def _in_tiles(body: Graph, target: Target) -> float | Refusal:
    result = tile_result(body)
    x, _ = body.args(result.node)
    tile = tile_of(body, target)
    if isinstance(tile, GuardedTile):
        return Refusal(f"{target.name} has no register tiles that gather their terms")
    if not result.dtype.is_float and (result.dtype.bits < 32 or (x.dtype != result.dtype and tile.terms == 1)):
        return Refusal(f"register tiles do not sum {x.dtype}" + " but in whole words" * (x.dtype != result.dtype))
    return Refusal("how many channels a block has is not known") if x.shape[-1].static is None else 1.0


def _lower_convolution(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    tile = tile_of(body, target)
    assert not isinstance(tile, GuardedTile)
    return lower_convolution(body, tile, fixed)


def _on_guarded_tiles(body: Graph, target: Target) -> float | Refusal:
    result = tile_result(body)
    if not isinstance(target.product_tile(result.dtype, None), GuardedTile):
        return Refusal(f"{target.name} has no tiles that teams of threads compute")
    if body.args(result.node)[0].dtype != result.dtype:
        return Refusal("operands and sums are of different types")
    return 1.0


def _lower_shared_convolution(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result = tile_result(body)
    _, rows, columns, _ = product_shape(result.shape, result.shape[-1])
    tile = target.product_tile(result.dtype, columns)
    assert isinstance(tile, GuardedTile)
    return lower_shared_convolution(body, tile.fitting(rows, columns), len(fixed) == len(body.inputs))


def _weights_in_tiles(body: Graph, target: Target) -> float | Refusal:
    result = tile_result(body)
    refused = _in_tiles(body, target)
    if isinstance(refused, Refusal):
        return refused
    x, y = (value.shape for value in body.args(result.node))
    if not known_cut(x, y, body.node(result.node).params["window"]):
        return Refusal("how many channels there are is not known")
    return 1.0


def _lower_weights(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    tile = target.product_tile(tile_result(body).dtype, None)
    assert not isinstance(tile, GuardedTile)
    return lower_convolution_weights(body, tile)


ENGINES: tuple[Engine, ...] = (
    Engine("convolution", ("convolution",), "convolutions in tiles, with an elementwise epilogue", 0,
           _in_tiles, _lower_convolution),
    Engine("winograd", ("convolution",), "convolutions of 3x3 neighbours by transforms of tiles and of weights", 0,
           winograd_cost, lower_winograd, refuses=few_pixels),
    Engine("shared_convolution", ("convolution",), "the same as products whose rows are windows, on a GPU", 0,
           _on_guarded_tiles, _lower_shared_convolution),
    Engine("convolution_cores", ("convolution",), "the same on a GPU's tensor cores", 0,
           tensor_cores.accepts_convolution, tensor_cores.lower_convolution),
    Engine("direct_convolution", ("convolution",), "convolutions as they are defined: a sum a task", 0,
           lambda body, target: 4.0, lambda body, target, fixed: lower_direct_convolution(body)),
    Engine("convolution_weights", ("convolution_weights",), "gradients of convolutions by their weights, in tiles", 0,
           _weights_in_tiles, _lower_weights),
    Engine("direct_weights", ("convolution_weights",), "the same as they are defined: a sum a task", 0,
           lambda body, target: 4.0, lambda body, target, fixed: lower_direct_weights(body)),
)  # fmt: skip
