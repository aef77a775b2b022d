"""Zenith, from both of its front ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from benchmarks.contenders.steps import FunctionalStep, Step, TorchStep, functional_step

if TYPE_CHECKING:
    from benchmarks.workloads import Workload


def _program(workload: Workload) -> Program:
    """The NumPy program; where it has a loop, with Zenith's."""
    if not workload.loops:
        return numpy_program(workload)
    import zenith.numpy

    assert workload.numpy is not None
    return workload.numpy(workload.weights(), zenith.numpy)


def _jit(job: Job) -> Program:
    import zenith

    compiled: Program = zenith.jit(job.program)
    return compiled


class ZenithStep(FunctionalStep):
    """``zenith.jit`` of ``value_and_grad`` and an optimiser of ``zenith.optim``; weights and state are donated.

    ``move`` copies an array to where the step is to run.
    """

    def __init__(self, workload: Workload, move: Callable[[Any], Any] = lambda array: array) -> None:
        import zenith
        from zenith import optim

        build, descent, weights = workload.numpy, workload.descent, workload.weights()
        assert build is not None and descent is not None
        rules = {
            "sgd": lambda: optim.sgd(descent.rate, descent.momentum),
            "adam": lambda: optim.adam(descent.rate),
            "adamw": lambda: optim.adamw(descent.rate),
        }
        rule = rules[descent.rule]() if descent.rule else None

        def advance(weights: Any, gradient: Any, state: Any) -> tuple[Any, Any]:
            assert rule is not None
            updates, state = rule.update(gradient, state, weights)
            return optim.apply_updates(weights, updates), state

        gradient = zenith.value_and_grad(lambda weights, *batch: build(weights, zenith.numpy)(*batch))
        step = zenith.jit(functional_step(gradient, advance if rule else None), donate_argnums=(0, 1) if rule else ())
        leaves, structure = zenith.tree.flatten((weights, rule.init(weights) if rule else ()))
        weights, state = zenith.tree.unflatten(structure, map(move, leaves))
        super().__init__(step, weights, state, learns=rule is not None)

    def cache_info(self) -> Any:
        """What was compiled."""
        return self.step.cache_info()  # type: ignore[attr-defined]


def _from_torch(job: Job) -> Program:
    import zenith

    module: Any = job.program
    compiled: Program = zenith.from_torch(module, job.first)
    return compiled


class ModuleStep(TorchStep):
    """Autograd through a module that ``from_torch`` compiled, and PyTorch's own optimisers.

    ``move`` and ``convert`` copy the module and a batch to where the step is to run.
    """

    def __init__(
        self,
        workload: Workload,
        move: Callable[[Any], Any] = lambda module: module,
        convert: Callable[[Any], tuple[Any, ...]] = tensors,
    ) -> None:
        import zenith

        super().__init__(workload, lambda module: zenith.from_torch(module, convert(workload.first())), move)

    def cache_info(self) -> Any:
        """What was compiled of the forward pass."""
        return self._loss.autograd.forward.cache_info()


_OPTIONS: dict[str, Any] = {"fallback": "error"}  # what PyTorch computed would not be Zenith's


def compiled(module: Any, backend: Any = "zenith") -> Any:
    """The module by ``torch.compile``, and all of it by Zenith; ``backend`` where the package is not installed."""
    import torch

    return torch.compile(module, backend=backend, options=_OPTIONS)


def _torch_compile(job: Job) -> Program:
    return job.compiled(compiled)


def _compiled_step(workload: Workload) -> Step:
    return TorchStep(workload, compiled)


def programs_of_backend(call: Any) -> dict[str, Any]:
    """How many programs ``torch.compile`` has had Zenith compile."""
    import zenith

    return {"compilations": sum(graph.cache_info().misses for graph in zenith.torch.graphs())}


def needs_a_network(workload: Workload) -> str | None:
    """Why a workload is not measured as a module."""
    return None if workload.has_matrices or workload.descent else "from_torch is measured for what is no network"


def compilations(call: Any) -> dict[str, Any]:
    """How many programs were compiled."""
    return {"compilations": call.cache_info().misses}


def _save(call: Any, path: Path) -> None:
    call.save(path)


def _load(path: Path) -> Program:
    import zenith

    return zenith.load(path)


SAVING = Saving(_save, _load)

JIT = Contender(
    "zenith jit",
    libraries=("zenith",),
    program=_program,
    compile=_jit,
    facts=compilations,
    saving=SAVING,
    versions=("zenith-compiler", "numba", "llvmlite", "numpy"),
    step=ZenithStep,
    loops=True,
    declines=needs_numpy_program,
)
FROM_TORCH = Contender(
    "zenith from_torch",
    libraries=("torch", "zenith"),
    program=torch_program,
    convert=tensors,
    compile=_from_torch,
    scope=inference_mode,
    facts=compilations,
    saving=SAVING,
    versions=("zenith-compiler", "numba", "llvmlite", "torch"),
    step=ModuleStep,
)
TORCH_COMPILE = Contender(
    "zenith torch.compile",
    libraries=("torch", "zenith"),
    program=torch_program,
    convert=tensors,
    compile=_torch_compile,
    scope=inference_mode,
    facts=programs_of_backend,
    versions=("zenith-compiler", "numba", "llvmlite", "torch"),
    step=_compiled_step,
    submodules=True,
    declines=needs_a_network,
)
