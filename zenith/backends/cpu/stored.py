"""Programs on disk: a :class:`~zenith.backends.cpu.program.Program` as JSON, and back.

A program is found again by the text of the graph that was traced, with the user's lines, since errors and texts name
them. So a process that traces the same function skips passes, planning and printing; its kernels are objects of their
own (:mod:`link`), which other programs share.

A program's arrays are not in its JSON, which only names them. Constants of the traced graph are named by their
contents and stay in it; those that folding made are appended to the JSON, unless they are large: then the program is
not stored. Nor is one that refers to functions of this process.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from zenith import sources
from zenith.backends.cache import store
from zenith.backends.cpu import machine
from zenith.backends.cpu.program import Code, Launch, Prepared, Program, Step
from zenith.backends.failures import Failure
from zenith.backends.steps import Allocation, Branch, Call, Carry, Loop, Slice, Weight
from zenith.backends.target import Target
from zenith.errors import SourceLine
from zenith.ir import dims
from zenith.ir.graph import Graph, Node
from zenith.ir.text import parse, print_graph
from zenith.ir.types import BY_NAME, ArrayType
from zenith.sources import digest

_ZENITH = Path(__file__).resolve().parents[2]
MAX_CONSTANTS = 1 << 24  # bytes of constants that are stored with a program

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """A program with what users may ask about it: ``stages`` are texts, ``groups`` counts of fused groups."""

    program: Program
    stages: dict[str, str]
    groups: dict[str, int]

    def spelled(self) -> Json:
        """All of it but the program's arrays as JSON's own types."""
        return {"program": encode(self.program), "stages": self.stages, "groups": self.groups}

    @classmethod
    def read(cls, spelled: Json, constants: Mapping[str, Any]) -> Stored:
        """What was spelled, with the program's arrays among ``constants``."""
        return cls(decode(spelled["program"], constants), spelled["stages"], spelled["groups"])


@dataclass
class CacheEntry:
    """A traced graph's entry in the cache on disk; ``stored`` is None where no program was found."""

    graph: Graph
    key: dict[str, str]
    stored: Stored | None

    @classmethod
    def of(cls, graph: Graph, target: Target) -> CacheEntry:
        """Look for the program of a graph."""
        key = identity(graph, target)
        return cls(graph, key, find(graph, key))

    def store(self, stored: Stored) -> None:
        """Write its program, if it can be stored."""
        keep(self.graph, self.key, stored)


def identity(graph: Graph, target: Target) -> dict[str, str]:
    """The cache key of a traced graph's program: all that the program follows from."""
    lines = [node.line for node in graph.walk()]
    return {
        "graph": digest([print_graph(graph, with_lines=True), *(f"{n and n.file}:{n and n.function}" for n in lines)]),
        "target": target.name,
        "error_budget": str(target.error_budget),
        "zenith": sources.OWN.digest(_ZENITH),
        "numpy": np.__version__,
        **machine.processor(),
    }


def find(graph: Graph, key: Mapping[str, str]) -> Stored | None:
    """The stored program of a traced graph, or None."""
    folder = store()
    found = None if folder is None else folder.read("program", key)
    if found is None:
        return None
    text, _, data = found.payload.partition(b"\n")
    content = json.loads(text)
    return Stored.read(content, graph.constants | _read_arrays(content["constants"], data))


def keep(graph: Graph, key: Mapping[str, str], stored: Stored) -> None:
    """Store a program, if it can be stored."""
    folder = store()
    made = {name: a for name, a in stored.program.constants.items() if name not in graph.constants}
    size = sum(array.nbytes for array in made.values())
    if folder is None or size > MAX_CONSTANTS:
        return
    constants = [[name, str(array.dtype), array.shape] for name, array in made.items()]
    about = {"name": graph.name, "source": str(graph)}
    text = json.dumps(stored.spelled() | {"constants": constants}).encode()
    folder.write("program", key, about, b"\n".join([text, b"".join(array.tobytes() for array in made.values())]))


def encode(program: Program) -> Json:
    """A program that calls no function of this process as JSON's own types; its arrays, not included, by name."""
    tables = _Tables()
    return {
        "name": program.name,
        "symbols": program.symbols,
        "inputs": program.inputs,
        "outputs": [[name, *_type(type)] for name, type in program.outputs],
        "constants": list(program.constants),
        "weights": {name: [w.name, *_type(w.type)] for name, w in program.weights.items()},
        "slots": dict(program.slots),
        "arena": program.arena,
        "prepared": [
            {"results": [[n, dtype.name, size] for n, dtype, size in p.results], "launch": tables.launch(p.launch)}
            for p in program.prepared
        ],
        "steps": [tables.step(step) for step in program.steps],
        "kernels": [[code.name, code.text] for code in tables.kernels],
        "lines": [[line.file, line.line, line.function] for line in tables.lines],
    }


def decode(stored: Json, constants: Mapping[str, Any]) -> Program:
    """The program whose JSON :func:`encode` returned, with its arrays among ``constants``."""
    read = _Reader([Code(*pair) for pair in stored["kernels"]], [SourceLine(*fields) for fields in stored["lines"]])
    return Program(
        name=stored["name"],
        symbols=tuple(stored["symbols"]),
        inputs=tuple(stored["inputs"]),
        outputs=tuple((name, _read_type(dtype, shape)) for name, dtype, shape in stored["outputs"]),
        constants={name: constants[name] for name in stored["constants"]},
        weights={p: Weight(name, _read_type(dtype, shape)) for p, (name, dtype, shape) in stored["weights"].items()},
        slots=stored["slots"],
        arena=stored["arena"],
        prepared=tuple(
            Prepared(tuple((n, BY_NAME[dtype], size) for n, dtype, size in p["results"]), read.launch(p["launch"]))
            for p in stored["prepared"]
        ),
        steps=tuple(map(read.step, stored["steps"])),
    )


class _Tables:
    """Kernels and lines that launches share, by number."""

    def __init__(self) -> None:
        self.kernels: dict[Code, int] = {}
        self.lines: dict[SourceLine, int] = {}

    def launch(self, launch: Launch) -> list[Any]:
        """A launch as a list."""
        kernel = self.kernels.setdefault(launch.kernel, len(self.kernels))
        allocations = [_pair(a) for a in launch.allocations]
        failures = [[f.code, f.why, self._numbers(f.lines)] for f in launch.failures]
        lines = self._numbers(launch.lines)
        return [kernel, allocations, launch.tasks, launch.grain, launch.sizes, failures, launch.copies, lines]

    def step(self, step: Step) -> Json | list[Any]:
        """A step: a loop or branch as an object."""
        match step:
            case Loop():
                return self._loop(step)
            case Branch():
                branches = [[self.step(inner) for inner in steps] for steps in step.branches]
                return {"index": _pair(step.index), "branches": branches, "lines": self._numbers(step.lines)}
            case Launch():
                return self.launch(step)
            case Call() if step.routine.node is not None:
                text = _call_text(step.routine.node, step.types)
                return {
                    "call": text,
                    "allocations": list(map(_pair, step.allocations)),
                    "lines": self._numbers(step.lines),
                }
        raise TypeError(f"a program with {step} is not stored")

    def _loop(self, loop: Loop[Step, str]) -> Json:
        return {
            "count": loop.count,
            "reverse": loop.reverse,
            "carries": [
                [*map(_pair, (c.current, c.following, *c.allocations)), c.dtype.name, c.length] for c in loop.carries
            ],
            "slices": [[_pair(s.element), _pair(s.whole), s.dtype.name, s.length] for s in loop.slices],
            "condition": [self.step(step) for step in loop.condition],
            "flag": loop.flag and _pair(loop.flag),
            "steps": [self.step(step) for step in loop.steps],
            "lines": self._numbers(loop.lines),
        }

    def _numbers(self, lines: Iterable[SourceLine]) -> list[int]:
        return [self.lines.setdefault(line, len(self.lines)) for line in lines]


class _Reader:
    """The inverse of :class:`_Tables`."""

    def __init__(self, kernels: list[Code], lines: list[SourceLine]) -> None:
        self.kernels, self.lines = kernels, lines

    def launch(self, fields: list[Any]) -> Launch:
        """A launch."""
        kernel, allocations, tasks, grain, sizes, failures, copies, lines = fields
        at = tuple(Allocation(*a) for a in allocations)
        reports = tuple(Failure(code, why, self._lines(where)) for code, why, where in failures)
        return Launch(self.kernels[kernel], at, tasks, grain, tuple(sizes), reports, copies, self._lines(lines))

    def step(self, stored: Any) -> Step:
        """Any step."""
        if isinstance(stored, list):
            return self.launch(stored)
        lines = self._lines(stored["lines"])
        if "call" in stored:
            graph = parse(stored["call"])
            node = replace(graph.node(graph.outputs[0].node), line=next(iter(lines), None))
            types = [v.type for v in (*graph.inputs, *graph.outputs) if isinstance(v.type, ArrayType)]
            return Call.of(node, [Allocation(*a) for a in stored["allocations"]], types)
        if "branches" in stored:
            branches = tuple(tuple(map(self.step, steps)) for steps in stored["branches"])
            return Branch(Allocation(*stored["index"]), branches, lines)
        return Loop(
            stored["count"],
            stored["reverse"],
            tuple(map(_read_carry, stored["carries"])),
            tuple(Slice(Allocation(*s[0]), Allocation(*s[1]), BY_NAME[s[2]], s[3]) for s in stored["slices"]),
            tuple(map(self.step, stored["condition"])),
            stored["flag"] and Allocation(*stored["flag"]),
            tuple(map(self.step, stored["steps"])),
            lines,
        )

    def _lines(self, numbers: Iterable[int]) -> tuple[SourceLine, ...]:
        return tuple(self.lines[number] for number in numbers)


def _call_text(node: Node, types: Sequence[ArrayType]) -> str:
    """A node that a routine computes as a program of its own, from the types of its arguments and results."""
    graph = Graph("call")
    arguments = [graph.add_input(t, f"x{i}") for i, t in enumerate(types[: len(types) - len(node.types)])]
    graph.set_outputs(graph.add(node.primitive, arguments, node.params))
    return str(graph)


def _read_carry(fields: list[Any]) -> Carry[str]:
    *allocations, dtype, length = fields
    current, following, start, result, other = (Allocation(*a) for a in allocations)
    return Carry(current, following, start, result, other, BY_NAME[dtype], length)


def _pair(allocation: Allocation) -> list[str]:
    return [allocation.kind, allocation.name]


def _type(type: ArrayType) -> list[Any]:
    return [type.dtype.name, [str(size) for size in type.shape]]


def _read_type(dtype: str, shape: list[str]) -> ArrayType:
    return ArrayType(BY_NAME[dtype], [_read_size(size) for size in shape])


def _read_size(text: str) -> dims.Dim:
    return dims.dim(int(text)) if text.isdecimal() else dims.parse(ast.parse(text, mode="eval").body)


def _read_arrays(constants: list[Any], data: bytes) -> dict[str, Any]:
    """Arrays whose elements are stored one after another in ``data``."""
    found, at = {}, 0
    for name, dtype, shape in constants:
        count = math.prod(shape)
        found[name] = np.frombuffer(data, np.dtype(dtype), count, at).reshape(shape)
        at += found[name].nbytes
    return found
