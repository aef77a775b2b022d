"""Copying B into panels, in compiled code; :func:`zenith.backends.cpu.tile.pack_panel` says what it does.

Contiguous rows of B are copied a vector at a time. Contiguous columns (of a transposed B) are copied as squares of
LANES x LANES elements, transposed in registers: log2(LANES) rounds, each exchanging blocks of twice the size between
pairs of vectors (Eklundh, "A Fast Computer Method for Matrix Transposing", 1972). What is left over at the edges, and B
with two strides, goes one element at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.tile import NEAR, pack_panel
from zenith.backends.cpu.tile_code import Vectors, is_read_as, loop, vectors

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


@type_callable(pack_panel)
def _type_pack_panel(context: Any) -> Callable[..., Any]:
    def typer(
        VECTORS: Any, LANES: Any, to: Any, to_at: Any, b: Any, b_at: Any, b_k: Any, b_j: Any, k: Any, columns: Any
    ) -> Any:
        sizes = (VECTORS, LANES)
        if not all(isinstance(size, types.IntegerLiteral) for size in sizes) or not is_read_as(b.dtype, to.dtype):
            return None
        i = types.intp
        return types.void(*sizes, to, i, b, i, i, i, i, i)

    return typer


@lower_builtin(pack_panel, types.VarArg(types.Any))
def _lower_pack_panel(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
    count, lanes = (size.literal_value for size in signature.args[:2])
    stored, given = signature.args[2].dtype, signature.args[4].dtype
    moves = Vectors(builder, stored, lanes)
    _Panel(moves, moves if given == stored else vectors(builder, given, lanes), count, *args[2:]).emit()
    return context.get_dummy_value()


class _Panel:
    """Emits one call of ``pack_panel``; ``v`` writes the panel and ``source`` reads B."""

    def __init__(
        self, v: Vectors, source: Vectors, vectors: int, to: Any, to_at: Any, b: Any, b_at: Any, b_k: Any, b_j: Any,
        k: Any, columns: Any,
    ) -> None:  # fmt: skip
        self.v, self.source, self.builder, self.width = v, source, v.builder, _INT64(vectors * v.lanes)
        self.to, self.b = v.at(to, to_at), source.at(b, b_at)
        self.b_k, self.b_j, self.k, self.columns = b_k, b_j, k, columns

    def emit(self) -> None:
        """Vectors where rows or columns of B are contiguous, elements for the rest."""
        builder, zero = self.builder, _INT64(0)
        by_rows = builder.icmp_signed("==", self.b_j, _INT64(1))
        by_columns = builder.icmp_signed("==", self.b_k, _INT64(1))
        whole = builder.select(builder.or_(by_rows, by_columns), self._whole(self.columns), zero)
        terms = builder.select(by_rows, self.k, builder.select(by_columns, self._whole(self.k), zero))
        with builder.if_else(by_rows) as (rows, others):
            with rows:
                loop(builder, zero, terms, 1, [], lambda k, _: self._move_row(k, whole))
            with others:
                loop(builder, zero, whole, self.v.lanes, [], lambda j, _: self._transpose_columns(j, terms))
        self._move_elements(terms, self.k, zero, whole)
        self._move_elements(zero, self.k, whole, self.width)

    def _whole(self, count: Any) -> Any:
        """``count`` rounded down to whole vectors."""
        return self.builder.and_(count, _INT64(-self.v.lanes))

    def _source(self, k: Any, j: Any) -> Any:
        at = self.builder.add(self.builder.mul(k, self.b_k), self.builder.mul(j, self.b_j))
        return self.source.at(self.b, at)

    def _target(self, k: Any, j: Any) -> Any:
        return self.v.at(self.to, self.builder.add(self.builder.mul(k, self.width), j))

    def _move_row(self, k: Any, whole: Any) -> list[Any]:
        """The whole vectors of one row; a row further down is fetched meanwhile."""
        far = self.builder.add(k, _INT64(NEAR))

        def move(j: Any, _: Sequence[Any]) -> list[Any]:
            self.v.prefetch(self._source(far, j), level=1)
            self.v.store(self.source.load(self._source(k, j)), self._target(k, j))
            return []

        loop(self.builder, _INT64(0), whole, self.v.lanes, [], move)
        return []

    def _transpose_columns(self, j: Any, terms: Any) -> list[Any]:
        """LANES columns of B, whose terms are contiguous, square by square."""
        builder, lanes = self.builder, self.v.lanes

        def square(k: Any, _: Sequence[Any]) -> list[Any]:
            sources = [self._source(k, builder.add(j, _INT64(i))) for i in range(lanes)]
            for i, row in enumerate(self._transposed([self.source.load(source) for source in sources])):
                self.v.store(row, self._target(builder.add(k, _INT64(i)), j))
            return []

        loop(builder, _INT64(0), terms, lanes, [], square)
        return []

    def _transposed(self, rows: list[Any]) -> list[Any]:
        """The square matrix with these rows, transposed."""
        lanes, step = self.v.lanes, 1
        while step < lanes:
            lower = [j + lanes - step if j & step else j for j in range(lanes)]
            upper = [j + lanes if j & step else j + step for j in range(lanes)]
            for i in (i for i in range(lanes) if not i & step):
                pair = rows[i], rows[i + step]
                rows[i], rows[i + step] = (self._shuffle(*pair, indices) for indices in (lower, upper))
            step *= 2
        return rows

    def _shuffle(self, x: Any, y: Any, indices: Sequence[int]) -> Any:
        mask = ir.Constant(ir.VectorType(_INT32, self.v.lanes), list(indices))
        return self.builder.shuffle_vector(x, y, mask)

    def _move_elements(self, first: Any, last: Any, left: Any, right: Any) -> None:
        """Rows ``[first, last)`` of columns ``[left, right)``, one element at a time, zeros from ``columns`` on."""
        builder = self.builder
        valid = builder.select(builder.icmp_signed("<", self.columns, right), self.columns, right)

        def row(k: Any, _: Sequence[Any]) -> list[Any]:
            def copy(j: Any, _: Sequence[Any]) -> list[Any]:
                value = self.source.load_one(self._source(k, j))
                builder.store(value, self._target(k, j), align=self.v.itemsize)
                return []

            def clear(j: Any, _: Sequence[Any]) -> list[Any]:
                builder.store(ir.Constant(self.v.element, 0), self._target(k, j), align=self.v.itemsize)
                return []

            end, _ = loop(builder, left, valid, 1, [], copy)
            loop(builder, end, right, 1, [], clear)
            return []

        loop(builder, first, last, 1, [], row)
