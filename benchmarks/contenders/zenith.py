"""Zenith, from both of its front ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.contenders.arrays import numpy_program
from benchmarks.contenders.contender import (
    Contender,
    Job,
    Program,
    Saving,
    inference_mode,
    needs_numpy_program,
    tensors,
    torch_program,
)


def _jit(job: Job) -> Program:
    import zenith

    compiled: Program = zenith.jit(job.program)
    return compiled


def _from_torch(job: Job) -> Program:
    import zenith

    module: Any = job.program
    compiled: Program = zenith.from_torch(module, job.first)
    return compiled


def _compilations(call: Any) -> dict[str, Any]:
    return {"compilations": call.cache_info().misses}


def _save(call: Any, path: Path) -> None:
    call.save(path)


def _load(path: Path) -> Program:
    import zenith

    return zenith.load(path)


_SAVING = Saving(_save, _load)

JIT = Contender(
    "zenith jit",
    libraries=("zenith",),
    program=numpy_program,
    compile=_jit,
    facts=_compilations,
    saving=_SAVING,
    versions=("zenith-compiler", "numba", "llvmlite", "numpy"),
    declines=needs_numpy_program,
)
FROM_TORCH = Contender(
    "zenith from_torch",
    libraries=("torch", "zenith"),
    program=torch_program,
    convert=tensors,
    compile=_from_torch,
    scope=inference_mode,
    facts=_compilations,
    saving=_SAVING,
    versions=("zenith-compiler", "numba", "llvmlite", "torch"),
)
