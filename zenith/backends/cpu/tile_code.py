"""The register tile in compiled code: LLVM vectors that stay in registers; :mod:`zenith.backends.cpu.tile` says what.

A buffer is a pointer. The order of summation is documented there; nothing here may change it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import types
from numba.core.types import Type
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.buffers import Buffer, preferred_width
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.tile import LINE, NEAR, UNROLL, gathered_tile, lookahead, product_tile
from zenith.backends.cpu.vector_code import Vectors, is_read_as, vectors
from zenith.backends.cpu.word_code import Words, are_words, panel_of

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


@type_callable(product_tile)
def _type_product_tile(context: TypingContext) -> Callable[..., Signature | None]:
    def typer(
        ROWS: Type, VECTORS: Type, LANES: Type, LINES: Type, c: Buffer, c_at: Type, c_row: Type, a: Buffer, a_at: Type,
        a_row: Type, a_k: Type, b: Buffer, b_at: Type, b_k: Type, k: Type, ahead: Type, onto: Type,
    ) -> Signature | None:  # fmt: skip
        sizes = (ROWS, VECTORS, LANES, LINES)
        if not all(isinstance(size, types.IntegerLiteral) for size in sizes):
            return None
        has_words = are_words(c.dtype, a.dtype, b.dtype)
        if not has_words and not all(is_read_as(x.dtype, c.dtype) for x in (a, b)):
            return None
        i = types.intp
        return types.void(*sizes, c, i, i, a, i, i, i, b, i, i, i, i, i)

    return typer


@type_callable(gathered_tile)
def _type_gathered_tile(context: TypingContext) -> Typer:
    plain = _type_product_tile(context)

    def typer(
        ROWS: Type, VECTORS: Type, LANES: Type, LINES: Type, c: Buffer, c_at: Type, c_row: Type, a: Buffer, a_at: Type,
        rows: Buffer, row: Type, a_k: Type, offsets: Buffer, first: Type, segments: Type, b: Buffer, b_at: Type,
        b_k: Type, k: Type, ahead: Type, onto: Type,
    ) -> Signature | None:  # fmt: skip
        found = plain(ROWS, VECTORS, LANES, LINES, c, c_at, c_row, a, a_at, row, a_k, b, b_at, b_k, k, ahead, onto)
        if found is None or offsets.dtype != types.int64 or rows.dtype != types.int64:
            return None
        i = types.intp
        return types.void(*found.args[:9], rows, i, i, offsets, i, i, *found.args[11:])

    return typer


@lower_builtin(product_tile, types.VarArg(types.Any))
def _lower_product_tile(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    a, a_at, a_row, a_k = args[7:11]
    of_a = vectors(builder, signature.args[7].dtype, signature.args[2].literal_value)
    first = of_a.at(a, a_at)
    rows = [of_a.at(first, builder.mul(a_row, _INT64(r))) for r in range(signature.args[0].literal_value)]
    _call_tile(builder, signature, args[4:7], (a_k, rows), 11, args[11:], ())
    return context.get_dummy_value()


@lower_builtin(gathered_tile, types.VarArg(types.Any))
def _lower_gathered_tile(context: TargetContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> Value:
    a, a_at, table, row, a_k, offsets, first, segments = args[7:15]
    of_a = vectors(builder, signature.args[7].dtype, signature.args[2].literal_value)
    begin, numbers = of_a.at(a, a_at), builder.gep(table, [row], source_etype=_INT64)
    rows = []
    for r in range(2 * signature.args[0].literal_value):
        entry = builder.gep(numbers, [_INT64(r)], source_etype=_INT64)
        rows.append(of_a.at(begin, builder.load(entry, align=8, typ=_INT64)))
    gathered = builder.gep(offsets, [first], source_etype=_INT64), segments
    _call_tile(builder, signature, args[4:7], (a_k, rows), 15, args[15:], gathered)
    return context.get_dummy_value()


def _call_tile(
    builder: ir.IRBuilder, signature: Signature, of_c: Values, of_a: tuple[Value, Values], b_argument: int,
    of_b: Values, gathered: Values,
) -> None:  # fmt: skip
    """Call the tile's function; B is the argument of the number ``b_argument``."""
    shape = tuple(size.literal_value for size in signature.args[:4])
    dtypes = tuple(signature.args[i].dtype for i in (4, 7, b_argument))
    (c, c_at, c_row), (a_k, rows), (b, b_at, b_k, k, ahead, onto) = of_c, of_a, of_b
    c_vectors, _, b_vectors = (vectors(builder, dtype, shape[2]) for dtype in dtypes)
    c, b, ahead = c_vectors.at(c, c_at), b_vectors.at(b, b_at), b_vectors.at(b, ahead)
    given = [*gathered, c, c_row, b, b_k, ahead, k, onto, a_k, *rows]
    name = f"{'gathered' if gathered else 'product'}_tile_{'_'.join(map(str, (*shape, *dtypes)))}"
    function = builder.module.globals.get(name) or _tile_function(builder.module, name, shape, dtypes, given)
    builder.call(function, given)


def _tile_function(
    module: ir.Module, name: str, shape: tuple[int, ...], dtypes: tuple[Type, Type, Type], given: Values
) -> Value:
    """A tile as a function of its own: a kernel that calls it twice has it once, and LLVM optimises less at a time.

    The rows of A are arguments, so that LLVM keeps a register for each: where it knows that they are equally far apart,
    it derives addresses from one another and then has to spill sums, at half the speed.
    """
    function, builder = new_function(module, name, given)
    of_c, of_a, of_b = (vectors(builder, dtype, shape[2]) for dtype in dtypes)
    multiply_add = of_c.multiply_add
    if are_words(*dtypes):
        of_a, of_b = Words(builder, dtypes[1], shape[2]), panel_of(builder, dtypes[1], shape[2])
        multiply_add = of_b.multiply_add
    first = 2 if len(given) > shape[0] + 8 else 0  # after the offsets and number of segments, of a gathered tile
    _Tile(of_c, of_a, of_b, multiply_add, shape, *function.args[first:]).emit(*function.args[:first])
    builder.ret_void()
    return function


def new_function(module: ir.Module, name: str, given: Values) -> tuple[ir.Function, ir.IRBuilder]:
    """A function of a tile's own, which takes what is ``given`` and returns nothing, and a builder of its body."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [x.type for x in given]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    set.add(function.attributes, preferred_width())
    return function, ir.IRBuilder(function.append_basic_block())


class _Tile:
    """Emits one tile; ``c``, ``b``, ``ahead`` and the rows of A are pointers, the last followed by rows to prefetch."""

    def __init__(
        self, v: Vectors, of_a: Vectors, of_b: Vectors, multiply_add: Callable[[Value, Value, Value], Value],
        shape: tuple[int, ...], c: Value, c_row: Value, b: Value, b_k: Value, ahead: Value, k: Value, onto: Value,
        a_k: Value, *a_rows: Value,
    ) -> None:  # fmt: skip
        self.v, self.of_a, self.of_b, self.builder = v, of_a, of_b, v.builder
        self.b, self.b_k, self.ahead, self.onto = b, b_k, ahead, onto
        self.k, self.a_k = self._steps(k), self._times(a_k, of_a.terms)
        self.multiply_add = multiply_add
        self.a_rows, self.following = a_rows[: shape[0]], a_rows[shape[0] :]
        self.lines, self.ahead_k = shape[3], shape[3] * lookahead(of_b.itemsize)
        self.columns = [_INT64(j * v.lanes) for j in range(shape[1])]
        c_rows = [v.at(c, self._times(c_row, r)) for r in range(shape[0])]
        self.c_vectors = [v.at(row, column) for row in c_rows for column in self.columns]

    def _times(self, stride: Value, count: int) -> Value:
        return self.builder.mul(stride, _INT64(count))

    def _steps(self, terms: Value) -> Value:
        """How many steps these terms take."""
        if self.of_a.terms == 1:
            return terms
        return self.builder.udiv(self.builder.add(terms, _INT64(self.of_a.terms - 1)), _INT64(self.of_a.terms))

    def emit(self, offsets: Value | None = None, segments: Any = None) -> None:
        """Sum all terms in registers, then store the sums to C or add them to what is there.

        The loop carries the sums and two positions, in A's rows and of B's row, which advance by additions: with
        strides that LLVM does not know, products of strides and terms took as long as the sums.
        """
        builder, v = self.builder, self.v
        self.near = self._times(self.b_k, NEAR)
        sums: Values = [v.zero] * len(self.c_vectors)
        if offsets is None:
            _, *sums = self._segment(_INT64(0), [self.b, *sums])
        else:
            state = [self.b, self.ahead, *sums]
            _, (_, _, *sums) = loop(builder, _INT64(0), segments, 1, state, partial(self._gather, offsets))
        replaces = builder.icmp_signed("==", self.onto, _INT64(0))
        for pointer, total in zip(self.c_vectors, sums, strict=True):
            v.store(v.add(builder.select(replaces, v.zero, v.load(pointer)), total), pointer)

    def _gather(self, offsets: Value, segment: Value, state: Values) -> Values:
        """The terms of a segment, whose offset is loaded."""
        row, self.ahead, *sums = state
        offset = self.builder.load(self.builder.gep(offsets, [segment], source_etype=_INT64), align=8, typ=_INT64)
        for following in self.following:
            self.of_a.prefetch(self.of_a.at(following, offset), level=2)
        row, *sums = self._segment(offset, [row, *sums])
        return [row, self.of_b.at(self.ahead, self._times(self.k, self.ahead_k)), *sums]

    def _segment(self, offset: Value, state: Values) -> Values:
        """Terms that follow each other from an offset in A's rows on."""
        middle, state = loop(self.builder, _INT64(0), self.k, UNROLL, [offset, *state], self._unrolled_terms)
        _, state = loop(self.builder, middle, self.k, 1, state, self._term)
        return state[1:]

    def _unrolled_terms(self, kk: Value, state: Values) -> Values:
        """UNROLL terms; prefetches as many rows further down B, and some cache lines of the next panel."""
        v, ahead = self.of_b, self.of_b.at(self.ahead, self._times(kk, self.ahead_k))
        for line in range(self.lines):
            v.prefetch(v.at(ahead, _INT64(line * LINE // v.itemsize)), level=2)
        for _ in range(UNROLL):
            self._fetch(v.at(state[1], self.near))
            state = self._term(kk, state)
        return state

    def _fetch(self, row: Value) -> None:
        """Fetch a row of B into the first level."""
        for j in range(0, len(self.columns) * self.v.lanes, LINE // self.of_b.itemsize):
            self.of_b.prefetch(self.of_b.at(row, _INT64(j)), level=1)

    def _term(self, _: Value, state: Values) -> list[Value]:
        """One column of A times one row of B."""
        a, b = self.of_a, self.of_b
        a_at, b_row, *sums = state
        right = [b.load(b.at(b_row, column)) for column in self.columns]
        before, after = iter(sums), []
        for row in self.a_rows:
            left = a.splat(a.at(row, a_at))  # next to its only uses: it needs a register no longer than that
            after += [self.multiply_add(left, y, next(before)) for y in right]
        return [self.builder.add(a_at, self.a_k), b.at(b_row, self.b_k), *after]


_Body = Callable[[Value, Values], Values]


def loop(
    builder: ir.IRBuilder, start: Value, stop: Value, step: int, carried: Values, body: _Body
) -> tuple[Value, Values]:
    """Emit a loop over i = start, start + step, ... while i + step <= stop, with loop-carried values.

    Returns the first i that did not run and the carried values.
    """
    before = builder.block
    header, inside, after = (builder.append_basic_block(f"tile.{name}") for name in ("header", "inside", "after"))
    builder.branch(header)
    builder.position_at_end(header)
    phis = [builder.phi(value.type) for value in (start, *carried)]
    i, *values = phis
    following = builder.add(i, _INT64(step))
    builder.cbranch(builder.icmp_signed("<=", following, stop), inside, after)
    builder.position_at_end(inside)
    results = body(i, values)
    for phi, first, result in zip(phis, (start, *carried), (following, *results), strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(result, builder.block)
    _forbid_unrolling(builder.branch(header))
    builder.position_at_end(after)
    return i, values


def _forbid_unrolling(latch: ir.Branch) -> None:
    """Forbid LLVM to unroll the loop of this back edge: it would spend code and compile time on the last terms."""
    module = latch.function.module
    disable = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    loop = module.add_metadata([disable, _INT32(len(module.metadata))])  # the number makes it distinct
    loop.operands = (loop, disable)  # LLVM identifies a loop's metadata by its reference to itself
    latch.set_metadata("llvm.loop", loop)
