"""The names in kernel sources for Numba-CUDA: NVVM's instructions, and libdevice where that is better.

Elementary functions are the same straight-line code as on the CPU (``vecmath``), so both targets give the same bits;
NVVM must neither contract nor reassociate it, therefore sums and products are instructions with explicit rounding.
Where float32 code computes in float64, which few GPUs do fast, libdevice's float32 function replaces it if it is about
as exact.

Numba-CUDA reads Numba's registry of extensions too. So ``cpu/scalars.py`` defines conversions, selections, shifts and
integer arithmetic for both; here are only those that NVVM, an LLVM of version 7, lacks or compiles differently.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from llvmlite import ir
from numba.core import types

import zenith.backends.cpu.order_code
import zenith.backends.cpu.scalars  # noqa: F401  (they register extensions that both targets share)
from zenith.backends import scalars as s
from zenith.backends.cpu.numba_protocols import Intrinsic, Signature, TargetContext, TypingContext, Values
from zenith.backends.cpu.scalars import NUMBA_TYPES
from zenith.backends.cpu.vector_math import LLVMOps
from zenith.backends.cuda.access import arrays, wide_functions
from zenith.backends.cuda.arrivals import arrive
from zenith.backends.cuda.matrix import matrix_functions
from zenith.backends.cuda.narrow import roundings
from zenith.backends.vecmath import FUNCTIONS
from zenith.backends.vecmath.logarithm import logaddexp
from zenith.backends.vecmath.ops import Value

FLOATS = (types.float32, types.float64)
WORD = ir.IntType(32)
# Zenith's name -> libdevice's. NVIDIA states errors of at most 2 ulp in float32, 3 for sinh, arctan2, arcsinh and
# arctanh, 4 for tan, power, erfc, erfcx and arccosh (CUDA programming guide, mathematical functions).
LIBDEVICE = {
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "power": "pow", "erfc": "erfc", "erfcx": "erfcx", "cbrt": "cbrt",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
}  # fmt: skip
# The same in float64: functions that would take twice the precision inside, or a branch.
LIBDEVICE_FLOAT64 = {name: function for name, function in LIBDEVICE.items() if not name.startswith("erfc")}
# Functions that compute float32 in float64 here too: libdevice has none, or one that errs by 6 ulp and more.
IN_FLOAT64 = frozenset({"lgamma", "digamma", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e"})


class CudaOps(LLVMOps):
    """:class:`~zenith.backends.vecmath.ops.Ops` for NVVM, where functions of libdevice are single instructions."""

    @property
    def double(self) -> CudaOps:
        return self if self.dtype == "float64" else CudaOps(self._builder, "float64")

    def const(self, value: float) -> ir.Value:
        """A constant: instructions have it as an immediate operand, so it needs no special treatment as on a CPU."""
        return ir.Constant(self._float, value)

    def _device(self, name: str, *operands: ir.Value) -> ir.Value:
        return self._builder.call(self._declared(f"__nv_{name}", len(operands)), operands)

    def _rounded(self, name: str, *operands: ir.Value) -> ir.Value:
        return self._device(f"{'f' if self.dtype == 'float32' else 'd'}{name}_rn", *operands)

    def add(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._rounded("add", x, y)

    def sub(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._rounded("sub", x, y)

    def mul(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return self._rounded("mul", x, y)

    def neg(self, x: ir.Value) -> ir.Value:
        return self._builder.fsub(self.const(-0.0), x)

    def abs(self, x: ir.Value) -> ir.Value:
        return self.libm("fabs", x)

    def rint(self, x: ir.Value) -> ir.Value:
        return self.libm("rint", x)

    def libm(self, name: str, *operands: ir.Value) -> ir.Value:
        return self._device(name + ("f" if self.dtype == "float32" else ""), *operands)


# --- other functions of floats, in the same vocabulary ----------------------------------------------------------------


def _magnitude(k: CudaOps, x: Value) -> Value:
    return k.abs(x)


def _rint(k: CudaOps, x: Value) -> Value:
    return k.rint(x)


def _trunc(k: CudaOps, x: Value) -> Value:
    return k.libm("trunc", x)


def _extreme(name: str) -> Callable[..., Value]:
    def body(k: CudaOps, x: Value, y: Value) -> Value:
        ordered = k.both(k.eq(x, x), k.eq(y, y))
        return k.select(ordered, k.libm(name, x, y), k.const(float("nan")))

    return body


def _divmod(k: CudaOps, x: Value, y: Value) -> tuple[Value, Value]:
    """Floor quotient and remainder as NumPy's divmod gives them, from the exact ``fmod``."""
    zero, rest = k.const(0.0), k.libm("fmod", x, y)
    moves = k.either(k.both(k.lt(rest, zero), k.lt(zero, y)), k.both(k.lt(zero, rest), k.lt(y, zero)))
    quotient = k.div(k.sub(x, rest), y)
    quotient = k.rint(k.select(moves, k.sub(quotient, k.const(1.0)), quotient))
    exact = k.div(x, y)
    quotient = k.select(k.eq(quotient, zero), k.copysign(zero, exact), quotient)
    rest = k.select(moves, k.add(rest, y), k.select(k.eq(rest, zero), k.copysign(zero, y), rest))
    return k.select(k.eq(y, zero), exact, quotient), rest


def _floor_divide(k: CudaOps, x: Value, y: Value) -> Value:
    return _divmod(k, x, y)[0]


def _remainder(k: CudaOps, x: Value, y: Value) -> Value:
    return _divmod(k, x, y)[1]


BODIES: dict[str, tuple[Callable[..., Value], int]] = {
    "magnitude": (_magnitude, 1), "rint": (_rint, 1), "trunc": (_trunc, 1), "maximum": (_extreme("fmax"), 2),
    "minimum": (_extreme("fmin"), 2), "fold_max": (_extreme("fmax"), 2), "fold_min": (_extreme("fmin"), 2),
    "logaddexp": (logaddexp, 2), "floor_divide": (_floor_divide, 2), "remainder": (_remainder, 2),
}  # fmt: skip


def _elementary(name: str) -> tuple[Callable[..., Value], int]:
    """The body of an elementary function: its straight-line code, or libdevice's function of the type."""
    function = FUNCTIONS["pow" if name == "power" else name]
    library = {"float32": LIBDEVICE.get(name), "float64": LIBDEVICE_FLOAT64.get(name)}

    def body(k: CudaOps, *operands: Value) -> Value:
        called = library[k.dtype]
        return function.body(k, *operands) if called is None else k.libm(called, *operands)

    return body, function.arity


# --- intrinsics ------------------------------------------------------------------------------------------------------


def _float_function(name: str, body: Callable[..., Value], arity: int) -> object:
    """A function of floats with this body; for other types it is the CPU's implementation in Numba's registry."""
    from numba.cuda.extending import intrinsic

    shared = s.NAMESPACE[name]

    def describe(typing: TypingContext, *kinds: types.Type) -> Intrinsic:
        kind = kinds[0]
        if kind in FLOATS and all(k == kind for k in kinds):
            return kind(*kinds), lambda context, builder, sig, args: body(CudaOps(builder, str(kind)), *args)
        sig = typing.resolve_function_type(typing.resolve_value_type(shared), kinds, {})
        return sig, lambda context, builder, sig, args: context.get_function(shared, sig)(builder, args)

    if arity == 1:
        return intrinsic(lambda typing, x: describe(typing, x))
    return intrinsic(lambda typing, x, y: describe(typing, x, y))


def _checked() -> object:
    """``checked(index, size, code, status)``: see ``backends.scalars``; the status word is a pointer here."""
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        index, size, code, status = args
        with builder.if_then(builder.icmp_unsigned(">=", index, size), likely=False):
            builder.store(code, status)
        last = builder.sub(size, size.type(1))
        low = builder.select(builder.icmp_signed("<", index, last), index, last)
        return builder.select(builder.icmp_signed(">", low, index.type(0)), low, index.type(0))

    word = types.int64
    return intrinsic(lambda typing, index, size, code, status: (word(word, word, word, status), emit))


def _atomic_add() -> object:
    """``atomic_add(buffer, at, x)``: add to an element atomically."""
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        buffer, at, x = args
        pointer = builder.gep(buffer, [builder.zext(at, ir.IntType(64)) if at.type.width < 64 else at])
        if isinstance(x.type, ir.IntType):
            builder.atomic_rmw("add", pointer, x, "monotonic")
            return context.get_dummy_value()
        bits = 64 if sig.args[2] == types.float64 else 32
        name, kind = f"llvm.nvvm.atomic.load.add.f{bits}.p0f{bits}", ir.FunctionType(x.type, [pointer.type, x.type])
        builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), [pointer, x])
        return context.get_dummy_value()

    return intrinsic(lambda typing, buffer, at, x: (types.void(buffer, at, buffer.dtype), emit))


def _shuffle() -> object:
    """``shuffle(x, distance)``: the x of the lane whose number differs by ``distance`` in its bits (butterfly)."""
    from numba.cuda.extending import intrinsic

    def emit(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        x, distance = args
        bits = getattr(x.type, "width", 64 if sig.args[0] == types.float64 else 32)
        number = x if isinstance(x.type, ir.IntType) else builder.bitcast(x, ir.IntType(bits))
        if bits < WORD.width:
            return builder.trunc(_exchange(builder, builder.zext(number, WORD), distance), x.type)
        words = [builder.trunc(builder.lshr(number, number.type(at)), WORD) for at in range(0, bits, WORD.width)]
        result = number.type(0)
        for at, word in enumerate(words):
            moved = builder.zext(_exchange(builder, word, distance), number.type)
            result = builder.or_(result, builder.shl(moved, number.type(at * WORD.width)))
        return result if isinstance(x.type, ir.IntType) else builder.bitcast(result, x.type)

    return intrinsic(lambda typing, x, distance: (x(x, types.int32), emit))


def _exchange(builder: ir.IRBuilder, word: ir.Value, distance: ir.Value) -> ir.Value:
    """One 32-bit word through ``shfl.sync.bfly`` among all lanes of the warp."""
    kind = ir.FunctionType(ir.LiteralStructType([WORD, ir.IntType(1)]), [WORD] * 5)
    name, butterfly, everyone, last_lane = "llvm.nvvm.shfl.sync.i32", 3, -1, 31
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    both = builder.call(function, [WORD(everyone), WORD(butterfly), word, distance, WORD(last_lane)])
    return builder.extract_value(both, 0)


@cache
def namespace() -> dict[str, object]:
    """The names that CUDA kernel sources use. Needs the package numba-cuda, no GPU and no driver."""
    from numba import cuda

    names = {n: v for n, v in s.NAMESPACE.items() if n not in s.BUFFER and n not in s.SCRATCH}
    for name in names.keys() & {*FUNCTIONS, "power"}:
        names[name] = _float_function(name, *_elementary(name))
    for name, (body, arity) in BODIES.items():
        names[name] = _float_function(name, body, arity)
    names["divide_same"] = names["divide"]  # a thread divides once by a ``y``: no reciprocal to share
    own = {
        "checked": _checked(),
        "atomic_add": _atomic_add(),
        "shuffle": _shuffle(),
        "arrive": arrive(),
        "cuda": cuda,
    }
    kinds = {name: kind for name, kind in NUMBA_TYPES.items() if name != "bool"}
    return {**names, **roundings(), **own, **arrays(kinds), **wide_functions(), **matrix_functions()}
