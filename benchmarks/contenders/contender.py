"""Who is measured. A contender says which libraries it needs and how it turns a workload's program into a call.

Libraries are imported on demand: the worker times the import, and a missing library is named as missing.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.steps import Step

if TYPE_CHECKING:
    from benchmarks.workloads import Array, Arrays, Workload

Program = Callable[..., Any]
CACHE_VARIABLE = "BENCHMARKS_CACHE_DIR"


def _copy(array: Any) -> Array:
    import numpy as np

    return np.asarray(array).copy()


@dataclass(frozen=True)
class Job:
    """What a contender compiles: the program as a user of its library would write it, for a first call.

    Parameters
    ----------
    program: in the form that the contender asked for.
    first: the arguments of the first call, in the library's own kind.
    changing_axes: of each argument, those whose size differs between calls.
    expression: the program as one elementwise expression, if it is one.
    part: the submodule of the program that is to be compiled instead of the program, if not the whole.
    calibration: batches of arguments, as arrays, from which ranges of activations may be taken.
    """

    program: Program
    first: tuple[Any, ...]
    changing_axes: list[list[int]]
    expression: str
    part: str = ""
    calibration: Sequence[Arrays] = ()

    def compiled(self, compile: Callable[[Any], Any]) -> Program:
        """The program compiled, or with its submodule ``part`` compiled."""
        if not self.part:
            whole: Program = compile(self.program)
            return whole
        setattr(self.program, self.part, compile(getattr(self.program, self.part)))
        return self.program


@dataclass(frozen=True)
class Saving:
    """How a compiled program is stored as a file, for a process that does not compile: ``load`` reverses ``save``."""

    save: Callable[[Program, Path], None]
    load: Callable[[Path], Program]


@dataclass(frozen=True)
class Contender:
    """A library, or one way to use it.

    Parameters
    ----------
    name: as tables call it.
    libraries: modules whose import is timed; if one is absent, the contender is missing.
    program: the workload as a user of this library would write it, before any compilation.
    convert: NumPy arrays to the library's own kind.
    compile: what is called; timed together with the first call.
    scope: entered around the first call and all others, and not timed.
    facts: what the compiled program says about itself afterwards, for the report.
    saving: how it stores a compiled program as a file, if it can.
    versions: distributions whose versions appear in the report.
    step: how it computes gradients and trains; None if it does not.
    loops: whether it runs a long loop as a loop.
    submodules: whether it compiles a submodule of a module that changes its own state.
    declines: why it does not run a workload, or None; imports nothing.
    finish: waits until the results of the last call, which it takes, and of all before are there.
    fetch: a result, or another array of the library's, as a NumPy array of its own.
    ceiling: it does what bounds the workload's time and nothing else, so that there are no results to check.
    """

    name: str
    libraries: tuple[str, ...]
    program: Callable[[Workload], Program]
    convert: Callable[[Arrays], tuple[Any, ...]] = lambda arrays: arrays
    compile: Callable[[Job], Program] = lambda job: job.program
    scope: Callable[[], AbstractContextManager[Any]] = nullcontext
    facts: Callable[[Program], dict[str, Any]] = lambda call: {}
    saving: Saving | None = None
    versions: tuple[str, ...] = ()
    step: Callable[[Workload], Step] | None = None
    loops: bool = False
    submodules: bool = False
    declines: Callable[[Workload], str | None] = lambda workload: None
    finish: Callable[[Any], None] = lambda result: None
    fetch: Callable[[Any], Array] = _copy
    ceiling: bool = False

    def load(self) -> None:
        """Import the libraries; ModuleNotFoundError when one is not installed."""
        for library in self.libraries:
            importlib.import_module(library)

    def absent_from(self, workload: Workload) -> str | None:
        """Why it does not run a workload, or None; imports nothing."""
        if workload.descent is not None and self.step is None:
            return "it computes no gradients"
        if workload.loops and not self.loops:
            return "it has no loops, or unrolls them"
        if workload.part and not self.submodules:
            return "it compiles no part of a module that changes what it holds"
        return self.declines(workload)


def missing_library(workload: Workload) -> str | None:
    """The first module that the workload needs and that is not installed; imports nothing."""
    return next((name for name in workload.libraries if importlib.util.find_spec(name) is None), None)


def needs_numpy_program(workload: Workload) -> str | None:
    """Why contenders that compile NumPy programs do not run a workload, or None."""
    return "the program exists as a PyTorch module only" if workload.numpy is None else None


def torch_program(workload: Workload) -> Program:
    """The workload's PyTorch module, for inference."""
    program: Program = workload.torch(workload.weights()).eval()
    return program


def tensors(arrays: Arrays) -> tuple[Any, ...]:
    """Tensors that share the arrays' memory."""
    import torch

    return tuple(torch.from_numpy(x) for x in arrays)


def inference_mode() -> AbstractContextManager[Any]:
    """PyTorch without gradients."""
    import torch

    return torch.inference_mode()


def threads() -> int:
    """How many the harness grants to every library."""
    return int(os.environ["OMP_NUM_THREADS"])


def cache_folder() -> Path:
    """Where a contender may store what it compiled for its next process; libraries' own variables name it too."""
    return Path(os.environ[CACHE_VARIABLE])


def outcome(call: Program, result: Any, fetch: Callable[[Any], Array] = _copy) -> Array:
    """The checked outcome of a call of any contender: a copy of its result as a NumPy array, or that of a step."""
    return call.outcome(result, fetch) if isinstance(call, Step) else fetch(result)
