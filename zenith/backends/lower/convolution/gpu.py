"""Convolutions on guarded tiles: a product whose rows are windows, gathered in place, with its epilogue.

This is *implicit* multiplication (S. Chetlur et al., *cuDNN: efficient primitives for deep learning*, arXiv:1410.0759):
the matrix of windows is never in memory. Its rows are the pixels of the result and its terms those of a window, each
some axes of the array in mixed radix; an element is at a pixel's position plus a term's offset. Nothing else is
different from a product: tiles, schedules, tensor cores and split-K are those of
:mod:`zenith.backends.lower.product.gpu`. Axes that are contiguous in memory are one digit, so a window of one pixel and
strides of one leave an ordinary product.

Rows may be taken in any order. Where neighbours of the array are neither channels nor axes of the window, as for a
gradient by weights, whose examples are the channels, they are made the last digit of rows, along which copies are wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zenith.backends.expressions import Number
from zenith.backends.kernel import Kernel
from zenith.backends.lower.collapse import spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import (
    KernelInterface,
    bind,
    decode_into,
    find_loops,
    store_results,
    stored,
    tile_result,
)
from zenith.backends.lower.operand import Strided
from zenith.backends.lower.product.gpu import ResultTile, SharedTiles, Tile
from zenith.backends.tensor_core_tiles import ProductShape
from zenith.backends.tiles import Digits, Folded, Operand
from zenith.ir.dims import Dim, dim, product, row_major
from zenith.ir.graph import Graph, Value


def lower_shared_convolution(body: Graph, tile: Tile, once: bool = False) -> list[Kernel]:
    """The kernel; terms are not split where it runs once for all calls."""
    return [_Convolution(body, tile, once).lower()]


def product_shape(result: Sequence[Dim], terms: Dim) -> ProductShape:
    """The products that a convolution is, where sizes are known: groups, pixels, channels of a group, terms."""
    examples, groups, blocks, *sizes, block = result
    return groups.static, (examples * product(sizes)).static, (blocks * block).static, terms.static


class _Convolution(SharedTiles):
    """The product of windows with weights, group by group; rows and terms are numbers of several digits."""

    def __init__(self, body: Graph, tile: Tile, once: bool) -> None:
        face, result = KernelInterface.of(body), tile_result(body)
        x, w = body.args(result.node)
        self.x, self.w = Strided.of(face, x), Strided.of(face, w)
        self.row_axes, self.rows = _rows_of(face, result, self.x)
        self.terms = _terms_of(body, result, self.x)
        super().__init__(body, tile, once)

    def shape(self) -> tuple[list[Dim], Dim, Dim, Dim]:
        examples, groups, blocks, *sizes, block = self.result.shape
        return [groups], examples * product(sizes), blocks * block, self.right.shape[1]

    def row_of(self, tile: ResultTile, row: Dim) -> tuple[Dim, ...]:
        digits = decode_into(self.e, bind(self.e, "position", row), self.rows.extents)
        index = spread(self.row_axes, len(self.result.shape), digits)
        return (index[0], tile.index[0], dim(0), *index[3:])

    def element_of(self, row: tuple[Dim, ...], column: Dim) -> tuple[Dim, ...]:
        _, _, blocks, *_, size = self.result.shape
        if blocks == 1:
            return (*row[:-1], column)
        block = bind(self.e, "block", column // size)
        return (*row[:2], block, *row[3:-1], bind(self.e, "channel", column % size))

    def operands(self, tile: ResultTile, start: Dim) -> tuple[Operand | Folded, Operand]:
        (group,), e, (of_group, *strides) = tile.index, self.e, self.w.steps
        right_at = self.w.at + group * of_group + start * strides[0] + tile.columns.first * strides[1]
        right = Operand(self.w.buffer, bind(e, "right_at", right_at), (strides[0], strides[1]))
        left_at, top = self.x.at + group * self.x.steps[1], tile.rows.first
        if len(self.rows.steps) == len(self.terms.steps) == 1:
            left_at = left_at + top * self.rows.steps[0] + start * self.terms.steps[0]
            steps = self.rows.steps[0], self.terms.steps[0]
            return Operand(self.x.buffer, bind(e, "left_at", left_at), steps), right
        rows, terms = replace(self.rows, first=top), replace(self.terms, first=bind(e, "first_term", start))
        return Folded(self.x.buffer, bind(e, "left_at", left_at), (rows, terms)), right


def _rows_of(face: KernelInterface, result: Value, x: Strided) -> tuple[list[list[int]], Digits]:
    """The digits of rows: groups of the result's axes, with their extents and their strides in the array."""
    strides = face.body.node(result.node).params["strides"]
    steps = [x.steps[0], *(s * n for s, n in zip(x.steps[3:-1], strides, strict=True))]
    axes = [0, *range(3, len(result.shape) - 1)]

    def visit(e: ElementBuilder, index: Index) -> None:
        e.known[result.node, 0] = Number(0, result.dtype)
        store_results(e, face, index)

    def addresses(index: Index) -> list[Dim]:
        read = sum((index[a] * s for a, s in zip(axes, steps, strict=True)), dim(0))
        return [read, *(row_major(value.shape, at) for _, value, at in stored(face, index))]

    found = find_loops(face, result.shape, visit, addresses)
    groups = [own for own in ([a for a in group if a in axes] for group in found) if own] or [[axes[-1]]]
    step_of = dict(zip(axes, steps, strict=True))
    groups.sort(key=lambda group: x.steps[-1] != 1 and step_of[group[-1]] == 1)
    extents = tuple(product(result.shape[a] for a in group) for group in groups)
    return groups, Digits(dim(0), extents, tuple(step_of[group[-1]] for group in groups))


def _terms_of(body: Graph, result: Value, x: Strided) -> Digits:
    """The digits of terms: blocks of channels, the axes of the window, channels of a block."""
    params, shape = body.node(result.node).params, body.args(result.node)[0].shape
    along = [s * n for s, n in zip(x.steps[3:-1], params["dilation"], strict=True)]
    digits = list(zip([shape[2], *params["window"], shape[-1]], [x.steps[2], *along, x.steps[-1]], strict=True))
    joined: list[tuple[Dim, Dim]] = []
    for extent, step in digits:
        if joined and joined[-1][1] == extent * step:
            joined[-1] = joined[-1][0] * extent, step
        elif extent != 1:
            joined.append((extent, step))
    extents, steps = zip(*(joined or [digits[-1]]), strict=True)
    return Digits(dim(0), tuple(extents), tuple(steps))
