"""Ahead of time: ``zenith.aot`` compiles a function's CUDA kernels for an architecture; no GPU is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zenith.api.compilable import Compilable
from zenith.api.jit import jit
from zenith.backends.cuda.architecture import capability
from zenith.backends.cuda.compile import CompiledKernel, compile_forms
from zenith.backends.cuda.cubin import Resources, resources
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.target import DEFAULT, cuda_target
from zenith.backends.planner import plan
from zenith.passes.pipeline import passes_for, run


@dataclass(frozen=True)
class Ahead:
    """The CUDA kernels of a function, each mapping by their names; those of forms end in a width, and in ``resident``.

    Attributes
    ----------
    arch: the architecture, ``sm_90a`` for example.
    plan: what is launched on which memory, as text.
    sources: the generated Python, with the user's lines.
    ptx: NVIDIA's assembly language, which later GPUs of the same family can translate.
    cubin: machine code of the architecture.
    resources: what each takes: registers, bytes of stack and of shared memory.
    """

    arch: str
    plan: str
    sources: Mapping[str, str]
    ptx: Mapping[str, str]
    cubin: Mapping[str, bytes]
    resources: Mapping[str, Resources]

    def __repr__(self) -> str:
        return f"<zenith Ahead: {len(self.cubin)} kernels for {self.arch}>"


def aot(
    fn: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object] | None = None,
    *,
    arch: str = DEFAULT,
    repeatable: bool = True,
    tf32: bool = False,
) -> Ahead:
    """Compile the CUDA kernels of ``fn(*args, **kwargs)`` for an architecture; no GPU and no driver are needed.

    ``fn`` is a function of arrays, one that ``jit`` or ``from_torch`` made, or a PyTorch module. The kernels serve
    every size of the arguments that the program serves. They are what ``backend="cuda"`` runs, stored in the same
    cache on disk. ``repeatable=False`` and ``tf32=True`` are what they are for :func:`zenith.jit`; a function that was
    compiled with them keeps them.

    Raises UnsupportedError when the CUDA compiler is not installed, for what is no architecture, and for operations
    without a CUDA form; and what tracing raises.

    >>> import numpy as np
    >>> ready = aot(lambda x: np.tanh(x) * 2, (np.ones(8, np.float32),), arch="sm_75")
    >>> print(next(iter(ready.sources.values())).splitlines()[0])  # doctest: +ELLIPSIS
    def tanh_mul_...(tasks, status, p0, out0, x0):
    >>> all(".target sm_75" in text for text in ready.ptx.values())
    True
    """
    capability(arch)
    compilable = _compilable(fn)
    graph, allowed = compilable.lower(*args, **(kwargs or {})).graph, compilable.numerics
    target = cuda_target(arch, tf32 or allowed.tf32, repeatable and allowed.repeatable, precision=allowed.precision)
    planned = plan(run(graph, passes_for(target))[0], target)
    codes = {_name(code): code for kernel in planned.kernels.values() for code in compile_forms(kernel, arch)}
    return Ahead(
        arch,
        str(planned),
        {name: CudaPrinter(code.form).kernel(code.kernel) for name, code in codes.items()},
        {name: code.ptx for name, code in codes.items()},
        {name: code.cubin for name, code in codes.items()},
        {name: resources(code.cubin) for name, code in codes.items()},
    )


def _compilable(fn: Callable[..., object]) -> Compilable:
    """The object that traces ``fn``: ``fn`` itself, or one made here, for a backend that plans nothing."""
    if isinstance(fn, Compilable):
        return fn
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(fn, torch.nn.Module):
        from zenith.torch.module import CompiledModule

        return CompiledModule(fn, "reference", None)
    return jit(fn, backend="reference")


def _name(code: CompiledKernel) -> str:
    width = "" if code.form.width == 1 else f"_x{code.form.width}"
    return f"{code.kernel.name}{width}{'_resident' if code.form.iterations else ''}"
