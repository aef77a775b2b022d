"""Autotuning: ``python -m zenith tune`` measures the schedules of products on this GPU, and stores the fastest.

Measurements go to the tuning table of :mod:`zenith.backends.cuda.tuning`, which compilations from then on consult.
Schedules compete only where they add terms in the same order, so results have the same bits with any table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np

from zenith.arrays import cupy_adapter
from zenith.backends.cuda.architecture import capability
from zenith.backends.cuda.autotune import compare
from zenith.backends.cuda.driver import driver
from zenith.backends.cuda.link import link
from zenith.backends.cuda.schedules import PRODUCT, matrix_tiles, picker, sum_order
from zenith.backends.cuda.target import cuda_target
from zenith.backends.cuda.tuning import Measured, in_same_order, key
from zenith.backends.planner import plan
from zenith.backends.tensor_core_tiles import MatrixTile
from zenith.errors import UnsupportedError
from zenith.ir.text import parse
from zenith.ir.types import BY_NAME, float32
from zenith.passes.pipeline import run

Sizes = tuple[int, int, int, int]
"""How many products there are, their rows, columns and terms."""

WIDENED = """
def product(x: {e}[{b}, {m}, {k}], y: {e}[{b}, {k}, {n}]) -> (f32[{b}, {m}, {n}]):
    v1 = cast(x, dtype=f32)
    v2 = cast(y, dtype=f32)
    v3 = matmul(v1, v2)
    return (v3,)
"""
PLAIN = """
def product(x: f32[{b}, {m}, {k}], y: f32[{b}, {k}, {n}]) -> (f32[{b}, {m}, {n}]):
    v1 = matmul(x, y)
    return (v1,)
"""


def candidates(arch: str, element: str, sizes: Sizes) -> list[MatrixTile]:
    """The schedules that may serve such products on an architecture, the cost model's choice first.

    ``element`` is f16, bf16, or f32, whose products are then those that round to TF32.

    >>> [tile.name for tile in candidates("sm_90a", "bf16", (1, 4096, 4096, 4096))][:2]
    ['bf16_128x256', 'bf16_128x128']
    """
    have = tuple(capability(arch)[:2])
    tiles = [t for t in matrix_tiles(have, element == float32.name) if t.instruction.element.name == element]
    if not tiles:
        raise UnsupportedError(f"{arch} has no instruction for products of {element}", fix="tune bf16, f16 or f32")
    return in_same_order(tiles, sizes, picker(have), sum_order)


def tune(sizes: Iterable[Sizes], element: str) -> dict[str, Measured]:
    """Measure products of such sizes on the current GPU; the entries for the table, by their keys.

    Raises DeviceError where no GPU can be used.
    """
    device = driver().device()
    arch = driver().describe(device).arch
    found = {}
    for shape in sizes:
        tiles = candidates(arch, element, shape)
        runs = {tile.name: _product(tile, arch, element, shape) for tile in tiles}
        name = key(arch, PRODUCT, tiles[0].instruction.type, shape)
        found[name] = compare(driver(), runs, cupy_adapter(device).stream())
    return found


def sizes_of(text: str) -> Sizes:
    """Sizes as people write them; raises ValueError for others.

    >>> sizes_of("1024x4096x512"), sizes_of("8x64x64x64")
    ((1, 1024, 4096, 512), (8, 64, 64, 64))
    """
    sizes = [int(word) for word in text.split("x")] if all(map(str.isdigit, text.split("x"))) else []
    if len(sizes) not in (3, 4) or 0 in sizes:
        raise ValueError(f"{text} is no product: write rows x columns x terms, 1024x4096x1024, or a batch before them")
    b, m, n, k = [1, *sizes][-4:]
    return b, m, n, k


def _product(tile: MatrixTile, arch: str, element: str, sizes: Sizes) -> Callable[[], None]:
    """A function that launches a product by one schedule, on arrays of random numbers."""
    b, m, n, k = sizes
    graph, _ = run(parse((PLAIN if element == "f32" else WIDENED).format(e=element, b=b, m=m, n=n, k=k)))
    target = replace(cuda_target(arch, tf32=element == "f32"), pick=lambda tiles, shape: tile)
    program = link(plan(graph, target), graph)
    adapter = cupy_adapter(program.device)
    random = np.random.default_rng(0)
    arrays = [
        adapter.from_numpy(random.standard_normal(shape, dtype=np.float32).astype(BY_NAME[element].numpy))
        for shape in ((b, m, k), (b, k, n))
    ]
    results = program.run(arrays, [adapter, adapter], {}, adapter)
    return partial(_relaunch, program.relaunch(), adapter.stream(), (program, arrays, results))


def _relaunch(launch: Callable[[int], None], stream: int, owners: object) -> None:
    launch(stream)
