"""Linking: from sources to machine code, each distinct kernel once in a process.

A kernel is found again by its source without names and comments, so equal layers share one. Threads that ask for the
same kernel at once wait for one compilation.
"""

from __future__ import annotations

import ctypes
import hashlib
import linecache
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numba import cfunc, types
from numba.core import typed_passes, untyped_passes
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.errors import NumbaError

import zenith.backends.cpu.buffers  # noqa: F401  (teaches Numba buffers and the names of kernel sources)
from zenith.backends.cpu.emit import CpuPrinter
from zenith.backends.cpu.threads import launch
from zenith.backends.cpu.tile import product_tile
from zenith.backends.kernel import Kernel
from zenith.backends.scalars import NAMESPACE
from zenith.errors import CompileError

_KERNEL = types.void(types.int64, types.int64, types.CPointer(types.int64))
_DRIVER = types.void(types.CPointer(types.int64))
TILE_FUNCTIONS = {"product_tile": product_tile}


class KernelCompiler(CompilerBase):
    """Numba's compiler without the passes that generated code never needs: an eighth of the time to compile.

    There are no closures, exceptions, array expressions or objects in it, and a name has one type.
    """

    def define_pipelines(self) -> list[PassManager]:
        """One pipeline, from byte code to machine code."""
        manager = PassManager("kernel")
        for step in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            typed_passes.NopythonTypeInference,
            typed_passes.IRLegalization,
            typed_passes.AnnotateTypes,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            manager.add_pass(step, step.__name__)
        manager.finalize()
        return [manager]


@dataclass(frozen=True, slots=True)
class Linked:
    """Machine code: its address, the source it came from, and what compiling it took, in milliseconds."""

    name: str
    address: int
    source: str
    milliseconds: float
    code: Any


class _Linker:
    """The process's linked kernels and drivers, by content."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.linked: dict[str, Linked] = {}

    def get(self, source: str, name: str, signature: Any, namespace: Mapping[str, Any]) -> Linked:
        with self.lock:
            if source not in self.linked:
                self.linked[source] = _compile(source, name, signature, namespace)
            return self.linked[source]


_LINKER = _Linker()


def linked_count() -> int:
    """How many kernels and drivers this process has linked."""
    return len(_LINKER.linked)


def link_kernel(kernel: Kernel) -> Linked:
    """The machine code of a kernel, ``void(int64 begin, int64 end, int64* args)``."""
    source = CpuPrinter(with_lines=False).kernel(kernel)
    return _LINKER.get(source, kernel.name, _KERNEL, {**NAMESPACE, **TILE_FUNCTIONS})


def link_driver(source: str) -> Callable[[int], None]:
    """A driver as a Python callable of the frame's address; it runs without the GIL."""
    linked = _LINKER.get(source, "driver", _DRIVER, {"launch": launch})
    function: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(linked.address)
    return function


def define(source: str, name: str, namespace: Mapping[str, Any]) -> Any:
    """The Python function that a source defines; tracebacks and debuggers can show its text."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:8]
    filename = f"<zenith {name} {digest}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = dict(namespace)
    exec(compile(source, filename, "exec"), scope)
    return scope[name]


def _compile(source: str, name: str, signature: Any, namespace: Mapping[str, Any]) -> Linked:
    started = time.perf_counter()
    function = define(source, name, namespace)
    try:
        options: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
        code = cfunc(signature, pipeline_class=KernelCompiler, **options)(function)
    except NumbaError as error:
        raise CompileError(
            f"Zenith generated a kernel that does not compile: {str(error).splitlines()[0]}\n{source}",
            fix="this is a defect of Zenith: report it with the text above",
        ) from None
    return Linked(name, int(code.address or 0), source, (time.perf_counter() - started) * 1e3, code)
