"""Copying B into panels, in compiled code; :func:`zenith.backends.cpu.tile.pack_panel` says what it does.

Contiguous rows of B are copied a vector at a time. Contiguous columns (of a transposed B) are copied as squares of
LANES x LANES elements, transposed in registers: log2(LANES) rounds, each exchanging blocks of twice the size between
pairs of vectors (Eklundh, "A Fast Computer Method for Matrix Transposing", 1972). What is left over at the edges, and B
with two strides, goes one element at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import types
from numba.core.types import Type
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.tile import NEAR, pack_panel
from zenith.backends.cpu.tile_code import loop
from zenith.backends.cpu.vector_code import Vectors, is_read_as, vectors
from zenith.backends.cpu.word_code import Words, is_packed_as, words_of

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


@type_callable(pack_panel)
def _type_pack_panel(context: TypingContext) -> Typer:
    def typer(
        VECTORS: Type, LANES: Type, to: Buffer, to_at: Type, b: Buffer, b_at: Type, b_k: Type, b_j: Type, k: Type,
        columns: Type,
    ) -> Signature | None:  # fmt: skip
        sizes = (VECTORS, LANES)
        known = is_packed_as(b.dtype, to.dtype) or is_read_as(b.dtype, to.dtype)
        if not all(isinstance(size, types.IntegerLiteral) for size in sizes) or not known:
            return None
        i = types.intp
        return types.void(*sizes, to, i, b, i, i, i, i, i)

    return typer


@lower_builtin(pack_panel, types.VarArg(types.Any))
def _lower_pack_panel(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    count, lanes = (size.literal_value for size in signature.args[:2])
    stored, given = signature.args[2].dtype, signature.args[4].dtype
    moves = Vectors(builder, stored, lanes)
    if is_packed_as(given, stored):
        _WordPanel(moves, words_of(builder, given, lanes), count, *args[2:]).emit()
        return context.get_dummy_value()
    _Panel(moves, moves if given == stored else vectors(builder, given, lanes), count, *args[2:]).emit()
    return context.get_dummy_value()


class _Panel:
    """Emits one call of ``pack_panel``; ``v`` writes the panel and ``source`` reads B."""

    def __init__(
        self, v: Vectors, source: Vectors, vectors: int, to: Value, to_at: Value, b: Value, b_at: Value, b_k: Value,
        b_j: Value, k: Value, columns: Value,
    ) -> None:  # fmt: skip
        self.v, self.source, self.builder, self.width = v, source, v.builder, _INT64(vectors * v.lanes)
        self.to, self.b = v.at(to, to_at), source.at(b, b_at)
        self.b_k, self.b_j, self.k, self.columns = b_k, b_j, k, columns

    def emit(self) -> None:
        """Vectors where rows or columns of B are contiguous, elements for the rest."""
        builder, zero = self.builder, _INT64(0)
        by_rows = builder.icmp_signed("==", self.b_j, _INT64(1))
        by_columns = self._has_contiguous_terms()
        whole = builder.select(builder.or_(by_rows, by_columns), self._whole(self.columns), zero)
        terms = builder.select(by_rows, self.k, builder.select(by_columns, self._whole(self.k), zero))
        with builder.if_else(by_rows) as (rows, others):
            with rows:
                loop(builder, zero, terms, 1, [], lambda k, _: self._move_row(k, whole))
            with others:
                loop(builder, zero, whole, self.v.lanes, [], lambda j, _: self._transpose_columns(j, terms))
        self._move_elements(terms, self.k, zero, whole, self._element)
        self._move_elements(zero, self.k, whole, self.width, self._element)

    def _has_contiguous_terms(self) -> Value:
        return self.builder.icmp_signed("==", self.b_k, _INT64(1))

    def _whole(self, count: Value) -> Value:
        """``count`` rounded down to whole vectors."""
        return self.builder.and_(count, _INT64(-self.v.lanes))

    def _source(self, k: Value, j: Value) -> Value:
        at = self.builder.add(self.builder.mul(k, self.b_k), self.builder.mul(j, self.b_j))
        return self.source.at(self.b, at)

    def _target(self, k: Value, j: Value) -> Value:
        return self.v.at(self.to, self.builder.add(self.builder.mul(k, self.width), j))

    def _move_row(self, k: Value, whole: Value) -> list[Value]:
        """The whole vectors of one row; a row further down is fetched meanwhile."""
        far = self.builder.add(k, _INT64(NEAR))

        def move(j: Value, _: Values) -> list[Value]:
            self.v.prefetch(self._source(far, j), level=1)
            self.v.store(self._row_vector(k, j), self._target(k, j))
            return []

        loop(self.builder, _INT64(0), whole, self.v.lanes, [], move)
        return []

    def _row_vector(self, k: Value, j: Value) -> Value:
        """Neighbours in a row of B, whose columns are contiguous."""
        return self.source.load(self._source(k, j))

    def _element(self, k: Value, j: Value) -> Value:
        return self.source.load_one(self._source(k, j))

    def _transpose_columns(self, j: Value, terms: Value) -> list[Value]:
        """LANES columns of B, whose terms are contiguous, square by square."""
        builder, lanes = self.builder, self.v.lanes

        def square(k: Value, _: Values) -> list[Value]:
            sources = [self._source(k, builder.add(j, _INT64(i))) for i in range(lanes)]
            for i, row in enumerate(self._transposed([self.source.load(source) for source in sources])):
                self.v.store(row, self._target(builder.add(k, _INT64(i)), j))
            return []

        loop(builder, _INT64(0), terms, lanes, [], square)
        return []

    def _transposed(self, rows: list[Value]) -> list[Value]:
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

    def _shuffle(self, x: Value, y: Value, indices: Sequence[int]) -> Value:
        mask = ir.Constant(ir.VectorType(_INT32, self.v.lanes), list(indices))
        return self.builder.shuffle_vector(x, y, mask)

    def _move_elements(
        self, first: Value, last: Value, left: Value, right: Value, element: Callable[[Value, Value], Value]
    ) -> None:
        """Rows ``[first, last)`` of columns ``[left, right)``, one element at a time, zeros from ``columns`` on."""
        builder = self.builder
        valid = builder.select(builder.icmp_signed("<", self.columns, right), self.columns, right)

        def row(k: Value, _: Values) -> list[Value]:
            def copy(j: Value, _: Values) -> list[Value]:
                value = element(k, j)
                builder.store(value, self._target(k, j), align=self.v.itemsize)
                return []

            def clear(j: Value, _: Values) -> list[Value]:
                builder.store(ir.Constant(self.v.element, 0), self._target(k, j), align=self.v.itemsize)
                return []

            end, _ = loop(builder, left, valid, 1, [], copy)
            loop(builder, end, right, 1, [], clear)
            return []

        loop(builder, first, last, 1, [], row)


class _WordPanel(_Panel):
    """The same for words of several terms: a row is one of words, and zeros fill the last one."""

    def __init__(self, v: Vectors, source: Words, vectors: int, *given: Value) -> None:
        super().__init__(v, source, vectors, *given)
        builder, self.terms, self.words = v.builder, source.terms, source
        terms = _INT64(self.terms)
        self.next, self.left_over = self.b_k, builder.urem(self.k, terms)
        self.b_k, self.k = builder.mul(self.b_k, terms), builder.udiv(self.k, terms)

    def emit(self) -> None:
        super().emit()
        with self.builder.if_then(self.builder.icmp_signed(">", self.left_over, _INT64(0))):
            one = self.builder.add(self.k, _INT64(1))
            self._move_elements(self.k, one, _INT64(0), self.width, self._last_element)

    def _has_contiguous_terms(self) -> Value:
        if not self.words.are_contiguous:
            return ir.Constant(ir.IntType(1), 0)
        return self.builder.icmp_signed("==", self.next, _INT64(1))  # words are in memory as they are

    def _row_vector(self, k: Value, j: Value) -> Value:
        return self._joined(self._source(k, j), self.v.vector)

    def _element(self, k: Value, j: Value) -> Value:
        return self._joined(self._source(k, j), self.v.element)

    def _joined(self, pointer: Value, words: ir.Type) -> Value:
        """Words of what is at a pointer and, in higher bits, a term further, and so on."""
        builder = self.builder
        joined: Value = ir.Constant(words, None)
        for term in range(self.terms):
            part = self.words.term(self._term(pointer, term), words)
            joined = builder.or_(joined, self._shifted(part, term))
        return joined

    def _last_element(self, k: Value, j: Value) -> Value:
        """The word of the terms left over, which are fewer than a word has."""
        builder, word, pointer = self.builder, self.v.element, self._source(k, j)
        joined = self.words.term(pointer, word)
        for term in range(1, self.terms - 1):
            has_term = builder.icmp_signed(">", self.left_over, _INT64(term))
            own = builder.select(has_term, self._term(pointer, term), pointer)
            part = self.words.term(own, word)
            joined = builder.or_(joined, builder.select(has_term, self._shifted(part, term), word(0)))
        return joined

    def _term(self, pointer: Value, term: int) -> Value:
        return self.source.at(pointer, self.builder.mul(self.next, _INT64(term)))

    def _shifted(self, value: Value, term: int) -> Value:
        """The part of a word as its term of that number."""
        bits = term * (32 // self.terms)
        return self.builder.shl(
            value, ir.Constant(value.type, bits if value.type == self.v.element else [bits] * self.v.lanes)
        )
