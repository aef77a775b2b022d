"""Streams of random programs of one kind each: they are of that kind, and all ways of running them agree."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests import fuzz
from tests.backends.running import plan_of
from tests.programs import discarded, random_program, reference_bounds
from tests.ways import LONG_SHARES, STATIC_WAYS, WAYS, check, turns
from zenith.backends.donation import Donation
from zenith.backends.lower.reduce.row_group import RowGroup
from zenith.ir.graph import Graph
from zenith.ir.interpret import bind_sizes, interpret
from zenith.ir.verify import verify
from zenith.passes.pipeline import run

STREAMS = ("rows", "columns", "attention", "storage", "joins")
PROGRAMS = 20
FUZZ = fuzz.programs(8, one_in=10)
BLOCK = 4
each_stream = pytest.mark.parametrize("stream", STREAMS)


@cache
def _programs(stream: str) -> list[tuple[Graph, list[Any]]]:
    return [random_program(seed, stream=stream) for seed in range(PROGRAMS)]


def _groups(graph: Graph, anchor: str) -> list[Graph]:
    """The bodies of a program's fused groups of one kind."""
    fused, _ = run(graph)
    return [n.params["body"] for _, n in fused.nodes() if n.primitive.name == "fused" and n.params["anchor"] == anchor]


@each_stream
def test_programs_are_sound_and_few_elements_are_discarded(stream: str) -> None:
    lost = 0
    for graph, args in _programs(stream):
        verify(graph)
        lost += discarded(reference_bounds(graph, args)) > 0.5
    assert lost <= 0.1 * PROGRAMS


@each_stream
def test_the_same_seed_is_the_same_program_static_or_symbolic(stream: str) -> None:
    for seed in range(6):
        (graph, args), (static, static_args) = (random_program(seed, stream=stream, symbolic=s) for s in (True, False))
        assert graph == random_program(seed, stream=stream)[0] != random_program(seed)[0] and not static.symbols()
        for a, b in zip(interpret(graph, *args), interpret(static, *static_args), strict=True):
            np.testing.assert_array_equal(a, b)


def test_rows_are_walked_several_times_along_one_axis_and_two() -> None:
    rows = [[RowGroup(body) for body in _groups(graph, "rows")] for graph, _ in _programs("rows")]
    assert sum(any(r.last_phase >= 3 for r in groups) for groups in rows) > 0.4 * PROGRAMS
    assert sum(any(len(r.space) - r.outer > 1 for r in groups) for groups in rows) > 0.1 * PROGRAMS
    lengths = [r.length.static is None for groups in rows for r in groups]
    assert 0.1 < np.mean(lengths) < 0.6, "some are symbols"
    assert sum(any(r.prefixes for r in groups) for groups in rows) > 0.1 * PROGRAMS


def test_columns_are_reduced_several_times() -> None:
    columns = [len(_groups(graph, "columns")) for graph, _ in _programs("columns")]
    assert sum(count >= 3 for count in columns) > 0.5 * PROGRAMS


def test_scores_are_weighed_and_read_by_several_products() -> None:
    names = [[n.primitive.name for _, n in graph.nodes()] for graph, _ in _programs("attention")]
    assert sum(found.count("matmul") >= 3 for found in names) > 0.5 * PROGRAMS
    fused = [len(_groups(graph, "attention")) for graph, _ in _programs("attention")]
    assert 0 < sum(map(bool, fused)) < PROGRAMS, "some are attention as one kernel has it, others are not"
    assert sum(-math.inf in _literals(graph) for graph, _ in _programs("attention")) > 0.2 * PROGRAMS, "masks"
    assert any(math.inf in _literals(graph) for graph, _ in _programs("rows")), "logarithms of sums, written with care"


def _literals(graph: Graph) -> list[float]:
    return [n.params["value"] for _, n in graph.nodes() if n.primitive.name == "literal"]


def test_storage_is_reused_and_donated() -> None:
    """Several steps share a slot, and results take the memory of arguments."""
    reused, donated = 0, 0
    for graph, args in _programs("storage"):
        found = plan_of(graph)
        written = [slot.name for step in found.steps for slot in step.allocations if slot.kind == "slot"]
        reused += any(count > 3 for count in Counter(written).values())
        donation = Donation(found.steps, [(n, v.type) for n, v in zip(found.inputs, graph.inputs, strict=True)],
                            found.outputs, [True] * len(args))  # fmt: skip
        donated += bool(donation.pairs(bind_sizes(graph, args, {})))
    assert reused > 0.8 * PROGRAMS and donated > 0.8 * PROGRAMS


def test_arrays_are_joined_with_others_at_checked_positions_some_of_them_empty() -> None:
    groups = [_groups(graph, "loops") for graph, _ in _programs("joins")]
    names = [[{n.primitive.name for _, n in body.nodes()} for body in found] for found in groups]
    assert sum(any({"concat", "take"} <= n for n in found) for found in names) > 0.3 * PROGRAMS
    assert sum(any("pad" in n for n in found) for found in names) > 0.3 * PROGRAMS
    empty = [any(0 in a.shape for a in args) for _, args in _programs("joins")]
    assert 0.2 < np.mean(empty) < 0.9


def test_every_way_has_its_turns() -> None:
    every = [turns(seed, "rows") for seed in range(max(LONG_SHARES.values()))]
    assert set().union(*(t[True] for t in every)) == set(WAYS)
    assert set().union(*(t[False] for t in every)) == set(STATIC_WAYS)


@pytest.mark.fuzz
@each_stream
@pytest.mark.parametrize("first", range(0, FUZZ, BLOCK))
def test_every_way_of_running_a_program_agrees(first: int, stream: str) -> None:
    for seed in range(first, min(first + BLOCK, FUZZ)):
        check(seed, stream)
