"""Running graphs on every backend, and how far results may be from the interpreter's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.bounds import reference_bounds, violations
from tests.gpu.device import download, upload
from tests.ir.cases import same
from zenith.arrays import NUMPY, cupy_adapter
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.cuda.status import synchronize
from zenith.backends.cuda.target import cuda_target
from zenith.backends.donation import Donation
from zenith.backends.emit import Printer
from zenith.backends.kernel import Kernel
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.plan import Plan
from zenith.backends.planner import plan
from zenith.backends.scalars import NAMESPACE
from zenith.backends.steps import COUNTERS
from zenith.backends.table import BACKENDS
from zenith.backends.target import Target
from zenith.backends.weights import WeightTable
from zenith.compile import LoweredGraph, Lowering, compile_graph, link_graph
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.interpret import bind_sizes, interpret
from zenith.ir.primitive import Primitive, Sample
from zenith.ir.types import ArrayType, dtype_of
from zenith.passes.fuse import fuse
from zenith.passes.pipeline import passes_for
from zenith.passes.pipeline import run as run_passes


class ScalarExecutable(LanesExecutable):
    """A plan run as the plain Python that the scalar printer writes: the source that Numba compiles, undecorated."""

    def _define(self, kernel: Kernel, functions: Mapping[str, Any]) -> None:
        if kernel.name not in self._functions:
            source, scope = Printer().kernel(kernel), {**NAMESPACE, **functions}
            exec(compile(source, f"<{kernel.name}>", "exec"), scope)
            self.sources[kernel.name], self._functions[kernel.name] = source, scope[kernel.name]


class Donating(ScalarExecutable):
    """The same with a copy of every argument donated: results take the memory of arguments."""

    def run(self, arrays: Sequence[Any], adapters: Sequence[Any], sizes: Mapping[str, int], results: Any) -> list[Any]:
        """Run on NumPy arrays, which are left as they are."""
        plan, given = self.plan, [np.array(array) for array in arrays]
        donation = Donation(plan.steps, list(zip(plan.inputs, map(_type_of, given), strict=True)), plan.outputs,
                            [True] * len(given))  # fmt: skip
        taken = dict(donation.pairs(sizes))
        out = [
            given[taken[i]] if i in taken else np.empty([n.evaluate(sizes) for n in t.shape], t.dtype.numpy)
            for i, (_, t) in enumerate(plan.outputs)
        ]
        named = [*self._fixed.bind(self).items(), *zip(plan.inputs, given, strict=True)]
        named += zip((name for name, _ in plan.outputs), out, strict=True)
        memory = {name: array.reshape(-1) for name, array in named}
        memory[COUNTERS] = np.zeros(plan.counters.evaluate(sizes), np.int32)
        arena = {s.name: np.full(s.length.evaluate(sizes), 0xA5, np.uint8) for s in plan.slots}
        for step in plan.steps:
            self._step(step, memory, arena, sizes)
        return out


def _type_of(array: Any) -> ArrayType:
    dtype = dtype_of(array.dtype)
    assert dtype is not None
    return ArrayType(dtype, array.shape)


class OnDevice:
    """A program for a GPU that takes and gives NumPy arrays, which are copied there and back."""

    def __init__(self, graph: Graph) -> None:
        self.executable = compile_graph(graph, "cuda")

    def run(self, args: Sequence[Any], adapters: Sequence[Any], sizes: Mapping[str, int], results: Any) -> list[Any]:
        """The results as NumPy arrays, once everything is done and nothing was reported."""
        adapter = cupy_adapter(0)
        found = self.executable.run([upload(a) for a in args], [adapter] * len(args), sizes, adapter)
        synchronize()
        return [download(r) for r in found]


def plan_of(graph: Graph, target: Target | None = None) -> Plan:
    """The plan of a graph after all passes, for this processor or another target."""
    target = target or cpu_target()
    return plan(run_passes(graph, passes_for(target))[0], target)


def compiled(graph: Graph, backend: str) -> Any:
    """The executable of a backend.

    ``scalar`` is the scalar printer's source as plain Python, ``donating`` the same with donated arguments, ``cuda on
    lanes`` the kernels of a GPU's plan with NumPy, ``cuda`` the GPU itself.
    """
    if backend == "cuda":
        return OnDevice(graph)
    if backend == "donating":
        return Donating(plan_of(graph), TILE_FUNCTIONS, WeightTable.of(graph))
    if backend == "scalar":
        return ScalarExecutable(plan_of(graph), TILE_FUNCTIONS, WeightTable.of(graph))
    if backend == "cuda on lanes":
        return LanesExecutable(plan_of(graph, cuda_target()), TILE_FUNCTIONS, WeightTable.of(graph))
    return compile_graph(graph, backend)


def _unfused(graph: Graph) -> Graph:
    return fuse(graph, grow=False)


def compiled_unfused(graph: Graph, backend: str) -> Any:
    """The executable of ``cpu`` or ``lanes`` in which each operation is a kernel of its own."""
    lowered = LoweredGraph(graph, BACKENDS[backend])
    assert lowered.target is not None, "it is not interpreted"
    *before, _ = passes_for(lowered.target)
    unfused, reports = run_passes(graph, (*before, _unfused))
    lowered.lowering = Lowering(unfused, reports, plan(unfused, lowered.target))
    return link_graph(lowered)


def call(executable: Any, graph: Graph, args: Sequence[Any]) -> list[Any]:
    """Run an executable of ``graph`` on NumPy arrays."""
    return executable.run(args, [NUMPY] * len(args), bind_sizes(graph, args, {}), NUMPY)


def add_sample(graph: Graph, primitive: Primitive, sample: Sample, symbolic: bool, sizes: dict[int, str]) -> list[Any]:
    """Append a primitive on a sample to a graph, its results to the outputs; return the arguments.

    Symbols are numbered as their sizes appear (0 has one, 1 has none), so that samples of other sizes share kernels.
    """
    arrays, inputs = [np.asarray(v) for v in sample.values], []
    for array in arrays:
        shape = [symbol(sizes.setdefault(n, f"d{len(sizes)}")) if symbolic and n != 1 else n for n in array.shape]
        dtype = dtype_of(array.dtype)
        assert dtype is not None
        inputs.append(graph.add_input(ArrayType(dtype, shape), f"x{len(graph.inputs)}"))
    graph.set_outputs([*graph.outputs, *graph.add(primitive, inputs, sample.params)])
    return arrays


def check(results: Sequence[Any], graph: Graph, args: Sequence[Any], exact: bool = False) -> None:
    """Compare with the interpreter: within the bounds that the declared errors give, or bit by bit."""
    for result, value in zip(results, graph.outputs, strict=True):
        assert result.dtype == value.dtype.numpy
    with np.errstate(all="ignore"):
        if exact:
            assert all(same(a, b) for a, b in zip(results, interpret(graph, *args), strict=True))
        else:
            assert violations(results, reference_bounds(graph, args)) == []
