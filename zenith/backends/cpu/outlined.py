"""Elementary functions that are called, and LLVM's loop vectoriser replaces the calls by one for each vector.

Straight-line code is emitted where it is used. Two kinds are not: functions with a rare branch, which would keep LLVM
from vectorising the loop around them; and those of sequential kernels, where each turn waits for the one before, so
that the C library's functions of scalars take half the time. But LLVM may find that a loop there is parallel.

So there are two functions, of a scalar and of a vector as wide as the processor's, and an attribute of the call names
the second as a variant of the first (LLVM Language Reference, "vector-function-abi-variant"). Both stay in the module
until the vectoriser has run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from zenith.backends.cpu.vectors import select

Body = Callable[..., ir.Value]
"""``body(builder, lanes, *arguments)`` emits a function's instructions for scalars, or for vectors of so many lanes."""

KEPT = "llvm.compiler.used"
BYTES = {"float": 4, "double": 8}
LIBRARY = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh",
    "pow": "pow",
}  # fmt: skip
"""The C library's functions of scalars, which wait for tables and branches less long than straight-line code takes."""


def call(builder: ir.IRBuilder, name: str, body: Body, arguments: Sequence[ir.Value]) -> ir.Instruction:
    """Call the function of this name, which is defined where the module has none."""
    module, kind = builder.module, arguments[0].type
    scalar = f"zenith.{name}.{kind}"
    if scalar not in module.globals:
        _keep(module, _define(module, scalar, kind, body, None, len(arguments)))
    return _call(builder, module.globals[scalar], body, arguments)


def call_library(builder: ir.IRBuilder, name: str, body: Body, arguments: Sequence[ir.Value]) -> ir.Instruction:
    """Call the C library's function for a scalar; a vector's code is emitted by ``body``."""
    name = LIBRARY[name] + ("f" if str(arguments[0].type) == "float" else "")
    return _call(builder, library_function(builder.module, name, arguments[0].type, len(arguments)), body, arguments)


def library_function(module: ir.Module, name: str, kind: ir.Type, arity: int) -> ir.Function:
    """The declaration of a function of the C library, which has no side effects."""
    function = module.globals.get(name) or ir.Function(module, ir.FunctionType(kind, [kind] * arity), name)
    for attribute in ("nounwind", "readnone"):
        function.attributes.add(attribute)
    return function


def _call(builder: ir.IRBuilder, function: ir.Function, body: Body, arguments: Sequence[ir.Value]) -> ir.Instruction:
    """Call a function of scalars that has a variant for vectors."""
    module, kind = builder.module, arguments[0].type
    lanes = select().lanes(BYTES[str(kind)])
    vector = f"{function.name}.v{lanes}"
    if vector not in module.globals:
        _keep(module, _define(module, vector, ir.VectorType(kind, lanes), body, lanes, len(arguments)))
    result = builder.call(function, arguments)
    variant = f"_ZGV_LLVM_N{lanes}{'v' * len(arguments)}_{function.name}({vector})"
    set.add(result.attributes, f'"vector-function-abi-variant"="{variant}"')  # llvmlite's own "add" knows no strings
    return result


def _define(module: ir.Module, name: str, kind: ir.Type, body: Body, lanes: int | None, arity: int) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(kind, [kind] * arity), name)
    function.linkage = "internal"
    for attribute in ("nounwind", "readnone", "noinline"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(body(builder, lanes, *function.args))
    return function


def _keep(module: ir.Module, function: ir.Function) -> None:
    """LLVM keeps the function although nothing calls it yet, and its arguments, though all calls may give one constant.

    A variant has as many as what it is a variant of, or LLVM ends the process.
    """
    pointer = ir.IntType(8).as_pointer()
    if KEPT not in module.globals:
        kept = ir.GlobalVariable(module, ir.ArrayType(pointer, 0), KEPT)
        kept.linkage, kept.section, kept.initializer = "appending", "llvm.metadata", ir.Constant(kept.value_type, [])
    kept = module.globals[KEPT]
    members = [*kept.initializer.constant, function.bitcast(pointer)]
    kept.value_type = ir.ArrayType(pointer, len(members))
    kept.initializer = ir.Constant(kept.value_type, members)


def any_lane(builder: ir.IRBuilder, condition: ir.Value) -> ir.Value:
    """Whether a condition holds, in any lane if it is one of a vector."""
    if not isinstance(condition.type, ir.VectorType):
        return condition
    name = f"llvm.vector.reduce.or.v{condition.type.count}i1"
    known = builder.module.globals.get(name)
    function = known or ir.Function(builder.module, ir.FunctionType(ir.IntType(1), [condition.type]), name)
    return builder.call(function, [condition])


def each_lane(builder: ir.IRBuilder, function: ir.Function, x: ir.Value) -> ir.Value:
    """The function of a scalar, or of every lane of a vector."""
    if not isinstance(x.type, ir.VectorType):
        return builder.call(function, [x])
    result = x
    for lane in (ir.Constant(ir.IntType(32), i) for i in range(x.type.count)):
        value = builder.call(function, [builder.extract_element(x, lane)])
        result = builder.insert_element(result, value, lane)
    return result
