"""Memory of CUDA kernels: vectorized accesses of 16 bytes, shared memory of a block, local memory of a thread.

``load_4(buffer, at)`` reads four neighbours in one instruction into a *strip*, a small local array of the thread;
``strip_4(buffer)`` makes an empty one, ``store_4(buffer, at, strip)`` writes one back. The loops over a strip have a
constant length: NVVM unrolls them, and strips are in registers. ``f32_shared(n)`` is memory of the block and
``f32_local(n)`` of the thread. ``u8_dynamic(n)`` is the block's dynamic shared memory, which a launch requests;
``f32_within(memory, offset)`` points to elements in such memory from a byte on.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from llvmlite import ir
from numba.core import cgutils, types

from zenith.backends.cpu.numba_protocols import Intrinsic, Signature, TargetContext, TypingContext, Values

WIDTHS = (2, 4, 8, 16)
WIDEST = 4  # words that one instruction moves
WORD = 32  # bits of a word, in which smaller elements are moved together
SHARED_SPACE = 3
ALIGNMENT = 16  # bytes of shared memory, and of the widest access
_numbers = count()


def wide_functions() -> dict[str, object]:
    """``load_N``, ``strip_N`` and ``store_N`` for all widths."""
    names: dict[str, object] = {}
    for width in WIDTHS:
        names |= {f"load_{width}": _load(width), f"strip_{width}": _strip(width), f"store_{width}": _store(width)}
    return names


def arrays(kinds: dict[str, types.Type]) -> dict[str, object]:
    """``<kind>_shared(length)`` and ``<kind>_local(length)`` for element types by name; lengths are literals."""
    shared = {f"{name}_shared": _array(kind, _shared) for name, kind in kinds.items()}
    shared |= {f"{name}_within": _within(kind) for name, kind in kinds.items()}
    shared["u8_dynamic"] = _array(types.uint8, _dynamic)
    return shared | {f"{name}_local": _array(kind, _local) for name, kind in kinds.items()}


def _vector_at(builder: ir.IRBuilder, pointer: ir.Value, at: ir.Value, width: int) -> tuple[ir.Value, int]:
    """A pointer to ``width`` neighbours from an index on, and its alignment."""
    first = builder.gep(pointer, [builder.zext(at, cgutils.intp_t) if at.type.width < 64 else at])
    element = pointer.type.pointee
    bits = element.width if isinstance(element, ir.IntType) else 64 if isinstance(element, ir.DoubleType) else 32
    return builder.bitcast(first, ir.VectorType(element, width).as_pointer()), min(width * bits // 8, ALIGNMENT)


def _in_words(pointer: ir.Value) -> ir.VectorType:
    """The vector type that one instruction moves for a pointer's: words that pack more than four small elements."""
    vector = pointer.type.pointee
    if vector.count <= WIDEST or not isinstance(vector.element, ir.IntType):
        return vector
    together = WORD // vector.element.width
    return ir.VectorType(ir.IntType(WORD), vector.count // together) if together > 1 else vector


def _load(width: int) -> object:
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        buffer, at = args
        pointer, alignment = _vector_at(builder, buffer, at, width)
        words = _in_words(pointer)
        vector = builder.load(builder.bitcast(pointer, words.as_pointer()))
        vector.align = alignment
        strip = _local(builder, buffer.type.pointee, width)
        each = width // words.count
        for number in range(width):
            element = builder.extract_element(vector, cgutils.int32_t(number // each))
            if each > 1:
                moved = builder.lshr(element, element.type(number % each * buffer.type.pointee.width))
                element = builder.trunc(moved, buffer.type.pointee)
            builder.store(element, builder.gep(strip, [cgutils.int32_t(number)]))
        return strip

    return intrinsic(lambda typing, buffer, at: (buffer(buffer, at), emit))


def _strip(width: int) -> object:
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return _local(builder, args[0].type.pointee, width)

    return intrinsic(lambda typing, buffer: (buffer(buffer), emit))


def _store(width: int) -> object:
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        buffer, at, strip = args
        pointer, alignment = _vector_at(builder, buffer, at, width)
        words = _in_words(pointer)
        vector: ir.Value = ir.Constant(words, ir.Undefined)
        each = width // words.count
        elements = [builder.load(builder.gep(strip, [cgutils.int32_t(number)])) for number in range(width)]
        for number in range(words.count):
            word = _joined(builder, elements[each * number : each * (number + 1)], words.element)
            vector = builder.insert_element(vector, word, cgutils.int32_t(number))
        builder.store(vector, builder.bitcast(pointer, words.as_pointer())).align = alignment
        return context.get_dummy_value()

    return intrinsic(lambda typing, buffer, at, strip: (types.void(buffer, at, strip), emit))


def _joined(builder: ir.IRBuilder, elements: Values, word: ir.Type) -> ir.Value:
    """Elements side by side in one word, the first in the lowest bits."""
    result, *rest = elements if len(elements) == 1 else [builder.zext(e, word) for e in elements]
    for number, element in enumerate(rest, 1):
        result = builder.or_(result, builder.shl(element, word(number * elements[0].type.width)))
    return result


def _array(kind: types.Type, allocate: Callable[[ir.IRBuilder, ir.Type, int], ir.Value]) -> object:
    from numba.cuda.extending import intrinsic

    def describe(typing: TypingContext, length: types.Type) -> Intrinsic | None:
        if not isinstance(length, types.IntegerLiteral):
            return None

        def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
            return allocate(builder, context.get_data_type(kind), length.literal_value)

        return types.CPointer(kind)(length), emit

    return intrinsic(describe)


def _local(builder: ir.IRBuilder, element: ir.Type, length: int) -> ir.Value:
    """A local array of the thread, allocated in the entry block, so that LLVM can promote it to registers."""
    with builder.goto_entry_block():
        array = builder.alloca(ir.ArrayType(element, length))
    return builder.gep(array, [cgutils.int32_t(0), cgutils.int32_t(0)])


def _shared(builder: ir.IRBuilder, element: ir.Type, length: int) -> ir.Value:
    """An array that all threads of a block share, as an ordinary pointer."""
    kind = ir.ArrayType(element, length)
    array = ir.GlobalVariable(builder.module, kind, f"shared{next(_numbers)}", SHARED_SPACE)
    array.linkage, array.align, array.initializer = "internal", ALIGNMENT, ir.Constant(kind, ir.Undefined)
    first = builder.gep(array, [cgutils.int32_t(0), cgutils.int32_t(0)])
    return builder.addrspacecast(first, element.as_pointer())


def _dynamic(builder: ir.IRBuilder, element: ir.Type, length: int) -> ir.Value:
    """The dynamic shared memory that a launch requests; its length is not known to the code."""
    kind = ir.ArrayType(element, 0)
    array = ir.GlobalVariable(builder.module, kind, f"shared{next(_numbers)}", SHARED_SPACE)
    array.linkage, array.align = "external", ALIGNMENT
    first = builder.gep(array, [cgutils.int32_t(0), cgutils.int32_t(0)])
    return builder.addrspacecast(first, element.as_pointer())


def _within(kind: types.Type) -> object:
    from numba.cuda.extending import intrinsic

    def describe(typing: TypingContext, memory: types.Type, offset: types.Type) -> Intrinsic | None:
        if not isinstance(offset, types.IntegerLiteral):
            return None

        def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
            there = builder.gep(args[0], [cgutils.intp_t(offset.literal_value)])
            return builder.bitcast(there, context.get_data_type(kind).as_pointer())

        return types.CPointer(kind)(memory, offset), emit

    return intrinsic(describe)
