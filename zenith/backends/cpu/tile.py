"""The register tile: the innermost part of every matrix product, emitted as LLVM vectors that stay in registers.

``product_tile`` multiplies ROWS rows of A with a panel of VECTORS * LANES columns of B. Each of its ROWS * VECTORS
accumulators is one vector register while K runs, which no loop that a vectoriser has to transform can promise. A kernel
calls it on a small scratch tile C and then applies bias, activation and residual to C, still in the first-level cache,
with ordinary loops.

The same name is an ordinary Python function on NumPy arrays (its twin), so that a kernel runs undecorated. In compiled
code a buffer is a ``CPointer``; in both, positions and strides are counted in elements.

Order of summation: the terms are cut into blocks of ``BLOCK``. A block starts from zero and takes its terms in order;
blocks are added to the total in order. Nothing else enters: an element depends on K and on whether the instruction set
fuses multiply and add, not on the tile, on its neighbours, or on who computes it. Short blocks bound the rounding error
of long sums.

The design of the tile and of the packed panels follows Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication" (ACM TOMS 34, 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu.vectors import multiply_add_of_width

BLOCK = 512  # terms summed from zero before they join the total: 3 times less error at K = 3072, at no measurable cost
UNROLL = 4  # terms per turn of the loop; 2 was 5 % slower, 8 doubles the code
LINE = 64  # bytes of a cache line

_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def lookahead(itemsize: int) -> int:
    """How many elements of B one call fetches ahead per term: one cache line in every turn of the loop."""
    return LINE // itemsize // UNROLL


def product_tile(
    ROWS: int, VECTORS: int, LANES: int,
    c: Any, c_at: int, c_row: int,
    a: Any, a_at: int, a_row: int, a_k: int,
    b: Any, b_at: int, b_k: int,
    k: int, ahead: int,
) -> None:  # fmt: skip
    """Compute ``C[r, j] = sum over kk of A[r, kk] * B[kk, j]`` for ROWS rows and VECTORS * LANES columns.

    ``A[r, kk]`` is ``a[a_at + r*a_row + kk*a_k]``, ``B[kk, j]`` is ``b[b_at + kk*b_k + j]`` and ``C[r, j]`` is
    ``c[c_at + r*c_row + j]``. The three buffers have one element type: float32, float64, int32, int64 or uint32, whose
    sums wrap. All columns of C are written whatever they held; C overlaps neither A nor B; ``k`` may be 0. Meanwhile
    ``k * lookahead(itemsize)`` elements of B from position ``ahead`` on are fetched into the second-level cache; a
    position outside the buffer is harmless. ROWS, VECTORS and LANES are literals in compiled code.

    >>> c, a, b = np.zeros(8, np.float32), np.arange(6, dtype=np.float32), np.ones(12, np.float32)
    >>> product_tile(2, 1, 4, c, 0, 4, a, 0, 3, 1, b, 0, 4, 3, 0)
    >>> c
    array([ 3.,  3.,  3.,  3., 12., 12., 12., 12.], dtype=float32)
    """
    rows, terms, columns = np.arange(ROWS)[:, None], np.arange(k), np.arange(VECTORS * LANES)
    left = a[a_at + rows * a_row + terms * a_k]
    right = b[b_at + terms[:, None] * b_k + columns]
    with np.errstate(all="ignore"):
        c[c_at + rows * c_row + columns] = left @ right


@type_callable(product_tile)
def _type_product_tile(context: Any) -> Callable[..., Any]:
    def typer(
        ROWS: Any, VECTORS: Any, LANES: Any, c: Any, c_at: Any, c_row: Any, a: Any, a_at: Any, a_row: Any, a_k: Any,
        b: Any, b_at: Any, b_k: Any, k: Any, ahead: Any,
    ) -> Any:  # fmt: skip
        sizes = (ROWS, VECTORS, LANES)
        if not all(isinstance(size, types.IntegerLiteral) for size in sizes):
            return None
        if not c.dtype == a.dtype == b.dtype:
            return None
        i = types.intp
        return types.void(*sizes, c, i, i, a, i, i, i, b, i, i, i, i)

    return typer


@lower_builtin(product_tile, types.VarArg(types.Any))
def _lower_product_tile(context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[Any]) -> Any:
    rows, vectors, lanes = (size.literal_value for size in signature.args[:3])
    operations = _Vectors(builder, signature.args[3].dtype, lanes)
    _Tile(operations, rows, vectors, *args[3:]).emit()
    return context.get_dummy_value()


class _Vectors:
    """Emits operations on vectors of ``lanes`` elements of one type; positions are counted in elements."""

    def __init__(self, builder: ir.IRBuilder, dtype: Any, lanes: int) -> None:
        self.builder, self.lanes, self.itemsize = builder, lanes, dtype.bitwidth // 8
        self.is_float = isinstance(dtype, types.Float)
        kinds = {32: ir.FloatType(), 64: ir.DoubleType()}
        self.element = kinds[dtype.bitwidth] if self.is_float else ir.IntType(dtype.bitwidth)
        self.vector = ir.VectorType(self.element, lanes)
        self.zero = ir.Constant(self.vector, None)

    def at(self, pointer: Any, position: Any) -> Any:
        return self.builder.gep(pointer, [position], source_etype=self.element)

    def load(self, pointer: Any) -> Any:
        return self.builder.load(pointer, align=self.itemsize, typ=self.vector)

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, self.builder.bitcast(pointer, self.vector.as_pointer()), align=self.itemsize)

    def splat(self, pointer: Any) -> Any:
        """The element at ``pointer`` in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        scalar = self.builder.load(pointer, align=self.itemsize, typ=self.element)
        first = self.builder.insert_element(undefined, scalar, _INT32(0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, self.lanes), None))

    def add(self, x: Any, y: Any) -> Any:
        return self.builder.fadd(x, y) if self.is_float else self.builder.add(x, y)

    def multiply_add(self, x: Any, y: Any, z: Any) -> Any:
        """``x * y + z``, rounded once where the instruction set can."""
        if not self.is_float:
            return self.builder.add(self.builder.mul(x, y), z)
        # llvmlite's declare_intrinsic cannot name vector types.
        name = f"{multiply_add_of_width(self.lanes * self.itemsize)}.v{self.lanes}f{self.itemsize * 8}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [x, y, z])

    def prefetch(self, pointer: Any) -> None:
        """Fetch the cache line at ``pointer`` for reading, into the second level."""
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(function, [pointer, _INT32(0), _INT32(2), _INT32(1)])


class _Tile:
    """Emits one call of ``product_tile``."""

    def __init__(
        self, v: _Vectors, rows: int, vectors: int,
        c: Any, c_at: Any, c_row: Any,
        a: Any, a_at: Any, a_row: Any, a_k: Any,
        b: Any, b_at: Any, b_k: Any,
        k: Any, ahead: Any,
    ) -> None:  # fmt: skip
        self.v, self.builder, self.vectors = v, v.builder, vectors
        self.k, self.a_k, self.b_k = k, a_k, b_k
        self.columns = [_INT64(j * v.lanes) for j in range(vectors)]
        self.a_rows = [v.at(v.at(a, a_at), self._times(a_row, r)) for r in range(rows)]
        c_rows = [v.at(v.at(c, c_at), self._times(c_row, r)) for r in range(rows)]
        self.c_vectors = [v.at(row, column) for row in c_rows for column in self.columns]
        self.b, self.ahead = v.at(b, b_at), v.at(b, ahead)

    def _times(self, stride: Any, count: int) -> Any:
        return self.builder.mul(stride, _INT64(count))

    def emit(self) -> None:
        """The loop over blocks of terms. The first block also runs when K is 0, and then writes zeros."""
        at_least_one = self.builder.select(self.builder.icmp_signed(">", self.k, _INT64(0)), self.k, _INT64(1))
        stop = self.builder.add(at_least_one, _INT64(BLOCK - 1))
        _loop(self.builder, _INT64(0), stop, BLOCK, [], self._block)

    def _block(self, start: Any, _: Sequence[Any]) -> list[Any]:
        """Sum the terms of one block in registers and add them to C; the first block replaces what C held."""
        builder, v = self.builder, self.v
        end = builder.add(start, _INT64(BLOCK))
        end = builder.select(builder.icmp_signed("<", end, self.k), end, self.k)
        sums: Sequence[Any] = [v.zero] * len(self.c_vectors)
        middle, sums = _loop(builder, start, end, UNROLL, sums, self._turn)
        _, sums = _loop(builder, middle, end, 1, sums, self._term)
        is_first = builder.icmp_signed("==", start, _INT64(0))
        for pointer, total in zip(self.c_vectors, sums, strict=True):
            v.store(v.add(builder.select(is_first, v.zero, v.load(pointer)), total), pointer)
        return []

    def _turn(self, kk: Any, sums: Sequence[Any]) -> Sequence[Any]:
        """UNROLL terms, and one cache line of what comes next."""
        self.v.prefetch(self.v.at(self.ahead, self._times(kk, lookahead(self.v.itemsize))))
        for offset in range(UNROLL):
            sums = self._term(self.builder.add(kk, _INT64(offset)), sums)
        return sums

    def _term(self, kk: Any, sums: Sequence[Any]) -> list[Any]:
        """One column of A times one row of B."""
        v, builder = self.v, self.builder
        b_row = v.at(self.b, builder.mul(kk, self.b_k))
        right = [v.load(v.at(b_row, column)) for column in self.columns]
        a_column = builder.mul(kk, self.a_k)
        before, after = iter(sums), []
        for row in self.a_rows:
            left = v.splat(
                v.at(row, a_column)
            )  # emitted next to its only uses, it needs a register no longer than that
            after += [v.multiply_add(left, y, next(before)) for y in right]
        return after


_Body = Callable[[Any, Sequence[Any]], Sequence[Any]]


def _loop(
    builder: ir.IRBuilder, start: Any, stop: Any, step: int, carried: Sequence[Any], body: _Body
) -> tuple[Any, list[Any]]:
    """Emit a loop over i = start, start + step, ... while i + step <= stop, with values carried from turn to turn.

    Returns the first i that did not run and the carried values.
    """
    before = builder.block
    header, inside, after = (builder.append_basic_block(f"tile.{part}") for part in ("header", "inside", "after"))
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
    _keep_rolled(builder.branch(header))
    builder.position_at_end(after)
    return i, values


def _keep_rolled(latch: Any) -> None:
    """Tell LLVM not to unroll the loop of this back edge: it would spend code and compile time on the last terms."""
    module = latch.function.module
    disable = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    loop = module.add_metadata([disable, _INT32(len(module.metadata))])  # the number keeps loops apart
    loop.operands = (loop, disable)  # LLVM knows a loop's record by its reference to itself
    latch.set_metadata("llvm.loop", loop)
