"""Compiling a kernel to PTX through Numba-CUDA, which serves as a compiler only: no GPU, no driver, no launch.

The entry point has the kernel's name and a flat list of parameters: ``tasks``, the address of the int64 status word,
the addresses of the buffers, the sizes; integers are of the index type.
"""

from __future__ import annotations

import importlib.util
import re
from typing import Any

from numba.core import types

from zenith.backends.cpu.link import define
from zenith.backends.cpu.scalars import NUMBA_TYPES
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.scalars import namespace
from zenith.backends.kernel import Kernel
from zenith.errors import CompileError, UnsupportedError
from zenith.ir.types import DType

INDEX_TYPES: dict[str, Any] = {"u32": types.uint32, "u64": types.uint64}


def available() -> bool:
    """Whether the CUDA compiler is installed."""
    return importlib.util.find_spec("numba_cuda") is not None


def compile_ptx(kernel: Kernel, cc: tuple[int, int] = (9, 0), index: str = "u32") -> str:
    """The PTX of a kernel for a compute capability.

    ``index`` is the type of indices: ``u32``, or ``u64`` where a buffer has 2**31 elements or more. Raises
    UnsupportedError when the compiler is not installed, and for kernels that have no CUDA form.
    """
    if not available():
        raise UnsupportedError("the CUDA compiler is not installed", fix="pip install 'zenith-compiler[cuda13]'")
    from numba import cuda

    source = CudaPrinter(with_lines=False, index=index).kernel(kernel)
    function = define(source, kernel.name, namespace())
    try:
        text, _ = cuda.compile(function, signature(kernel, index), device=False, abi="numba", cc=cc)
    except Exception as error:  # Numba's, NVVM's and NVRTC's errors have no common base
        raise CompileError(
            f"Zenith generated a kernel that does not compile: {str(error).splitlines()[0]}\n{source}",
            fix="this is a defect of Zenith: report it with the text above",
        ) from error
    (entry,) = re.findall(r"\.entry (\w+)", text)
    return str(text).replace(entry, kernel.name)


def signature(kernel: Kernel, index: str) -> Any:
    """The types of an entry point's parameters."""
    word = INDEX_TYPES[index]
    buffers = [types.CPointer(memory_type(b.dtype)) for b in kernel.buffers]
    return types.void(word, types.CPointer(types.int64), *buffers, *[word] * len(kernel.sizes))


def memory_type(dtype: DType) -> Any:
    """What an element is in memory: a bool is a byte."""
    return types.uint8 if dtype.kind == "b" else NUMBA_TYPES[dtype.name]
