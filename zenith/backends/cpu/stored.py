"""Programs on disk: a :class:`~zenith.backends.cpu.program.Program` with what users may ask about it, as one record.

A program is found again by the text of the graph that was traced, with the user's lines, since errors and texts name
them. So a process that traces the same function skips passes, planning and printing; its kernels are objects of their
own (:mod:`link`), which other programs share.

An entry of the cache has those of the program's constants that folding made, unless they are large: then the program is
not stored. Constants of the traced graph are named by their contents and stay in it. Nor is a program stored that
refers to functions of this process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from zenith import sources
from zenith.backends.cache import store
from zenith.backends.codec import record, stored_as
from zenith.backends.cpu import machine
from zenith.backends.cpu.program import KernelCode, Launch, Program, Resize
from zenith.backends.failures import Failure
from zenith.backends.steps import Allocation, BranchStep, CallStep, Carry, LoopStep, PreparedStep, Slice, Slot, Weight
from zenith.backends.target import Target
from zenith.errors import SourceLine
from zenith.ir.graph import Graph
from zenith.ir.text import parse, print_graph
from zenith.ir.types import ArrayType, NDArray
from zenith.sources import digest

_ZENITH = Path(__file__).resolve().parents[2]
MAX_CONSTANTS = 1 << 24  # bytes of constants that are stored with a program


@record
@dataclass(frozen=True, slots=True)
class Stored:
    """A program with what users may ask about it: ``stages`` are texts, ``groups`` counts of fused groups.

    In a saved file it has its kernels' object ``codes``, in a saved folder its ``weights`` by the names of the module.
    """

    program: Program
    stages: dict[str, str]
    groups: dict[str, int]
    codes: Mapping[str, bytes] = field(default_factory=dict)
    weights: Mapping[str, NDArray] = field(default_factory=dict)

    @property
    def arrays(self) -> list[NDArray]:
        """The arrays that it brings."""
        return [*self.program.constants.values(), *self.weights.values()]


@dataclass
class CacheEntry:
    """A traced graph's entry in the cache on disk; ``stored`` is None where no program was found."""

    graph: Graph
    key: dict[str, str]
    stored: Stored | None

    @classmethod
    def of(cls, graph: Graph, target: Target, reusable: Sequence[str] = ()) -> CacheEntry:
        """Look for the program of a graph."""
        key = _identity(graph, target, reusable)
        folder = store()
        found = None if folder is None else folder.read("program", key, Stored)
        if found is not None:
            made = found.program.constants
            constants = {name: graph.constants[name] if a is None else a for name, a in made.items()}
            found = replace(found, program=replace(found.program, constants=constants))
        return cls(graph, key, found)

    def store(self, stored: Stored) -> None:
        """Write its program, if it can be stored."""
        folder, program = store(), stored.program
        known = self.graph.constants
        made: dict[str, Any] = {name: None if name in known else a for name, a in program.constants.items()}
        if folder is not None and sum(a.nbytes for a in made.values() if a is not None) <= MAX_CONSTANTS:
            kept = replace(stored, program=replace(program, constants=made))
            folder.write("program", self.key, self.graph.name, str(self.graph), kept)


def _identity(graph: Graph, target: Target, reusable: Sequence[str] = ()) -> dict[str, str]:
    """The cache key of a traced graph's program: all that the program follows from."""
    lines = [node.line for node in graph.walk()]
    return {
        "graph": digest([print_graph(graph, with_lines=True), *(f"{n and n.file}:{n and n.function}" for n in lines)]),
        "target": target.name,
        "reusable": " ".join(reusable),
        "error_budget": str(target.error_budget),
        "rounds_to": str(target.rounds_to),
        "zenith": sources.OWN.digest(_ZENITH),
        "numpy": np.__version__,
        **machine.processor(),
    }


def _parts(call: CallStep) -> Iterator[tuple[str, object]]:
    """A call of what no kernel computes: the node as a program of its own, from which another process has its routine.

    TypeError for a routine that no node names.
    """
    node = call.routine.node
    if node is None:
        raise TypeError(f"a program with {call} is not stored")
    graph = Graph("call")
    arguments = [graph.add_input(t, f"x{i}") for i, t in enumerate(call.types[: len(call.types) - len(node.types)])]
    graph.set_outputs(graph.add(node.primitive, arguments, node.params))
    return iter([("node", str(graph)), ("allocations", call.allocations), ("lines", call.lines)])


def _call(text: str, allocations: Sequence[Allocation], lines: Sequence[SourceLine]) -> CallStep:
    graph = parse(text)
    node = replace(graph.node(graph.outputs[0].node), line=next(iter(lines), None))
    types = [v.type for v in (*graph.inputs, *graph.outputs) if isinstance(v.type, ArrayType)]
    return CallStep.of(node, allocations, types)


for kind in (Program, Launch, Failure, LoopStep, Carry, Slice, BranchStep, Resize, PreparedStep, Slot, Weight):
    record(kind)
record(Allocation, once=True)
record(KernelCode, once=True)
stored_as(CallStep, _parts, _call)
