"""PyTorch: eager, and ``torch.compile`` with inductor in the modes that its documentation offers for inference."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.contender import Contender, Job, Program, inference_mode, tensors, torch_program
from benchmarks.contenders.steps import Step, TorchStep

if TYPE_CHECKING:
    from benchmarks.workloads import Workload


def _torch_threads(call: Program) -> dict[str, Any]:
    import torch

    return {"threads": torch.get_num_threads()}


def _inductor(*, freezing: bool = False, dynamic: bool | None = None) -> Callable[[Job], Program]:
    def compile(job: Job) -> Program:
        import torch
        import torch._inductor.config

        torch._inductor.config.freezing = freezing
        return job.compiled(lambda module: torch.compile(module, dynamic=dynamic))

    return compile


def _inductor_step(workload: Workload) -> Step:
    import torch

    return TorchStep(workload, torch.compile)


def _graphs(call: Program) -> dict[str, Any]:
    from torch._dynamo.utils import counters

    return {"compilations": counters["stats"]["unique_graphs"]}


def needs_compiler(workload: Workload) -> str | None:
    """Why inductor cannot run here, or None."""
    compiler = os.environ.get("CXX", "g++")
    return None if shutil.which(compiler) else f"inductor needs a C++ compiler, and {compiler} is not installed"


def _needs_matrices(workload: Workload) -> str | None:
    return needs_compiler(workload) or (None if workload.has_matrices else "there are no matrices to freeze")


def _needs_changing_sizes(workload: Workload) -> str | None:
    return needs_compiler(workload) or (None if workload.varied else "sizes do not change from call to call")


def _contender(
    name: str,
    compile: Callable[[Job], Program],
    declines: Callable[[Workload], str | None] = needs_compiler,
    step: Callable[[Workload], Step] | None = None,
) -> Contender:
    return Contender(
        name,
        libraries=("torch",),
        program=torch_program,
        convert=tensors,
        compile=compile,
        scope=inference_mode,
        facts=_graphs,
        versions=("torch",),
        step=step,
        submodules=True,
        declines=declines,
    )


EAGER = Contender(
    "torch eager",
    libraries=("torch",),
    program=torch_program,
    convert=tensors,
    scope=inference_mode,
    facts=_torch_threads,
    versions=("torch",),
    step=TorchStep,
    loops=True,
    submodules=True,
)
INDUCTOR = _contender("inductor", _inductor(), step=_inductor_step)
INDUCTOR_FREEZING = _contender("inductor freezing", _inductor(freezing=True), _needs_matrices)
INDUCTOR_DYNAMIC = _contender("inductor dynamic", _inductor(dynamic=True), _needs_changing_sizes)
