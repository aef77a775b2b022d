"""What Zenith uses of `llvmlite.ir`: types, values and the builder of instructions."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Undefined: object

# --- types -------------------------------------------------------------------------------------------------------

class Type:
    def __call__(self, value: object) -> Constant: ...
    def as_pointer(self, addrspace: int = 0) -> PointerType: ...

class VoidType(Type): ...
class HalfType(Type): ...
class FloatType(Type): ...
class DoubleType(Type): ...

class IntType(Type):
    width: int
    def __init__(self, bits: int) -> None: ...

class PointerType(Type):
    pointee: Any
    def __init__(self, addrspace: int = 0) -> None: ...

class VectorType(Type):
    element: Any
    count: int
    def __init__(self, element: Type, count: int) -> None: ...

class ArrayType(Type):
    element: Any
    count: int
    def __init__(self, element: Type, count: int) -> None: ...

class LiteralStructType(Type):
    def __init__(self, elems: Iterable[Type]) -> None: ...

class FunctionType(Type):
    def __init__(self, return_type: Type, args: Iterable[Type]) -> None: ...

# --- values ------------------------------------------------------------------------------------------------------

class Value:
    type: Any  # the Type that its kind of value has: an integer's has a width, a vector's a count

class Constant(Value):
    constant: Any
    def __init__(self, typ: Type, constant: object) -> None: ...

class InlineAsm(Value):
    def __init__(self, ftype: FunctionType, asm: str, constraint: str, side_effect: bool = False) -> None: ...

class Instruction(Value):
    opname: str
    operands: Sequence[Any]
    metadata: dict[str, MDValue]
    function: Function
    align: int | None
    def set_metadata(self, name: str, node: MDValue) -> None: ...

class CallInstr(Instruction):
    attributes: set[str]

class PhiInstr(Instruction):
    def add_incoming(self, value: Value, block: Block) -> None: ...

class Branch(Instruction): ...

class MetaDataString(Value):
    def __init__(self, parent: Module, string: str) -> None: ...

class MDValue(Value):
    operands: tuple[Value, ...]
    def __init__(self, parent: Module, values: Sequence[Value], name: str) -> None: ...

class GlobalValue(Value):
    name: str
    linkage: str
    blocks: list[Block]
    initializer: Constant | None

class GlobalVariable(GlobalValue):
    align: int
    section: str
    value_type: Type
    def __init__(self, module: Module, typ: Type, name: str, addrspace: int = 0) -> None: ...

class Block(Value):
    instructions: list[Instruction]
    terminator: Instruction | None

class Function(GlobalValue):
    module: Module
    args: tuple[Value, ...]
    attributes: set[str]
    is_declaration: bool
    def bitcast(self, typ: Type) -> Constant: ...
    def __init__(self, module: Module, ftype: FunctionType, name: str) -> None: ...
    def append_basic_block(self, name: str = "") -> Block: ...

class Module:
    triple: str
    data_layout: str
    globals: dict[str, Any]
    global_values: Iterable[GlobalValue]
    functions: Sequence[Function]
    metadata: Sequence[MDValue]
    def __init__(self, name: str = "") -> None: ...
    def add_metadata(self, operands: Sequence[Value]) -> MDValue: ...

# --- the builder -------------------------------------------------------------------------------------------------

class _Unary(Protocol):
    def __call__(self, value: Value, /) -> Value: ...

class _Binary(Protocol):
    def __call__(self, lhs: Value, rhs: Value, /, *, flags: Sequence[str] = ()) -> Value: ...

class _Compare(Protocol):
    def __call__(self, cmpop: str, lhs: Value, rhs: Value, /) -> Value: ...

class _Cast(Protocol):
    def __call__(self, value: Value, typ: Type, /) -> Value: ...

class IRBuilder:
    module: Module
    function: Function
    block: Block
    add: _Binary
    sub: _Binary
    mul: _Binary
    sdiv: _Binary
    udiv: _Binary
    srem: _Binary
    urem: _Binary
    fadd: _Binary
    fsub: _Binary
    fmul: _Binary
    fdiv: _Binary
    frem: _Binary
    and_: _Binary
    or_: _Binary
    xor: _Binary
    shl: _Binary
    lshr: _Binary
    ashr: _Binary
    neg: _Unary
    fneg: _Unary
    icmp_signed: _Compare
    icmp_unsigned: _Compare
    fcmp_ordered: _Compare
    fcmp_unordered: _Compare
    trunc: _Cast
    zext: _Cast
    sext: _Cast
    fptrunc: _Cast
    fpext: _Cast
    fptosi: _Cast
    sitofp: _Cast
    bitcast: _Cast
    addrspacecast: _Cast
    inttoptr: _Cast
    ptrtoint: _Cast
    def __init__(self, block: Block | None = None) -> None: ...
    def select(self, cond: Value, lhs: Value, rhs: Value) -> Value: ...
    def extract_element(self, vector: Value, idx: Value) -> Value: ...
    def insert_element(self, vector: Value, value: Value, idx: Value) -> Value: ...
    def shuffle_vector(self, vector1: Value, vector2: Value, mask: Value) -> Value: ...
    def extract_value(self, agg: Value, idx: int) -> Value: ...
    def insert_value(self, agg: Value, value: Value, idx: int) -> Value: ...
    def alloca(self, typ: Type) -> Instruction: ...
    def gep(
        self, ptr: Value, indices: Sequence[Value], inbounds: bool = False, *, source_etype: Type | None = None
    ) -> Instruction: ...
    def load(self, ptr: Value, *, align: int | None = None, typ: Type | None = None) -> Instruction: ...
    def store(self, value: Value, ptr: Value, align: int | None = None) -> Instruction: ...
    def load_atomic(self, ptr: Value, ordering: str, align: int, *, typ: Type) -> Instruction: ...
    def store_atomic(self, value: Value, ptr: Value, ordering: str, align: int) -> Instruction: ...
    def atomic_rmw(self, op: str, ptr: Value, val: Value, ordering: str) -> Value: ...
    def cmpxchg(self, ptr: Value, cmp: Value, val: Value, ordering: str, failordering: str) -> Value: ...
    def call(self, fn: Value, args: Sequence[Value], *, attrs: Sequence[str] = ()) -> CallInstr: ...
    def asm(
        self, ftype: FunctionType, asm: str, constraint: str, args: Sequence[Value], side_effect: bool
    ) -> Instruction: ...
    def phi(self, typ: Type) -> PhiInstr: ...
    def branch(self, target: Block) -> Branch: ...
    def cbranch(self, cond: Value, truebr: Block, falsebr: Block) -> Branch: ...
    def ret(self, value: Value) -> Value: ...
    def ret_void(self) -> Value: ...
    def append_basic_block(self, name: str = "") -> Block: ...
    def position_at_end(self, block: Block) -> None: ...
    def goto_entry_block(self) -> AbstractContextManager[None]: ...
    def if_then(self, pred: Value, likely: bool | None = None) -> AbstractContextManager[Block]: ...
    def if_else(
        self, pred: Value
    ) -> AbstractContextManager[tuple[AbstractContextManager[None], AbstractContextManager[None]]]: ...
