"""Closed programs of a GPU: the inputs of planning, with machine code, so that loading compiles nothing.

A file fits the very Zenith that wrote it, so a traced graph has the same plan wherever it is loaded: graph, constants,
weights and numerics are the program. Its kernels' code goes by the digest of their source; a kernel without code in the
file was planned differently, with other engines or another table of schedules, and is an error. Weights are copied to
the device once, for all programs of a file; arrays prepared from them are prepared a second time there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zenith.backends.cuda.compile import CompiledKernel, named
from zenith.backends.cuda.device_memory import DeviceArray, DeviceMemory
from zenith.backends.cuda.driver import driver
from zenith.backends.cuda.executable import Executable
from zenith.backends.cuda.forms import KernelForm
from zenith.backends.cuda.functions import Compile
from zenith.backends.cuda.memory import pool
from zenith.backends.cuda.stored import CudaProgram
from zenith.backends.kernel import Kernel
from zenith.backends.plan import Plan
from zenith.backends.weights import WeightTable
from zenith.errors import LoadError, SourceLine, UnsupportedError
from zenith.ir.graph import Graph, Value
from zenith.ir.numerics import Numerics
from zenith.ir.text import parse
from zenith.ir.types import NDArray
from zenith.sources import digest


def stored(executable: Executable, graph: Graph, numerics: Numerics) -> CudaProgram:
    """A program as a record; raises UnsupportedError when a weight that the graph names was released."""
    arch = executable.driver.describe(executable.device).arch
    return CudaProgram(
        executable.device,
        arch,
        numerics,
        tuple(node.line for node in graph.walk()),
        digest([str(executable.plan)]),
        {name: array for g in _graphs(graph) for name, array in g.constants.items()},
        dict(_weights(executable, graph)),
        dict(_codes(executable, arch)),
    )


def _graphs(graph: Graph) -> Iterator[Graph]:
    """A graph and the bodies in it."""
    yield graph
    for node in graph.walk():
        yield from node.bodies


def _weights(executable: Executable, graph: Graph) -> Iterator[tuple[str, NDArray]]:
    """The weights that a graph names, copied to the host."""
    memory = DeviceMemory(executable.pool, executable.device)
    known = graph.weights.snapshot() if isinstance(graph.weights, WeightTable) else dict(graph.weights)
    for name in sorted({str(n.params["name"]) for n in graph.walk() if n.primitive.name == "weight"}):
        array: Any = known[name]
        if not isinstance(array, DeviceArray):
            raise UnsupportedError(f"weight {name} was released, and a file for a GPU contains weights as they are",
                                   fix="keep the weights: release_weights=False")  # fmt: skip
        yield name, memory.host(array)


def _codes(executable: Executable, arch: str) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    for functions in executable.program.functions.values():
        for function in list(functions.functions):
            code = function.code
            yield named(code.kernel, code.form, arch)[0], (code.ptx.encode(), code.cubin)


class Reader:
    """Reads the programs of one file, which share their weights on each device."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._uploaded: dict[tuple[int, int], DeviceArray] = {}
        self._tables: dict[Any, WeightTable] = {}

    def graph(self, text: str, program: CudaProgram) -> Graph:
        """The graph of a program; LoadError unless a GPU of its architecture has its number here."""
        self._check_arch(program.device, program.arch)
        table = self._table(program.device, program.weights)
        return _with_lines(parse(text, dict(program.constants), table), iter(program.lines), table)

    def compiler(self, program: CudaProgram, plan: Plan) -> Compile:
        """What has the code of the plan's kernels; LoadError unless it was planned as when it was saved."""
        if digest([str(plan)]) != program.plan:
            raise LoadError(
                f"{self.path} was saved with other choices for the GPU than this process makes",
                fix="use the same ZENITH_ENGINES, libraries and table of schedules (ZENITH_TUNING), or save it again",
            )

        def code(kernel: Kernel, form: KernelForm, arch: str) -> CompiledKernel:
            name, source = named(kernel, form, arch)
            if name not in program.codes:
                raise LoadError(
                    f"{self.path} has no code for {arch} of kernel {kernel.name} in the form {form}",
                    fix="save it again in the same settings, after a call that needs this form",
                )
            ptx, cubin = program.codes[name]
            return CompiledKernel(kernel, form, arch, source, ptx.decode(), cubin, 0.0, cached=True)

        return code

    def _check_arch(self, device: int, arch: str) -> None:
        found = driver()
        try:
            here = found.describe(device).arch
        except RuntimeError as error:  # CUDA's own
            raise LoadError(f"{self.path} was saved for cuda:{device}, which is not here: {error}",
                            fix="save it again with arrays of a GPU that is here") from error  # fmt: skip
        if here != arch:
            raise LoadError(f"{self.path} was saved for GPUs of {arch}, and cuda:{device} is one of {here}",
                            fix="save it again on a GPU of this kind")  # fmt: skip

    def _table(self, device: int, weights: Mapping[str, NDArray]) -> WeightTable:
        key = device, *sorted((name, id(array)) for name, array in weights.items())
        if key not in self._tables:
            memory = DeviceMemory(pool(), device)
            for array in weights.values():  # equal ones are one object
                if (device, id(array)) not in self._uploaded:
                    self._uploaded[device, id(array)] = memory.constant(array)
            arrays: dict[str, Any] = {name: self._uploaded[device, id(array)] for name, array in weights.items()}
            self._tables[key] = WeightTable(arrays, memory)
        return self._tables[key]


def _with_lines(graph: Graph, lines: Iterator[SourceLine | None], table: WeightTable) -> Graph:
    """The same graph with the user's lines, in the order of :meth:`Graph.walk`, and with the weights of a table."""
    made = Graph(graph.name)
    made.weights, made.guards = table, graph.guards
    made.constants.update(graph.constants)
    values: dict[tuple[int, int], Value] = {}
    inputs = {value.node for value in graph.inputs}
    for number, node in graph.nodes():
        line = next(lines)
        record = replace(node.with_bodies(lambda body: _with_lines(body, lines, table)), line=line)
        if number in inputs:
            results: tuple[Value, ...] = (made.add_input(node.types[0], str(node.params["name"]), line),)
        else:
            results = made.add_record(record, tuple(values[a.node, a.output] for a in graph.args(number)))
        values.update({(number, i): value for i, value in enumerate(results)})
    made.set_outputs(values[v.node, v.output] for v in graph.outputs)
    return made
