"""The ``lanes`` backend: a plan run with NumPy, kernel by kernel, each lanes loop as one array operation.

It runs the very kernels that the other backends compile, without compiling anything, and so shows whether a wrong
result comes from lowering or from code generation. Kernels can be stepped through in a debugger.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zenith.arrays.adapter import Adapter
from zenith.backends.backend import CompilationReport
from zenith.backends.failures import failures, reported
from zenith.backends.invariants import FixedMemory
from zenith.backends.kernel import Kernel
from zenith.backends.lanes.emit import LanesPrinter
from zenith.backends.plan import Plan
from zenith.backends.scalars import LANES_NAMESPACE
from zenith.backends.steps import (
    COUNTERS,
    Allocation,
    BranchStep,
    CallStep,
    Carry,
    Either,
    LaunchStep,
    LoopStep,
    Slice,
    Step,
    walk,
)
from zenith.backends.weights import WeightTable
from zenith.ir.dims import Dim
from zenith.ir.types import NDArray, NumPyType

Arrays = dict[str, NDArray]  # by the names of allocations
EMPTY = 1 << 12  # elements to read in place of an empty array


class LanesExecutable:
    """A plan with the interface of an executable; ``functions`` are those that its tile kernels call, by name."""

    def __init__(self, plan: Plan, functions: Mapping[str, object], weights: WeightTable) -> None:
        self.plan = plan
        self.report: CompilationReport | None = None
        self.stages: dict[str, str] = {}
        self.groups: dict[str, int] = {}
        self.linked: list[tuple[str, float]] = []  # nothing is compiled
        self.sources: dict[str, str] = {}
        self._functions: dict[str, Callable[..., None]] = {}
        for step in [*(p.launch for p in plan.prepared), *walk(plan.steps)]:
            if isinstance(step, LaunchStep):
                self._define(step.kernel, functions)
        self._fixed: FixedMemory[Arrays] = FixedMemory(plan, weights, self.sources)

    def fix(self, arrays: Arrays) -> Arrays:
        """The arrays themselves."""
        return arrays

    def run_once(self, launch: LaunchStep, arrays: list[NDArray]) -> None:
        """Run a prepared launch."""
        memory = {p.name: a.reshape(-1) for p, a in zip(launch.allocations, arrays, strict=True)}
        self._step(launch, memory, {}, dict.fromkeys(launch.kernel.sizes, 0))

    def _define(self, kernel: Kernel, functions: Mapping[str, object]) -> None:
        if kernel.name not in self._functions:
            source = LanesPrinter().kernel(kernel)
            scope: dict[str, Any] = {**LANES_NAMESPACE, **functions}
            exec(compile(source, f"<zenith lanes {kernel.name}>", "exec"), scope)
            self.sources[kernel.name] = source
            self._functions[kernel.name] = scope[kernel.name]

    def run(
        self, arrays: Sequence[object], adapters: Sequence[Adapter], sizes: Mapping[str, int], results: Adapter
    ) -> list[object]:
        """Run on arrays read through adapters; results are allocated by ``results``."""
        out = [results.empty(tuple(n.evaluate(sizes) for n in t.shape), t.dtype) for _, t in self.plan.outputs]
        fixed = self._fixed.state
        fixed = self._fixed.bind(self) if fixed is None else fixed
        memory: Arrays = {n: a.reshape(-1) for n, a in fixed.items()}
        for name, array, adapter in zip(self.plan.inputs, arrays, adapters, strict=True):
            memory[name] = np.ascontiguousarray(adapter.numpy(array)).reshape(-1)
        flat = [np.empty(results.numpy(array).size, results.numpy(array).dtype) for array in out]
        memory[COUNTERS] = np.zeros(self.plan.counters.evaluate(sizes), np.int32)
        memory.update({name: array for (name, _), array in zip(self.plan.outputs, flat, strict=True)})
        arena = {s.name: np.full(s.length.evaluate(sizes), 0xA5, np.uint8) for s in self.plan.slots}
        for step in self.plan.steps:
            self._step(step, memory, arena, sizes)
        assert not memory[COUNTERS].any(), "counters are left as zeros"
        for array, values in zip(out, flat, strict=True):
            results.numpy(array)[...] = values.reshape(results.numpy(array).shape)
        return out

    def _step(self, step: Step, memory: Arrays, arena: Arrays, sizes: Mapping[str, int]) -> None:
        match step:
            case LaunchStep():
                self._launch(step, memory, arena, sizes)
            case CallStep():
                _call(step, memory, arena, sizes)
            case LoopStep():
                self._loop(step, memory, arena, sizes)
            case BranchStep():
                index = int(_view(step.index, np.dtype(np.int32), memory, arena)[0])
                for inner in step.branches[min(max(index, 0), len(step.branches) - 1)]:
                    self._step(inner, memory, arena, sizes)
            case Either():
                for inner in step.otherwise:  # there are no libraries here
                    self._step(inner, memory, arena, sizes)

    def _launch(self, step: LaunchStep, memory: Arrays, arena: Arrays, sizes: Mapping[str, int]) -> None:
        kernel, status = step.kernel, [0]
        buffers = [
            _view(p, b.dtype.numpy, memory, arena) for p, b in zip(step.allocations, kernel.buffers, strict=True)
        ]
        tasks = kernel.tasks.evaluate(sizes)
        if tasks:
            with np.errstate(all="ignore"):
                self._functions[kernel.name](0, tasks, [status, *buffers, *(sizes[s] for s in kernel.sizes)])
        if status[0]:
            raise reported(failures(kernel, step.lines), status[0]).error()

    def _loop(self, loop: LoopStep[Step, Dim], memory: Arrays, arena: Arrays, sizes: Mapping[str, int]) -> None:
        """The loop in Python; moving allocations are views."""
        count = None if loop.count is None else loop.count.evaluate(sizes)
        carried = [[_slice(p, c, sizes, memory, arena) for p in c.allocations] for c in loop.carries]
        for number in itertools.count():
            for carry, (start, result, other) in zip(loop.carries, carried, strict=True):
                pair = (result, other) if number % 2 == 0 else (other, result)
                memory[carry.current.name], memory[carry.following.name] = (pair[1] if number else start), pair[0]
            if number == count or not self._continues(loop, memory, arena, sizes):
                break
            at = number if count is None or not loop.reverse else count - 1 - number
            if loop.source is not None:
                at = int(_view(loop.source, np.dtype(np.int64), memory, arena)[0])
            inside = {**sizes, loop.index: at}
            for moving in loop.slices:
                memory[moving.element.name] = _slice(moving.whole, moving, sizes, memory, arena, at)
            for step in loop.steps:
                self._step(step, memory, arena, inside)
        for carry, (_, result, _) in zip(loop.carries, carried, strict=True):
            result[...] = memory[carry.current.name]

    def _continues(self, loop: LoopStep[Step, Dim], memory: Arrays, arena: Arrays, sizes: Mapping[str, int]) -> bool:
        for step in loop.condition:
            self._step(step, memory, arena, sizes)
        return loop.flag is None or bool(_view(loop.flag, np.dtype(np.bool_), memory, arena)[0])


def _call(step: CallStep, memory: Arrays, arena: Arrays, sizes: Mapping[str, int]) -> None:
    shapes = [tuple(n.evaluate(sizes) for n in t.shape) for t in step.types]
    views = [
        _view(p, t.dtype.numpy, memory, arena)[: int(np.prod(s, dtype=np.int64))].reshape(s)
        for p, t, s in zip(step.allocations, step.types, shapes, strict=True)
    ]
    step(views)


def _slice(
    a: Allocation, of: Carry[Dim] | Slice[Dim], sizes: Mapping[str, int], memory: Arrays, arena: Arrays, number: int = 0
) -> NDArray:
    """The elements of slice ``number`` of an allocation."""
    count = of.length.evaluate(sizes) // of.dtype.itemsize
    return _view(a, of.dtype.numpy, memory, arena)[number * count : (number + 1) * count]


def _view(a: Allocation, dtype: NumPyType, memory: Arrays, arena: Arrays) -> NDArray:
    """The elements of an allocation, of complex arrays real and imaginary parts. An empty one has some zeros, since
    reads of it are executed and discarded.
    """
    found = arena[a.name] if a.kind == "slot" else memory[a.name]
    return found.view(dtype) if found.size else np.zeros(EMPTY, dtype)
