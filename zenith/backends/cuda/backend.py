"""The record of the ``cuda`` backend. CUDA's libraries are imported when it is used, not with the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zenith.backends.backend import Backend, DeferredLowering, Files, Lower, group_counts
from zenith.backends.donation import Donation
from zenith.backends.engines import Engine
from zenith.backends.target import Target
from zenith.backends.terms import with_named_terms
from zenith.ir.graph import Graph
from zenith.ir.numerics import GPU_TRAFFIC, Numerics
from zenith.ir.text import print_graph

if TYPE_CHECKING:
    from zenith.backends.cuda.executable import Executable
    from zenith.backends.cuda.functions import Compile
    from zenith.backends.cuda.stored import CudaProgram


def _target(device: int | None, numerics: Numerics) -> Target:
    from zenith.backends.cuda.libraries import LIBRARIES
    from zenith.backends.cuda.link import planned_arch
    from zenith.backends.cuda.target import cuda_target

    return cuda_target(planned_arch(device), numerics.tf32, numerics.repeatable, LIBRARIES, numerics.precision)


def _link(lowered: DeferredLowering, donated: Sequence[bool], written: Mapping[int, int]) -> Executable:
    executable = _executable(lowered)
    executable.donation = Donation.of(lowered.plan, lowered.traced, donated, written)
    return executable


def _executable(lowered: DeferredLowering, compile: Compile | None = None) -> Executable:
    """The program on its device; ``compile`` replaces the compiler."""
    from zenith.backends.cuda.link import link

    executable = link(lowered.plan, lowered.traced, lowered.device, compile)
    optimized = print_graph(lowered.graph, with_lines=True)
    executable.stages = {
        "plan": with_named_terms(str(lowered.plan)),
        "kernels": executable.sources,
        "optimized": optimized,
    }
    executable.groups = group_counts(lowered.graph)
    return executable


def _save(executable: Executable, graph: Graph, numerics: Numerics) -> CudaProgram:
    from zenith.backends.cuda.closed import stored

    return stored(executable, graph, numerics)


def _reader(path: Path, lower: Lower) -> Callable[[str, CudaProgram], Executable]:
    """Plans a file's programs, with their machine code instead of a compiler."""
    from zenith.backends.cuda.closed import Reader

    reader = Reader(path)

    def link(text: str, stored: CudaProgram) -> Executable:
        lowered = lower(reader.graph(text, stored), stored.device, stored.numerics)
        return _executable(lowered, reader.compiler(stored, lowered.plan))

    return link


def _engines() -> tuple[Engine, ...]:
    from zenith.backends.cuda.libraries import LIBRARY_ENGINES

    return LIBRARY_ENGINES


def _require() -> object:
    from zenith.backends.cuda.driver import driver

    return driver()


def _current_device() -> int:
    from zenith.backends.cuda.driver import driver

    return driver().device()


CUDA = Backend(
    "cuda",
    "Kernels that Numba-CUDA compiles, on a GPU of NVIDIA's.",
    _link,
    _target,
    files=Files(_save, _reader),
    current_device=_current_device,
    require=_require,
    traffic=GPU_TRAFFIC,
    sized_loops=False,
    engines=_engines,
)
