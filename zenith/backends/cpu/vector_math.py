"""The elementary functions inside compiled kernels: LLVM instructions for the operations of ``vecmath``.

Kernels write ``vm.exp(x)`` with a scalar x of float32 or float64. Numba resolves each name to a typing rule and a
lowering that emits the function's straight-line instructions where it is called: no Python helper is
compiled or inlined, and the loop vectoriser sees nothing but arithmetic. The same names are plain Python functions
(``vecmath.numpy_functions``), so a kernel also runs undecorated.

>>> import numba
>>> compiled = numba.njit(lambda x: tanh(x) + erf(x))
>>> bool(abs(compiled(0.5) - (numpy_functions.tanh(0.5) + numpy_functions.erf(0.5))) < 1e-15)
True

Only target-independent LLVM intrinsics are emitted. Where the machine lacks fused multiply-add, LLVM calls the C
library's ``fma``: right, but slow.

Float64 ``sin cos tan`` are calls (:mod:`zenith.backends.cpu.outlined`). Float64 ``lgamma`` calls the C library's scalar
function by its name, which is declared free of side effects, so the loop around it is still vectorised.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, type_callable

from zenith.backends.cpu import outlined
from zenith.backends.cpu.loop_metadata import mark
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.outlined import any_lane, each_lane, library_function
from zenith.backends.vecmath import FUNCTIONS, numpy_functions
from zenith.backends.vecmath.numpy_functions import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    bessel_i0,
    bessel_i0e,
    bessel_i1,
    bessel_i1e,
    cbrt,
    cos,
    cosh,
    digamma,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    exp,
    exp2,
    expm1,
    lgamma,
    log,
    log1p,
    log2,
    log10,
    pow,
    sigmoid,
    sin,
    sinh,
    tan,
    tanh,
)

__all__ = [
    "LLVMOps",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bessel_i0",
    "bessel_i0e",
    "bessel_i1",
    "bessel_i1e",
    "cbrt",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "sigmoid",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

_FLOAT = {"float32": ir.FloatType(), "float64": ir.DoubleType()}
_INT = {"float32": ir.IntType(32), "float64": ir.IntType(64)}
_SUFFIX = {"float32": "f32", "float64": "f64"}


class LLVMOps:
    """:class:`~zenith.backends.vecmath.ops.Ops` that emits each operation as one LLVM instruction or intrinsic.

    Values are scalars, or vectors of ``lanes`` elements.
    """

    def __init__(self, builder: ir.IRBuilder, dtype: str, lanes: int | None = None) -> None:
        self.dtype, self._lanes = dtype, lanes
        self._builder = builder
        self._float = _FLOAT[dtype] if lanes is None else ir.VectorType(_FLOAT[dtype], lanes)
        self._int = _INT[dtype] if lanes is None else ir.VectorType(_INT[dtype], lanes)

    @property
    def double(self) -> LLVMOps:
        return self if self.dtype == "float64" else LLVMOps(self._builder, "float64", self._lanes)

    def const(self, value: float) -> ir.Value:
        """A constant; a scalar one is computed at the function's beginning and, after a fence, no longer a constant.

        Otherwise LLVM loads it where it is used, in every iteration of the loop, by an address of 64 bits: for the
        chain of gelu, tanh, exp and sigmoid a third of all instructions were such addresses and loads.
        """
        if self._lanes is not None:
            return ir.Constant(self._float, [value] * self._lanes)
        with self._builder.goto_entry_block():
            return self._intrinsic("arithmetic.fence", ir.Constant(self._float, value))

    def int_const(self, value: int) -> ir.Value:
        return ir.Constant(self._int, value if self._lanes is None else [value] * self._lanes)

    def add(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.fadd(x, y)

    def sub(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.fsub(x, y)

    def mul(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.fmul(x, y)

    def div(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.fdiv(x, y)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        return self._intrinsic("fma", x, y, z)

    def neg(self, x: ir.Value) -> ir.Value:
        return self._builder.fneg(x)

    def abs(self, x: ir.Value) -> ir.Value:
        return self._intrinsic("fabs", x)

    def copysign(self, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        return self._intrinsic("copysign", magnitude, sign)

    def sqrt(self, x: ir.Value) -> ir.Value:
        return self._intrinsic("sqrt", x)

    def rint(self, x: ir.Value) -> ir.Value:
        return self._intrinsic("rint", x)

    def lt(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.fcmp_ordered("<", x, y)

    def le(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.fcmp_ordered("<=", x, y)

    def eq(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.fcmp_ordered("==", x, y)

    def both(self, p: ir.Value, q: ir.Value) -> ir.Value:
        return self._builder.and_(p, q)

    def either(self, p: ir.Value, q: ir.Value) -> ir.Value:
        return self._builder.or_(p, q)

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._builder.select(condition, x, y)

    def bitcast_int(self, x: ir.Value) -> ir.Value:
        return self._builder.bitcast(x, self._int)

    def bitcast_float(self, i: ir.Value) -> ir.Value:
        return self._builder.bitcast(i, self._float)

    def iadd(self, i: ir.Value, j: ir.Value) -> ir.Value:
        return self._builder.add(i, j)

    def isub(self, i: ir.Value, j: ir.Value) -> ir.Value:
        return self._builder.sub(i, j)

    def shl(self, i: ir.Value, count: int) -> ir.Value:
        return self._builder.shl(i, self.int_const(count))

    def shr(self, i: ir.Value, count: int) -> ir.Value:
        return self._builder.ashr(i, self.int_const(count))

    def widen(self, x: ir.Value) -> ir.Value:
        return x if self.dtype == "float64" else self._builder.fpext(x, self.double._float)

    def narrow(self, x: ir.Value) -> ir.Value:
        return x if self.dtype == "float64" else self._builder.fptrunc(x, self._float)

    def libm(self, name: str, *operands: ir.Value) -> ir.Value:
        return self._builder.call(
            library_function(self._builder.module, name, _FLOAT[self.dtype], len(operands)), operands
        )

    def rarely(self, condition: ir.Value, name: str, x: ir.Value, usual: ir.Value) -> ir.Value:
        builder, before = self._builder, self._builder.block
        with builder.if_then(any_lane(builder, condition), likely=False):
            exact = each_lane(builder, library_function(builder.module, name, _FLOAT[self.dtype], 1), x)
            chosen, after = builder.select(condition, exact, usual), builder.block
        result = builder.phi(self._float)
        result.add_incoming(usual, before)
        result.add_incoming(chosen, after)
        return result

    def _intrinsic(self, name: str, *operands: ir.Value) -> ir.Value:
        suffix = _SUFFIX[self.dtype] if self._lanes is None else f"v{self._lanes}{_SUFFIX[self.dtype]}"
        return self._builder.call(self._declared(f"llvm.{name}.{suffix}", len(operands)), operands)

    def _declared(self, name: str, arity: int) -> ir.Function:
        known = self._builder.module.globals.get(name)
        if known is not None:
            return known
        return ir.Function(self._builder.module, ir.FunctionType(self._float, [self._float] * arity), name)


def teach_elementary(
    plain: Callable[..., object], body: Callable[..., ir.Instruction], arity: int, branches: bool = False,
    in_library: bool = False,
) -> None:  # fmt: skip
    """Teach Numba the type and the code of one elementary function: ``body(k, *arguments)`` emits it.

    One that ``branches``, or is ``in_library``, is called; others are emitted where they are used.
    """

    def typer_of_one(context: TypingContext) -> Typer:
        return lambda x: x if x in (types.float32, types.float64) else None

    def typer_of_two(context: TypingContext) -> Typer:
        return lambda x, y: x if x == y and x in (types.float32, types.float64) else None

    type_callable(plain)(typer_of_one if arity == 1 else typer_of_two)

    def emit(context: TargetContext, builder: ir.IRBuilder, signature: Signature, arguments: Values) -> ir.Value:
        dtype = str(signature.return_type)

        def code(inside: ir.IRBuilder, lanes: int | None, *operands: ir.Value) -> ir.Instruction:
            return body(LLVMOps(inside, dtype, lanes), *operands)

        if in_library:
            result = outlined.call_library(builder, body.__name__, code, arguments)
        elif branches:
            result = outlined.call(builder, body.__name__, code, arguments)
        else:
            result = code(builder, None, *arguments)
        mark(builder, result)
        return result

    for dtype in (types.float32, types.float64):
        lower_builtin(plain, *[dtype] * arity)(emit)


for _entry in FUNCTIONS.values():
    teach_elementary(getattr(numpy_functions, _entry.name), _entry.body, _entry.arity, _entry.branches)
