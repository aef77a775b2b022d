"""Tile statements as code of a block of threads: the sources of products and online softmax.

A product goes through its terms in steps of ``STEP``: the block copies so many terms of both operands to shared memory,
with zeros outside of the matrices, and each thread adds up a small register tile. The scheme is that of Volkov and
Demmel, "Benchmarking GPUs to tune dense linear algebra" (SC 2008). An online softmax gives each column of scores a few
neighbouring threads, which join their maxima and sums by shuffles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt

from zenith.backends.cuda.forms import BLOCK
from zenith.backends.cuda.index import Indices
from zenith.backends.tiles import STAGED as STEP
from zenith.backends.tiles import Folded, Operand, SharedProduct, SoftmaxTile
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim, symbol
from zenith.ir.types import DType

SIDE = isqrt(BLOCK)  # a block of threads as a square


def staging(products: Sequence[SharedProduct], dtype: DType) -> list[str]:
    """Shared memory for a step of the largest of a kernel's products."""
    lengths = {"a": max(p.rows for p in products), "b": max(p.columns for p in products)}
    return [f"tile_{name} = {dtype}_shared({STEP * length})" for name, length in lengths.items()]


def product(tile: SharedProduct, dtype: DType, indices: Indices) -> Iterator[str]:
    """The lines of a product tile."""
    if tile.rows % SIDE or tile.columns % SIDE:
        raise UnsupportedError(f"a product tile of {tile.rows} x {tile.columns} has no CUDA form",
                               fix="this is a defect of Zenith: report it with your program")  # fmt: skip
    u, rows, columns = indices.kind, tile.rows // SIDE, tile.columns // SIDE
    sign = "+=" if tile.onto != 0 else "="
    yield f"# {tile.target.buffer}[r, j] {sign} sum of {tile.a.buffer}[r, k] * {tile.b.buffer}[k, j]"
    yield f"tile_sums = {dtype}_local({rows * columns})"
    yield f"for tile_i in range({rows * columns}):"
    yield f"    tile_sums[tile_i] = {dtype}(0)"
    yield f"tile_row = {u}(lane // {SIDE} * {rows})"
    yield f"tile_column = {u}(lane % {SIDE} * {columns})"
    yield f"tile_first_term = {u}(0)"
    yield f"while tile_first_term < {indices.typed(tile.terms)}:"
    for line in (
        *_stage("a", tile.a, (tile.rows, tile.height), tile.terms, dtype, indices),
        *_stage("b", _transposed(tile.b), (tile.columns, tile.width), tile.terms, dtype, indices),
        "cuda.syncthreads()",
        f"for tile_k in range({STEP}):",
        f"    for tile_i in range({rows}):",
        f"        for tile_j in range({columns}):",
        f"            tile_left = tile_a[{u}({u}(tile_k * {tile.rows} + tile_i) + tile_row)]",
        f"            tile_right = tile_b[{u}({u}(tile_k * {tile.columns} + tile_j) + tile_column)]",
        f"            tile_here = tile_i * {columns} + tile_j",
        f"            tile_sums[tile_here] = {dtype}(tile_sums[tile_here] + tile_left * tile_right)",
        "cuda.syncthreads()",
        f"tile_first_term = {u}(tile_first_term + {STEP})",
    ):
        yield f"    {line}"
    yield from _add_to_target(tile, dtype, rows, columns, indices)


def _transposed(operand: Operand) -> Operand:
    """An operand with its axes exchanged."""
    return Operand(operand.buffer, operand.at, operand.strides[::-1])


def _stage(
    name: str, operand: Operand | Folded, extent: tuple[int, Dim], terms: Dim, dtype: DType, indices: Indices
) -> Iterator[str]:
    """Copy ``STEP`` terms of each line, a row (or column) of the tile, to shared memory, as [term][line].

    Neighbouring threads read neighbours (coalesced): along the terms where these are dense, else along the lines.
    """
    u, (most, count) = indices.kind, extent
    along_terms = operand.strides[1] == 1 and operand.strides[0] != 1
    width = STEP if along_terms else most
    step, rest = f"tile_number // {width}", f"tile_number % {width}"
    line, term = (step, rest) if along_terms else (rest, step)
    at = operand.position(symbol("tile_line"), symbol("tile_term"))
    yield f"tile_number = {u}(lane)"
    yield f"while tile_number < {STEP * most}:"
    yield f"    tile_line = {u}({line})"
    yield f"    tile_position = {u}({term})"
    yield f"    tile_term = {u}(tile_first_term + tile_position)"
    yield f"    tile_value = {dtype}(0)"
    yield f"    if tile_line < {indices.typed(count)} and tile_term < {indices.typed(terms)}:"
    yield f"        tile_value = {dtype}({operand.buffer}[{indices.text(at)}])"
    yield f"    tile_{name}[{u}(tile_position * {most} + tile_line)] = tile_value"
    yield f"    tile_number = {u}(tile_number + {BLOCK})"


def _add_to_target(tile: SharedProduct, dtype: DType, rows: int, columns: int, indices: Indices) -> Iterator[str]:
    u, target = indices.kind, tile.target
    at = target.at + symbol("tile_line") * target.strides[0] + symbol("tile_position") * target.strides[1]
    yield f"for tile_i in range({rows}):"
    yield f"    for tile_j in range({columns}):"
    yield f"        tile_line = {u}(tile_row + {u}(tile_i))"
    yield f"        tile_position = {u}(tile_column + {u}(tile_j))"
    yield f"        if tile_line < {indices.typed(tile.height)} and tile_position < {indices.typed(tile.width)}:"
    yield f"            tile_value = tile_sums[tile_i * {columns} + tile_j]"
    if tile.onto != 0:
        yield f"            if {indices.typed(tile.onto)} != 0:"
        yield f"                tile_value = {dtype}({target.buffer}[{indices.text(at)}] + tile_value)"
    yield f"            {target.buffer}[{indices.text(at)}] = tile_value"


def softmax(tile: SoftmaxTile, scale: str, indices: Indices) -> Iterator[str]:
    """The lines of a step of an online softmax."""
    together = BLOCK // tile.lanes
    if tile.lanes & (tile.lanes - 1) or not 1 <= together <= 32:
        raise UnsupportedError(f"an online softmax of {tile.lanes} columns has no CUDA form",
                               fix="this is a defect of Zenith: report it with your program")  # fmt: skip
    u, dtype, (top, total, shrink) = indices.kind, tile.scale.dtype, tile.state
    key, column = symbol("tile_key"), symbol("tile_query")
    score = f"{tile.scores.buffer}[{indices.text(tile.scores.at + key * tile.scores.strides[0] + column)}]"
    index = indices.text(tile.offset + column)
    least = f"{dtype}(-inf)"
    loop = (f"tile_key = {u}(lane % {together})", f"while tile_key < {indices.typed(tile.keys)}:")
    step = f"    tile_key = {u}(tile_key + {together})"
    yield f"# {tile.scores.buffer}: scores become weights; {top}, {total}, {shrink} follow"
    yield f"tile_query = {u}(lane // {together})"
    yield f"tile_before = {top}[{index}]"
    yield "tile_largest = tile_before"
    yield from (*loop, f"    tile_largest = where({score} > tile_largest, {score}, tile_largest)", step)
    yield from _join(
        together, "tile_largest = where(tile_other > tile_largest, tile_other, tile_largest)", "tile_largest"
    )
    yield f"tile_base = where(tile_largest == {least}, {dtype}(0), tile_largest)"
    yield f"tile_weights = {dtype}(0)"
    yield from loop
    yield f"    tile_weight = {dtype}(exp({dtype}(({score} - tile_base) * {scale})))"
    yield f"    {score} = tile_weight"
    yield f"    tile_weights = {dtype}(fold_add(tile_weights, tile_weight))"
    yield step
    yield from _join(together, f"tile_weights = {dtype}(fold_add(tile_weights, tile_other))", "tile_weights")
    yield f"tile_factor = {dtype}(exp({dtype}((tile_before - tile_base) * {scale})))"
    yield f"if lane % {together} == 0:"
    yield f"    {top}[{index}] = tile_largest"
    yield f"    {total}[{index}] = {dtype}(fold_add({dtype}({total}[{index}] * tile_factor), tile_weights))"
    yield f"    {shrink}[{index}] = tile_factor"


def _join(together: int, combine: str, name: str) -> Iterator[str]:
    """Join the values of neighbouring threads by shuffles."""
    yield f"distance = {together // 2}"
    yield "while distance > 0:"
    yield f"    tile_other = shuffle({name}, distance)"
    yield f"    {combine}"
    yield "    distance >>= 1"
