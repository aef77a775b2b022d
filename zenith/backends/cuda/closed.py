"""Closed programs of a GPU: the inputs of planning, with machine code, so that loading compiles nothing.

A file fits the very Zenith that wrote it, so a traced graph has the same plan wherever it is loaded: graph, constants,
weights and numerics are the program. Its kernels' code goes by the digest of their source; a kernel without code in the
file was planned differently, with other engines or another table of schedules, and is an error. Weights are copied to
the device once, for all programs of a file; arrays prepared from them are prepared a second time there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from zenith.backends.archive import Json
from zenith.backends.backend import Put
from zenith.backends.cuda.compile import Code, named
from zenith.backends.cuda.device_memory import DeviceArray, DeviceMemory
from zenith.backends.cuda.driver import driver
from zenith.backends.cuda.executable import Executable
from zenith.backends.cuda.forms import Form
from zenith.backends.cuda.memory import pool
from zenith.backends.kernel import Kernel
from zenith.backends.plan import Plan
from zenith.backends.weights import WeightTable
from zenith.errors import LoadError, SourceLine, UnsupportedError
from zenith.ir.graph import Graph, Value
from zenith.ir.numerics import Numerics
from zenith.ir.text import parse
from zenith.sources import digest


def take_out(executable: Executable, graph: Graph, numerics: Numerics, put: Put) -> Json:
    """A program as JSON, without its graph's text; its arrays and code go to ``put``.

    Raises UnsupportedError when a weight that the graph names was released.
    """
    arch = executable.driver.describe(executable.device).arch
    return {
        "device": executable.device,
        "arch": arch,
        "numerics": asdict(numerics),
        "lines": _lines(graph),
        "plan": digest([str(executable.plan)]),
        "constants": {name: put(array) for g in _graphs(graph) for name, array in g.constants.items()},
        "weights": {name: put(array) for name, array in _weights(executable, graph)},
        "codes": dict(_codes(executable, arch, put)),
    }


def _graphs(graph: Graph) -> Iterator[Graph]:
    """A graph and the bodies in it."""
    yield graph
    for node in graph.walk():
        yield from node.bodies


def _lines(graph: Graph) -> Json:
    """The user's lines, each once, and for every node the number of its line, or None."""
    numbers: dict[SourceLine, int] = {}
    nodes = [n.line and (numbers.setdefault(n.line, len(numbers)), n.line)[0] for n in graph.walk()]
    return {"table": [[line.file, line.line, line.function] for line in numbers], "nodes": nodes}


def _weights(executable: Executable, graph: Graph) -> Iterator[tuple[str, Any]]:
    """The weights that a graph names, copied to the host."""
    memory = DeviceMemory(executable.pool, executable.device)
    known = graph.weights.snapshot() if isinstance(graph.weights, WeightTable) else dict(graph.weights)
    for name in sorted({str(n.params["name"]) for n in graph.walk() if n.primitive.name == "weight"}):
        array: Any = known[name]
        if not isinstance(array, DeviceArray):
            raise UnsupportedError(f"weight {name} was released, and a file for a GPU contains weights as they are",
                                   fix="keep the weights: release_weights=False")  # fmt: skip
        yield name, memory.host(array)


def _codes(executable: Executable, arch: str, put: Put) -> Iterator[tuple[str, Json]]:
    """For every form of a kernel that was loaded, by the name of its code: where PTX and machine code are."""
    for functions in executable.program.functions.values():
        for function in list(functions.functions):
            code = function.code
            yield named(code.kernel, code.form, arch)[0], [put(code.ptx.encode()), put(code.cubin)]


@dataclass(frozen=True)
class Closed:
    """A program that was read: its graph, where it runs, and its code."""

    graph: Graph
    device: int
    arch: str
    numerics: Numerics
    plan: str  # the digest of its text
    codes: Mapping[str, Json]
    arrays: Sequence[Any]
    path: Path

    def check(self, plan: Plan) -> None:
        """Raise LoadError unless the program was planned here as it was when it was saved."""
        if digest([str(plan)]) != self.plan:
            raise LoadError(
                f"{self.path} was saved with other choices for the GPU than this process makes",
                fix="use the same ZENITH_ENGINES, libraries and table of schedules (ZENITH_TUNING), or save it again",
            )

    def code(self, kernel: Kernel, form: Form, arch: str) -> Code:
        """A kernel's code from the file, in place of the compiler's."""
        name, source = named(kernel, form, arch)
        if name not in self.codes:
            raise LoadError(
                f"{self.path} has no code for {arch} of kernel {kernel.name} in the form {form}",
                fix="save it again in the same settings, after a call that needs this form",
            )
        ptx, cubin = (self.arrays[number].tobytes() for number in self.codes[name])
        return Code(kernel, form, arch, source, ptx.decode(), cubin, 0.0, cached=True)


class Reader:
    """Reads the programs of one file, which share their weights on each device."""

    def __init__(self, path: Path, arrays: Sequence[Any]) -> None:
        self.path, self.arrays = path, arrays
        self._uploaded: dict[tuple[int, int], DeviceArray] = {}
        self._tables: dict[Any, WeightTable] = {}

    def put_in(self, text: str, spelled: Json) -> Closed:
        """The program of a graph's text; LoadError unless a GPU of its architecture has its number here."""
        device, arch = int(spelled["device"]), str(spelled["arch"])
        self._check_arch(device, arch)
        table = self._table(device, spelled["weights"])
        constants = {name: self.arrays[number] for name, number in spelled["constants"].items()}
        known = [SourceLine(*fields) for fields in spelled["lines"]["table"]]
        lines = (None if number is None else known[number] for number in spelled["lines"]["nodes"])
        graph = _with_lines(parse(text, constants, table), lines, table)
        numerics = Numerics(**spelled["numerics"])
        return Closed(graph, device, arch, numerics, spelled["plan"], spelled["codes"], self.arrays, self.path)

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

    def _table(self, device: int, weights: Mapping[str, int]) -> WeightTable:
        key = device, *sorted(weights.items())
        if key not in self._tables:
            memory = DeviceMemory(pool(), device)
            for number in weights.values():
                if (device, number) not in self._uploaded:
                    self._uploaded[device, number] = memory.constant(self.arrays[number])
            arrays: dict[str, Any] = {name: self._uploaded[device, number] for name, number in weights.items()}
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
