"""The only use of Numba's compiler: generated Python goes in, relocatable object code comes out.

Numba reads the Python, infers types and writes LLVM IR; LLVM optimises it and writes an object, whose functions are
called with the C convention. Nothing runs here and no object contains an address, so another process can load it
(:mod:`zenith.backends.cpu.machine`) without importing this file, which is what a process with a full cache does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from llvmlite.binding.newpassmanagers import NewPassManager
from numba.core import typed_passes, types, untyped_passes
from numba.core.compiler import CompilerBase, Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.cpu_options import FastMathOptions
from numba.core.errors import NumbaError
from numba.extending import lower_builtin, type_callable

import zenith.backends.cpu.buffers
import zenith.backends.cpu.cached_call
import zenith.backends.cpu.foreign_code
import zenith.backends.cpu.online_softmax_code
import zenith.backends.cpu.order_code
import zenith.backends.cpu.panel_code
import zenith.backends.cpu.prefix_scan_code
import zenith.backends.cpu.running
import zenith.backends.cpu.scaled_tile_code
import zenith.backends.cpu.sorting_network_code
import zenith.backends.cpu.tile_code
import zenith.backends.cpu.ufunc_code  # noqa: F401  (they register the names of kernel sources, and native functions)
from zenith.backends.cpu.buffers import preferred_width
from zenith.backends.cpu.contexts import contexts
from zenith.backends.cpu.machine import target_machine
from zenith.backends.cpu.native_code import NATIVE
from zenith.backends.cpu.numba_lowering import KernelLowering, Text
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Typer, TypingContext, Values
from zenith.backends.cpu.python_intrinsics import PYTHON_SYMBOLS
from zenith.collection import without_collection
from zenith.errors import CompileError
from zenith.forking import hold_over_fork
from zenith.interrupts import deferred

_WORD = types.int64
_KERNEL = (_WORD, _WORD, types.CPointer(_WORD))
_NUMBA_SYMBOLS = ("_ZN", "numba", "NRT_", "Py", ".numba")  # what an object must not need: Numba is not there


class KernelCompiler(CompilerBase):
    """Numba's compiler without the passes that generated code never needs.

    There are no closures, exceptions, array expressions or objects in it, and a name has one type.
    """

    def define_pipelines(self) -> list[PassManager]:
        """One pipeline, from byte code to LLVM IR."""
        manager = PassManager("kernel")
        for step in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            typed_passes.NopythonTypeInference,
            typed_passes.IRLegalization,
            typed_passes.AnnotateTypes,
            KernelLowering,
            typed_passes.NoPythonBackend,
        ):
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]


class EmittedFunction(NamedTuple):
    """LLVM IR of a function, which exports ``symbol`` alone; what it ``mentions`` is defined elsewhere."""

    text: str
    symbol: str
    mentions: tuple[str, ...]


def written_kernel(function: Callable[..., object], symbol: str) -> EmittedFunction:
    """One kernel as Numba writes it, ``void symbol(int64 begin, int64 end, int64* args)``."""
    with deferred(), global_compiler_lock, without_collection():
        return _written(function, _KERNEL, False, symbol)


def optimized_kernel(kernel: EmittedFunction) -> llvm.ModuleRef:
    """The optimised LLVM module of one kernel."""
    return _optimized(_parsed([kernel])[0], kernel.mentions)


def kernel_module(function: Callable[..., object], symbol: str) -> llvm.ModuleRef:
    """The optimised LLVM module of one kernel, from its Python."""
    return optimized_kernel(written_kernel(function, symbol))


def written_runtime() -> list[EmittedFunction]:
    """All native functions as Numba writes them (see :mod:`zenith.backends.cpu.native`)."""
    with deferred(), global_compiler_lock, without_collection():
        return [
            _written(f, (_WORD,) * f.__code__.co_argcount, f.__annotations__["return"] != "None", symbol)
            for symbol, f in NATIVE.items()
        ]


def optimized_runtime(functions: Sequence[EmittedFunction], exported: set[str]) -> llvm.ModuleRef:
    """The optimised LLVM module of native functions, which call each other; ``exported`` symbols can be called."""
    whole, *others = _parsed(functions)
    for module in others:
        whole.link_in(module)
    for function in whole.functions:
        if not function.is_declaration and function.name not in exported:
            function.linkage = "internal"
    return _optimized(whole, [name for function in functions for name in function.mentions])


def _parsed(functions: Iterable[EmittedFunction]) -> list[llvm.ModuleRef]:
    """Modules of a context of their own: what a context has interned, such as constants, stays as long as it does."""
    context = llvm.create_context()
    return [llvm.parse_assembly(function.text, context) for function in functions]


def object_code(module: llvm.ModuleRef) -> bytes:
    """The relocatable object of a module."""
    code: bytes = target_machine().emit_object(module)
    return code


def _written(
    function: Callable[..., object], arguments: Sequence[types.Type], returns: bool, symbol: str
) -> EmittedFunction:
    """A function as LLVM's text, and a function ``symbol`` around it that follows the C convention."""
    typing, context = contexts()
    library = Text(symbol)
    try:
        compiled = compile_extra(
            typing, context, function, tuple(arguments), _WORD if returns else types.void, _flags(), {},
            library=library, pipeline_class=KernelCompiler,
        )  # fmt: skip
    except NumbaError as error:
        raise CompileError(f"generated code does not compile: {str(error).splitlines()[0]}") from None
    except BaseException:  # such as one that another thread has this one raise: Numba's generators do not survive it
        contexts.cache_clear()
        raise
    entry = _entry(symbol, compiled.fndesc.llvm_func_name, arguments, returns)
    return EmittedFunction(library.text + entry, symbol, tuple(library.mentions))


@cache
def _flags() -> Flags:
    flags: Any = Flags()
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    flags.error_model = "numpy"
    flags.fastmath = FastMathOptions({"contract"})
    return flags


def _entry(symbol: str, inner: str, arguments: Sequence[types.Type], returns: bool) -> str:
    """LLVM text of the function that Zenith calls: Numba's own take pointers to a result and an exception first."""
    kinds = ["ptr" if isinstance(a, types.CPointer) else "i64" for a in arguments]
    given = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(kinds))
    result = "%r = load i64, ptr %result\n  ret i64 %r" if returns else "ret void"
    return f"""
define {"i64" if returns else "void"} @{symbol}({given}) nounwind {preferred_width()} {{
  %result = alloca i64
  %exception = alloca ptr
  %status = call i32 @"{inner}"(ptr %result, ptr %exception, {given})
  {result}
}}"""


@cache
def _tuning() -> llvm.PipelineTuningOptions:
    """The options of LLVM's passes."""
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    return options


def _optimized(module: llvm.ModuleRef, mentioned: Iterable[str]) -> llvm.ModuleRef:
    """A module after LLVM's passes, which must need nothing of what it mentions that only Numba has."""
    module.verify()
    builder = llvm.create_pass_builder(target_machine(), _tuning())
    manager = builder.getModulePassManager()
    try:
        manager.run(module, builder)
    finally:  # llvmlite hides its own clean-up behind an empty method of a base class, and loses 70 KiB each time;
        # 1.5 KiB stay lost, the callbacks of its pass builder, which refer to one run and cannot be used for another
        NewPassManager._dispose(manager)
        manager.detach()
    if any(map(_is_of_numba, mentioned)):
        needed = [f.name for f in module.functions if f.is_declaration and _is_of_numba(f.name)]
        if needed:
            raise CompileError(f"generated code needs {', '.join(needed)}, which only Numba has")
    return module


def _is_of_numba(name: str) -> bool:
    return name.startswith(_NUMBA_SYMBOLS) and name not in PYTHON_SYMBOLS


def _teach_index_function(function: Callable[..., object], relation: str) -> None:
    """Numba's own minimum and maximum are functions that it would compile; for indices one instruction is enough."""

    @type_callable(function)
    def typing(context: TypingContext) -> Typer:
        def typer(x: types.Type, y: types.Type) -> types.Type | None:
            return _WORD if isinstance(x, types.Integer) and isinstance(y, types.Integer) else None

        return typer

    @lower_builtin(function, types.Any, types.Any)
    def lower(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        x, y = (context.cast(builder, a, kind, _WORD) for a, kind in zip(args, sig.args, strict=True))
        return builder.select(builder.icmp_signed(relation, x, y), x, y)


def least(x: int, y: int) -> int:
    """``min`` in kernel sources."""
    return x if x < y else y


def greatest(x: int, y: int) -> int:
    """``max`` in kernel sources."""
    return x if x > y else y


_teach_index_function(least, "<")
_teach_index_function(greatest, ">")
hold_over_fork("numba", global_compiler_lock)
INDEX_FUNCTIONS = {"min": least, "max": greatest}
