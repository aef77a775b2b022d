"""Vectors in compiled code: loads, stores and arithmetic on what a buffer has, at positions counted in elements."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import Value
from numba.core import cgutils, types

from zenith.backends.cpu.narrow import Narrow, widened
from zenith.backends.cpu.vectors import multiply_add_of_width

_INT32 = ir.IntType(32)


def is_widened(stored: types.Type) -> bool:
    """Whether elements of a buffer become float32 when arithmetic reads them."""
    return isinstance(stored, Narrow) or bool(stored == types.int8)


def is_read_as(stored: types.Type, dtype: types.Type) -> bool:
    """Whether elements of a buffer can be operands of arithmetic in ``dtype``."""
    return bool(stored == dtype) or (is_widened(stored) and bool(dtype == types.float32))


def vectors(builder: ir.IRBuilder, stored: types.Type, lanes: int) -> Vectors:
    """What reads a buffer of ``stored`` elements for arithmetic."""
    return (WidenedVectors if is_widened(stored) else Vectors)(builder, stored, lanes)


class Vectors:
    """Emits operations on vectors of ``lanes`` elements of one type; positions are counted in elements."""

    def __init__(self, builder: ir.IRBuilder, dtype: Any, lanes: int) -> None:
        self.builder, self.lanes, self.itemsize = builder, lanes, dtype.bitwidth // 8
        self.is_float = isinstance(dtype, types.Float)
        kinds = {32: ir.FloatType(), 64: ir.DoubleType()}
        self.element = kinds[dtype.bitwidth] if self.is_float else ir.IntType(dtype.bitwidth)
        self.vector = ir.VectorType(self.element, lanes)
        self.zero = ir.Constant(self.vector, None)

    def at(self, pointer: Value, position: Value) -> Value:
        return self.builder.gep(pointer, [position], source_etype=self.element)

    def load(self, pointer: Value) -> Value:
        return self.builder.load(pointer, align=self.itemsize, typ=self.vector)

    def store(self, value: Value, pointer: Value) -> ir.Instruction:
        return self.builder.store(value, self.builder.bitcast(pointer, self.vector.as_pointer()), align=self.itemsize)

    def load_one(self, pointer: Value) -> Value:
        return self.builder.load(pointer, align=self.itemsize, typ=self.element)

    def splat(self, pointer: Value) -> Value:
        """The element at ``pointer`` in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, self.load_one(pointer), _INT32(0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_INT32, self.lanes), None))

    def add(self, x: Value, y: Value) -> Value:
        return self.builder.fadd(x, y) if self.is_float else self.builder.add(x, y)

    terms = 1
    """How many terms one of its vectors has in each lane."""

    def multiply_add(self, x: Value, y: Value, z: Value) -> Value:
        """``x * y + z``, rounded once where the instruction set can."""
        if not self.is_float:
            return self.builder.add(self.builder.mul(x, y), z)
        # llvmlite's declare_intrinsic cannot name vector types.
        name = f"{multiply_add_of_width(self.lanes * self.itemsize)}.v{self.lanes}f{self.itemsize * 8}"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [x, y, z])

    def prefetch(self, pointer: Value, level: int) -> None:
        """Fetch the cache line at ``pointer`` for reading, into the first or second level of the cache."""
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0")
        self.builder.call(function, [pointer, _INT32(0), _INT32(4 - level), _INT32(1)])


class WidenedVectors(Vectors):
    """Reads float32 from a buffer of 16-bit floats or int8."""

    def __init__(self, builder: ir.IRBuilder, stored: Any, lanes: int) -> None:
        super().__init__(builder, types.float32, lanes)
        self.stored, self.itemsize, self.bits = stored, stored.bitwidth // 8, ir.IntType(stored.bitwidth)

    def at(self, pointer: Value, position: Value) -> Value:
        return self.builder.gep(pointer, [position], source_etype=self.bits)

    def load(self, pointer: Value) -> Value:
        bits = ir.VectorType(self.bits, self.lanes)
        return self._widened(self.builder.load(pointer, align=self.itemsize, typ=bits), self.vector)

    def load_one(self, pointer: Value) -> Value:
        return self._widened(self.builder.load(pointer, align=self.itemsize, typ=self.bits), self.element)

    def _widened(self, bits: Value, floats: ir.Type) -> Value:
        if isinstance(self.stored, Narrow):
            return widened(self.builder, self.stored, bits)
        return self.builder.sitofp(bits, floats)
