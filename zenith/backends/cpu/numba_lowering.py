"""From typed byte code to LLVM IR, as text.

Variables are stack slots that are stored to and loaded from, and nothing else: Numba's own lowering loads a variable
before it is assigned again and overwrites it after its last use, since its value may have counted references. Kernels
have numbers and pointers only, and LLVM would merely find those instructions superfluous.

Nothing here calls LLVM, whose library admits one thread at a time: so a kernel is written while LLVM optimises another.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, funcdesc, types
from numba.core.compiler import _LowerResult
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.lowering import Lower

from zenith.backends.cpu.loop_metadata import advise
from zenith.backends.cpu.machine import conventions


class Text:
    """A code library for Numba to write to: text, neither optimised nor run, in which all symbols are internal.

    ``mentions`` are the functions that it declares and does not define.
    """

    def __init__(self, name: str) -> None:
        self.name, self.text = name, ""
        self.mentions: list[str] = []

    def create_ir_module(self, name: str) -> ir.Module:
        """An empty module for this processor."""
        module = ir.Module(name)
        module.triple, module.data_layout = conventions()
        return module

    def add_ir_module(self, module: ir.Module) -> None:
        """Append a module that Numba has written."""
        advise(module)
        self.mentions += [function.name for function in module.functions if function.is_declaration]
        for value in module.global_values:
            if value.name.startswith("llvm."):
                continue
            if value.blocks if isinstance(value, ir.Function) else value.initializer is not None:
                value.linkage = "internal"
        self.text += str(module)


class KernelLower(Lower):
    """Writes a kernel's LLVM instructions."""

    def alloca(self, name: str, type: types.Type) -> ir.Value:
        """A variable's stack slot; Numba would ask LLVM for its size, for debuggers."""
        return cgutils.alloca_once(self.builder, self.context.get_value_type(type), name=name, zfill=False)

    def storevar(self, value: ir.Value, name: str, argidx: int | None = None) -> None:
        """Write a variable."""
        if name in self._singly_assigned_vars:
            super().storevar(value, name)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """The end of a variable; one that ends before the block that assigns it is needed in another iteration."""
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(LoweringPass):
    """The last pass of a kernel's pipeline."""

    _name = "kernel_lowering"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Write a function into the library of the state."""
        context, flags = state.targetctx, state.flags
        described = funcdesc.PythonFunctionDescriptor.from_specialized_function(
            state.func_ir, state.typemap, state.return_type, state.calltypes, mangler=context.mangler,
            inline=flags.forceinline, noalias=flags.noalias, abi_tags=[flags.get_mangle_string()],
        )  # fmt: skip
        with context.push_code_library(state.library):
            lower = KernelLower(context, state.library, described, state.func_ir, metadata=state.metadata)
            lower.lower()
        state["cr"] = _LowerResult(described, lower.call_helper, cfunc=None, env=lower.env)
        return True
