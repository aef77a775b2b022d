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

from zenith.backends.cuda.tensor_core_tiles import ProductShape
from zenith.backends.kernel import Digits, Folded, Kernel, Number, Operand
from zenith.backends.lower.collapse import spread
from zenith.backends.lower.convolution.cpu import Strided
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.nest import bind, decode_into, find_loops, store_results, stored
from zenith.backends.lower.product.gpu import SharedTiles, Tile
from zenith.ir.dims import Dim, dim, product, row_major
from zenith.ir.graph import Graph


def lower_shared_convolution(body: Graph, tile: Tile, once: bool = False) -> list[Kernel]:
    """The kernel; terms are not split where it runs once for all calls."""
    return [_Convolution(body, tile, once).lower()]


def product_shape(result: Sequence[Dim], terms: Dim) -> ProductShape:
    """The products that a convolution is, where sizes are known: groups, pixels, channels of a group, terms."""
    examples, groups, blocks, *sizes, block = result
    return groups.static, (examples * product(sizes)).static, (blocks * block).static, terms.static


class _Convolution(SharedTiles):
    """The product of windows with weights, group by group."""

    def shape(self) -> tuple[list[Dim], Dim, Dim, Dim]:
        examples, groups, self.channel_blocks, *sizes, self.block = self.result.shape
        self.x, self.w = (Strided.of(self.face, operand) for operand in (self.left, self.right))
        self._find_rows(examples, sizes)
        self._find_terms()
        return [groups], examples * product(sizes), self.channel_blocks * self.block, self.right.shape[1]

    def _find_rows(self, examples: Dim, sizes: list[Dim]) -> None:
        """The digits of rows: groups of the result's axes, their extents and their strides in the array."""
        strides = self.body.node(self.result.node).params["strides"]
        steps = [self.x.steps[0], *(s * n for s, n in zip(self.x.steps[3:-1], strides, strict=True))]
        rank = len(self.result.shape)
        axes, space = [0, *range(3, rank - 1)], [examples, *sizes]

        def visit(e: ElementBuilder, index: Index) -> None:
            e.known[self.result.node, 0] = Number(0, self.result.dtype)
            store_results(e, self.face, index)

        def addresses(index: Index) -> list[Dim]:
            read = sum((index[a] * s for a, s in zip(axes, steps, strict=True)), dim(0))
            return [read, *(row_major(value.shape, at) for _, value, at in stored(self.face, index))]

        found = find_loops(self.face, self.result.shape, visit, addresses)
        groups = [own for own in ([a for a in group if a in axes] for group in found) if own] or [[axes[-1]]]
        of_axis = dict(zip(axes, zip(space, steps, strict=True), strict=True))
        groups.sort(key=lambda group: self.x.steps[-1] != 1 and of_axis[group[-1]][1] == 1)
        self.row_axes = groups
        self.row_extents = tuple(product(of_axis[a][0] for a in group) for group in groups)
        self.row_steps = tuple(of_axis[group[-1]][1] for group in groups)

    def _find_terms(self) -> None:
        """The digits of terms: blocks of channels, the axes of the window, channels of a block."""
        params, steps = self.body.node(self.result.node).params, self.x.steps
        along = [s * n for s, n in zip(steps[3:-1], params["dilation"], strict=True)]
        digits = list(zip([self.left.shape[2], *params["window"], self.left.shape[-1]], [steps[2], *along, steps[-1]],
                          strict=True))  # fmt: skip
        joined: list[tuple[Dim, Dim]] = []
        for extent, step in digits:
            if joined and joined[-1][1] == extent * step:
                joined[-1] = joined[-1][0] * extent, step
            elif extent != 1:
                joined.append((extent, step))
        extents, found = zip(*(joined or [digits[-1]]), strict=True)
        self.term_extents, self.term_steps = tuple(extents), tuple(found)

    def row_of(self, row: Dim) -> tuple[Dim, ...]:
        digits = decode_into(self.e, bind(self.e, "position", row), self.row_extents)
        index = spread(self.row_axes, len(self.result.shape), digits)
        return (index[0], self.index[0], dim(0), *index[3:])

    def element_of(self, row: tuple[Dim, ...], column: Dim) -> tuple[Dim, ...]:
        if self.channel_blocks == 1:
            return (*row[:-1], column)
        block = bind(self.e, "block", column // self.block)
        return (*row[:2], block, *row[3:-1], bind(self.e, "channel", column % self.block))

    def operands(self, start: Dim) -> tuple[Operand | Folded, Operand]:
        (group,), e = self.index, self.e
        right_at = self.w.at + group * self.w.steps[0] + start * self.w.steps[1] + self.column * self.w.steps[2]
        right = Operand(self.w.buffer, bind(e, "right_at", right_at), self.w.steps[1:])  # type: ignore[arg-type]
        left_at = self.x.at + group * self.x.steps[1]
        if len(self.row_steps) == len(self.term_steps) == 1:
            left_at = left_at + self.top * self.row_steps[0] + start * self.term_steps[0]
            return Operand(self.x.buffer, bind(e, "left_at", left_at), (*self.row_steps, *self.term_steps)), right
        rows = Digits(self.top, self.row_extents, self.row_steps)
        terms = Digits(bind(e, "first_term", start), self.term_extents, self.term_steps)
        return Folded(self.x.buffer, bind(e, "left_at", left_at), (rows, terms)), right
