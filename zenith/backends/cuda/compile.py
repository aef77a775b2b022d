"""Compiling a kernel through Numba-CUDA, which serves as a compiler only: no GPU, no driver, no launch.

Source becomes PTX by Numba and NVVM, and machine code of one architecture (a *cubin*) by nvJitLink. Both are stored in
the cache on disk. The entry point has the kernel's name and a flat list of parameters (see :mod:`emit`): the addresses
of the int64 status word and of the buffers, integers of the index type.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from zenith import sources
from zenith.backends.cache import store
from zenith.backends.cuda.architecture import capability
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.forms import KernelForm, forms
from zenith.backends.cuda.launch import most_threads, parameters
from zenith.backends.cuda.numba_arrays import load_arrays
from zenith.backends.kernel import Kernel
from zenith.errors import CompileError, UnsupportedError
from zenith.ir.types import DType
from zenith.sources import digest

PACKAGES = ("numba", "numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")
_HERE = Path(__file__).parent
# The sources that give a text its meaning; those for the CPU register with Numba what both targets share.
_GENERATOR = (_HERE, _HERE.parent / "scalars.py", _HERE.parent / "vecmath", _HERE.parent / "cpu")


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A compiled kernel in one of its forms: its source as compiled, PTX and machine code for an architecture."""

    kernel: Kernel
    form: KernelForm
    arch: str
    source: str
    ptx: str
    cubin: bytes
    milliseconds: float
    cached: bool


class _Compiler:
    """The kernels that this process has compiled, each once even when several threads request it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, CompiledKernel] = {}

    def get(self, kernel: Kernel, form: KernelForm, arch: str) -> CompiledKernel:
        """A kernel's code, from this process, the cache or the compiler."""
        key, source = named(kernel, form, arch)
        with self.lock:
            if key not in self.known:
                started = time.perf_counter()
                (ptx, cubin), cached = _obtain(kernel, form, source, arch)
                milliseconds = (time.perf_counter() - started) * 1e3
                self.known[key] = CompiledKernel(kernel, form, arch, source, ptx, cubin, milliseconds, cached)
            return self.known[key]


_COMPILER = _Compiler()


def named(kernel: Kernel, form: KernelForm, arch: str) -> tuple[str, str]:
    """The key of a kernel's code in a form, which is equal for equal code alone, and its source."""
    source = CudaPrinter(form, with_lines=False).kernel(kernel)
    return digest([arch, form.index, source]), source


def available() -> bool:
    """Whether the CUDA compiler is installed."""
    return all(map(importlib.util.find_spec, ("numba_cuda", "cuda")))


def compile_forms(kernel: Kernel, arch: str) -> tuple[CompiledKernel, ...]:
    """A kernel in all forms that are compiled ahead."""
    return tuple(compile_kernel(kernel, form, arch) for form in forms(kernel))


def compile_kernel(kernel: Kernel, form: KernelForm, arch: str) -> CompiledKernel:
    """A kernel in one form for an architecture, ``sm_90a`` for example, from this process, the cache, or the compiler.

    Raises UnsupportedError when the compiler is not installed, and for kernels that have no CUDA form.
    """
    return _COMPILER.get(kernel, form, arch)


def _obtain(kernel: Kernel, form: KernelForm, source: str, arch: str) -> tuple[tuple[str, bytes], bool]:
    """PTX and cubin, and whether they were in the cache."""
    _require_compiler()
    folder = store()
    depends = {} if folder is None else {"text": digest([form.index, source]), "arch": arch, **_environment()}
    found = None if folder is None else folder.read("cubin", depends, tuple)
    if found is not None:
        ptx, cubin = found
        return (ptx, cubin), True
    ptx = compile_ptx(kernel, form, arch)
    cubin = link(ptx, arch)
    if folder is not None:
        folder.write("cubin", depends, kernel.name, source, (ptx, cubin))
    return (ptx, cubin), False


def compile_ptx(kernel: Kernel, form: KernelForm | None = None, arch: str = "sm_90a") -> str:
    """The PTX of a kernel; see :func:`compile_kernel`."""
    _require_compiler()
    from numba import cuda

    from zenith.backends.cpu.texts import define
    from zenith.backends.cuda.scalars import namespace

    load_arrays()
    form = form or KernelForm()
    source = CudaPrinter(form, with_lines=False).kernel(kernel)
    function, cc = define(source, kernel.name, namespace()), capability(arch)
    try:
        text, _ = cuda.compile(function, signature(kernel, form.index), device=False, abi="numba", cc=cc)
    except UnsupportedError:
        raise  # an instruction that the architecture does not have
    except Exception as error:  # Numba's, NVVM's and NVRTC's errors have no common base
        raise CompileError(
            f"Zenith generated a kernel that does not compile: {str(error).splitlines()[0]}\n{source}",
            fix="this is a defect of Zenith: report it with the text above",
        ) from error
    return _entry(text, kernel, form)


def _entry(ptx: str, kernel: Kernel, form: KernelForm) -> str:
    """PTX whose entry point has the kernel's name, and states how many threads a block may have."""
    (name,) = re.findall(r"\.entry (\w+)", ptx)
    ptx = ptx.replace(name, kernel.name)
    head, body = ptx.split(f".entry {kernel.name}", 1)
    return (
        f"{head}.entry {kernel.name}{body.replace('{', f'.maxntid {most_threads(kernel, form)}, 1, 1{chr(10)}{{', 1)}"
    )


def link(ptx: str, arch: str) -> bytes:
    """The cubin of a PTX text."""
    from cuda.bindings import nvjitlink

    data = ptx.encode()
    handle = nvjitlink.create(1, [f"-arch={arch}"])
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, data, len(data), "kernel")
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except nvjitlink.nvJitLinkError as error:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        raise CompileError(f"{error}: {log.decode(errors='replace').strip()}",
                           fix="this is a defect of Zenith: report it with your program") from error  # fmt: skip
    finally:
        nvjitlink.destroy(handle)


def signature(kernel: Kernel, index: str) -> Any:
    """The types of an entry point's parameters."""
    from numba.core import types

    word = {"u32": types.uint32, "u64": types.uint64}[index]
    kinds = {b.name: types.CPointer(memory_type(b.dtype)) for b in kernel.buffers}
    kinds["status"] = types.CPointer(types.int64)
    return types.void(*[kinds.get(name, word) for name in parameters(kernel)])


def memory_type(dtype: DType) -> Any:
    """The type of an element in memory: a bool is a byte."""
    from numba.core import types

    from zenith.backends.cpu.scalars import NUMBA_TYPES

    return types.uint8 if dtype.kind == "b" else NUMBA_TYPES[dtype.name]


def _require_compiler() -> None:
    if not available():
        raise UnsupportedError("the CUDA compiler is not installed", fix="pip install 'zenith-compiler[cuda13]'")


@cache
def _environment() -> dict[str, str]:
    """The versions and sources that machine code depends on in addition to its text."""
    return {"generator": sources.OWN.digest(*_GENERATOR), "python": platform.python_version(), **dict(_versions())}


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            yield package, "of the system"
