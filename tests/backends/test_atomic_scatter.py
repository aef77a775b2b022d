"""Scatters by atomics, where repeatable results are not asked for: values in whatever order, and machine code."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, plan_of
from tests.backends.test_scatter import PROGRAMS, SIZES, arguments, as_numpy, graph_of
from tests.passes.compare import program
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.cuda.compile import available, compile_forms
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.target import ATOMICS, cuda_target
from zenith.backends.kernel import AtomicAdd, walk
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.plan import Plan
from zenith.backends.steps import LaunchStep
from zenith.backends.weights import WeightTable
from zenith.errors import OutOfBoundsError
from zenith.ir.graph import Graph
from zenith.ir.types import float32

SAME_INDEX = """
w = broadcast(u, shape=(n,), axes=())
j = broadcast(i, shape=(n,), axes=())
v = scatter_add(x, w, j)
return (v, z)
"""
# As PTX names them.
KINDS = {"f32": "f32", "f64": "f64", "i32": "[us]32", "u32": "[us]32", "i64": "[us]64", "u64": "[us]64"}
needs_compiler = pytest.mark.skipif(not available(), reason="the CUDA compiler is not installed")


def plan_by_atomics(graph: Graph) -> Plan:
    return plan_of(graph, cuda_target(repeatable=False))


def executable(graph: Graph, backend: str) -> Any:
    plan, weights = plan_by_atomics(graph), WeightTable.of(graph)
    assert "atomic_scatter" in [g.choice.engine for g in plan.groups]
    return GridExecutable(plan, weights) if backend == "grid" else LanesExecutable(plan, TILE_FUNCTIONS, weights)


def of_dtype(dtype: str) -> Graph:
    signature, body = PROGRAMS["rows"]
    return program(signature.replace("f32", dtype), f"{body}\nreturn (v,)")


@pytest.mark.parametrize("backend", ["lanes", "grid"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_differ_by_rounding_only(name: str, backend: str) -> None:
    graph = graph_of(name)
    run = executable(graph, backend)
    for sizes in (SIZES, {**SIZES, "n": 0}, {**SIZES, "n": 1}):
        x, u, *indices = arguments(graph, sizes)
        index, updates = as_numpy(name, u, indices)
        expected, magnitude = x.astype(np.float64), np.abs(x).astype(np.float64)
        np.add.at(expected, index, updates.astype(np.float64))
        np.add.at(magnitude, index, np.abs(updates).astype(np.float64))
        (result,) = call(run, graph, [x, u, *indices])
        terms = updates.size + 1  # at most so many roundings of an element, in whatever order
        assert np.all(np.abs(result - expected) <= terms * np.finfo(np.float32).eps * magnitude)


@pytest.mark.parametrize("backend", ["lanes", "grid"])
def test_integers_are_exact(backend: str) -> None:
    graph = of_dtype("i32")
    rng = np.random.default_rng(3)
    x, u = rng.integers(-(2**31), 2**31, (11, 5)).astype(np.int32), rng.integers(-9, 9, (40, 5)).astype(np.int32)
    indices, expected = rng.integers(0, 4, 40), x.copy()
    np.add.at(expected, indices, u)
    (result,) = call(executable(graph, backend), graph, [x, u, indices])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("backend", ["lanes", "grid"])
def test_every_task_adds_even_where_all_have_one_index_and_one_number(backend: str) -> None:
    graph = program("x: f32[a], u: f32, i: i64, z: f32[n]", SAME_INDEX)
    x = np.arange(4, dtype=np.float32)
    args = [x, np.array(0.5, np.float32), np.array(2), np.ones(9, np.float32)]
    result, _ = call(executable(graph, backend), graph, args)
    np.testing.assert_array_equal(result, [0, 1, 6.5, 3])


@pytest.mark.parametrize("backend", ["lanes", "grid"])
def test_an_index_outside_is_an_error(backend: str) -> None:
    graph = graph_of("rows")
    x, u, indices = arguments(graph, SIZES)
    indices[3] = 11
    with pytest.raises(OutOfBoundsError, match="an index is out of bounds"):
        call(executable(graph, backend), graph, [x, u, indices])


@needs_compiler
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", sorted(map(str, ATOMICS)))
def test_an_instruction_adds_without_a_loop_or_a_call(dtype: str, arch: str) -> None:
    (adding,) = [
        step.kernel
        for step in plan_by_atomics(of_dtype(dtype)).steps
        if isinstance(step, LaunchStep) and any(isinstance(s, AtomicAdd) for s in walk(step.kernel.body))
    ]
    for code in compile_forms(adding, arch):
        assert re.search(rf"(atom|red)\.(\w+\.)*add\.{KINDS[dtype]}", code.ptx)
        assert not re.search(r"atom\.\S*cas|\bcall\b", code.ptx)
        assert resources(code.cubin).stack == 0


def test_it_is_refused_where_results_repeat_and_for_types_without_atomics() -> None:
    for target in (cpu_target(), cuda_target()):
        (group,) = plan_of(graph_of("rows"), target).groups
        refusals = dict(group.choice.others)
        assert group.choice.engine != "atomic_scatter"
        assert "repeatable=False" in refusals["atomic_scatter"]
    (group,) = plan_of(of_dtype("i32"), replace(cuda_target(), atomics=frozenset({float32}))).groups
    assert group.choice.engine == "owned_scatter"
    assert dict(group.choice.others)["atomic_scatter"] == "cuda-sm_90a has no atomic addition of i32"


def test_16_bit_floats_add_up_in_float32() -> None:
    (group, *_) = [g for g in plan_by_atomics(of_dtype("f16")).groups if g.choice.kind == "scatter"]
    assert group.choice.engine == "atomic_scatter"


def grow(table: Any, indices: Any) -> Any:
    """The gradient of a sum of rows: a scatter."""
    return zenith.grad(lambda t: np.sum(np.take(t, indices, axis=0) ** 2))(table)


@needs_compiler
def test_the_option_reaches_the_kernels() -> None:
    args = np.ones((8, 4), np.float32), np.zeros(3, np.int64)
    by_atomics = lambda ready: any("atomic_add(" in source for source in ready.sources.values())  # noqa: E731
    assert not by_atomics(zenith.aot(grow, args))
    assert by_atomics(zenith.aot(grow, args, repeatable=False))
    assert by_atomics(zenith.aot(zenith.jit(grow, repeatable=False), args))


def test_a_cpu_repeats_in_any_case() -> None:
    loose = zenith.jit(grow, repeatable=False)
    rng = np.random.default_rng(0)
    table, indices = rng.standard_normal((8, 4), np.float32), rng.integers(0, 8, 100)
    first = loose(table, indices)
    np.testing.assert_array_equal(first, zenith.jit(grow)(table, indices))
    assert "repeatable=False" in str(loose.explain())
    assert not loose.numerics.repeatable
