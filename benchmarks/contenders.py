"""Who is measured. A contender says which libraries it needs and how it turns a workload's program into a call.

Libraries are imported here only, on demand: the worker times the import, and a missing library is named as missing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.workloads import Array, Arrays, Workload

Program = Callable[..., Any]
BASELINE = "torch eager"


@dataclass(frozen=True)
class Contender:
    """A library, or one way to use it.

    Parameters
    ----------
    name: as tables call it.
    libraries: modules whose import is timed; if one is absent, the contender is missing.
    program: the workload as a user of this library would write it, before any compilation.
    convert: NumPy arrays to the library's own kind.
    compile: (program, arguments of the first call) -> what is called; timed together with the first call.
    scope: entered around the first call and all others; no part of any time.
    facts: what the compiled program says about itself afterwards, for the report.
    versions: distributions whose versions stand in the report.
    """

    name: str
    libraries: tuple[str, ...]
    program: Callable[[Workload], Program]
    convert: Callable[[Arrays], tuple[Any, ...]] = lambda arrays: arrays
    compile: Callable[[Program, tuple[Any, ...]], Program] = lambda program, first: program
    scope: Callable[[], AbstractContextManager[Any]] = nullcontext
    facts: Callable[[Program], dict[str, Any]] = lambda call: {}
    versions: tuple[str, ...] = ()

    def load(self) -> None:
        """Import the libraries; ModuleNotFoundError when one is not installed."""
        for library in self.libraries:
            importlib.import_module(library)


def to_numpy(result: Any) -> Array:
    """A result of any contender as a NumPy array."""
    import numpy as np

    return np.asarray(result)


def _numpy_program(workload: Workload) -> Program:
    return workload.numpy(workload.make_weights())


def _torch_program(workload: Workload) -> Program:
    program: Program = workload.torch(workload.make_weights()).eval()
    return program


def _tensors(arrays: Arrays) -> tuple[Any, ...]:
    import torch

    return tuple(torch.from_numpy(x) for x in arrays)


def _inference_mode() -> AbstractContextManager[Any]:
    import torch

    return torch.inference_mode()


def _torch_threads(call: Program) -> dict[str, Any]:
    import torch

    return {"threads": torch.get_num_threads()}


def _zenith_jit(program: Program, first: tuple[Any, ...]) -> Program:
    import zenith

    compiled: Program = zenith.jit(program)
    return compiled


def _zenith_from_torch(program: Program, first: tuple[Any, ...]) -> Program:
    import zenith

    module: Any = program
    compiled: Program = zenith.from_torch(module, first)
    return compiled


def _compilations(call: Any) -> dict[str, Any]:
    return {"misses": call.cache_info().misses}


_ALL = (
    Contender(
        "zenith jit",
        libraries=("zenith",),
        program=_numpy_program,
        compile=_zenith_jit,
        facts=_compilations,
        versions=("zenith-compiler", "numba", "llvmlite", "numpy"),
    ),
    Contender(
        "zenith from_torch",
        libraries=("torch", "zenith"),
        program=_torch_program,
        convert=_tensors,
        compile=_zenith_from_torch,
        scope=_inference_mode,
        facts=_compilations,
        versions=("zenith-compiler", "numba", "llvmlite", "torch"),
    ),
    Contender("numpy", libraries=("numpy",), program=_numpy_program, versions=("numpy",)),
    Contender(
        "torch eager",
        libraries=("torch",),
        program=_torch_program,
        convert=_tensors,
        scope=_inference_mode,
        facts=_torch_threads,
        versions=("torch",),
    ),
)
CONTENDERS = {contender.name: contender for contender in _ALL}


def find(name: str) -> Contender:
    """The contender of a name; ``package.module:ATTRIBUTE`` names one that is defined elsewhere."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        contender: Contender = getattr(importlib.import_module(module), attribute)
        return contender
    return CONTENDERS[name]
