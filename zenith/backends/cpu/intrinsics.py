"""LLVM's intrinsics inside kernels: operations that it knows by name and has no builder for."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from zenith.backends.cpu.numba_protocols import Values


def call_intrinsic(builder: ir.IRBuilder, name: str, args: Values, returns: ir.Type | None = None) -> ir.Value:
    """Call ``llvm.<name>`` of the type of its arguments, also that of its result unless ``returns`` is given."""
    of = args[0].type
    suffix = f"i{of.width}" if isinstance(of, ir.IntType) else "f32" if isinstance(of, ir.FloatType) else "f64"
    kind = ir.FunctionType(returns or of, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.{suffix}"), args)
