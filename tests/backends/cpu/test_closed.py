"""Closed programs: written to a file and loaded, they compute the same bits and need nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.running import call
from tests.ir.cases import same
from tests.programs import random_program
from zenith.api.loading import linker_of
from zenith.backends.archive import read, write
from zenith.backends.cpu.closed import closed_program, made_for
from zenith.backends.cpu.stored import Stored
from zenith.backends.steps import FIXED, walk
from zenith.backends.weights import WeightTable
from zenith.compile import compile_graph
from zenith.ir.graph import Graph
from zenith.ir.text import parse

# A loop that reads a constant: inside, as a carried value's start, or element by element.
LOOP = """
def f(x: f32[6]) -> (f32[6], f32[6, 6]):
    def body0(w: f32[6], c: f32[6], part: f32) -> (f32[6], f32[6]):
        v3 = broadcast(part, shape=(6,), axes=())
        v4 = mul(w, v3)
        v5 = add(c, v4)
        return (v5, v5)
    v1 = constant(id='parts', dtype=f32, shape=(6,))
    v2_0, v2_1 = scan({operands}, body=body0, length=6, captured=1, carried=1, reverse=False, index='')
    return (v2_0, v2_1)
"""


def moved(executable: Any, file: Path) -> Any:
    """The executable, written to a file and loaded."""
    write(file, made_for(), closed_program(executable))
    return linker_of("cpu", file)("", read(file, Stored).content)


def check(graph: Graph, args: Sequence[Any], file: Path) -> Any:
    executable = compile_graph(graph)
    restored = moved(executable, file)
    with np.errstate(all="ignore"):
        pairs = zip(call(restored, graph, args), call(executable, graph, args), strict=True)
        assert all(same(one, other) and one.dtype == other.dtype for one, other in pairs)
    return restored


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    check(*random_program(seed), tmp_path / "program")


@pytest.mark.parametrize("seed", range(4))
def test_a_loaded_program_can_be_closed(seed: int, tmp_path: Path) -> None:
    graph, args = random_program(seed)
    restored = check(graph, args, tmp_path / "program")
    assert str(moved(restored, tmp_path / "again").program) == str(restored.program)


@pytest.mark.parametrize("operands", ["v1, x, x", "x, v1, x", "x, x, v1", "v1, v1, v1"])
def test_loops_over_constants(operands: str, tmp_path: Path) -> None:
    graph = parse(LOOP.format(operands=operands), {"parts": np.arange(6, dtype=np.float32)})
    restored = check(graph, [np.linspace(0, 1, 6, dtype=np.float32)], tmp_path / "program")
    assert restored.program.constants.keys() == {"parts"} and not restored.program.constants["parts"].flags.writeable


def test_nothing_is_prepared_and_no_weight_is_followed(tmp_path: Path) -> None:
    weight = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96)
    text = """
def f(x: f32[n, 64]) -> (f32[n, 96]):
    v1 = weight(name='w', dtype=f32, shape=(64, 96))
    v2 = matmul(x, v1)
    return (v2,)
"""
    graph = parse(text)
    graph.weights = WeightTable({"w": weight})
    args = [np.ones((3, 64), np.float32)]
    executable = compile_graph(graph)
    before = call(executable, graph, args)[0]
    restored = moved(executable, tmp_path / "program")
    program = restored.program
    assert executable.program.prepared and not program.prepared and not program.weights
    allocations = {p for step in walk(program.steps) for p in step.allocations if p.kind in FIXED}
    assert {p.name for p in allocations} == program.constants.keys() and {p.kind for p in allocations} == {"constant"}
    graph.weights.change({"w": -weight})
    np.testing.assert_array_equal(call(restored, graph, args)[0], before)
    np.testing.assert_array_equal(call(executable, graph, args)[0], -before)


def test_texts_and_counts_of_groups_are_stored(tmp_path: Path) -> None:
    function = zenith.jit(lambda x: np.tanh(x) @ x.T)
    function(np.ones((3, 4)))
    executable = function.explain().specializations[0].executable
    restored = moved(executable, tmp_path / "program")
    assert restored.stages == executable.stages and restored.groups == executable.groups
    assert restored.report.cached and json.dumps(restored.stages)
