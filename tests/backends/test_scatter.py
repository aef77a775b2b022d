"""Scatters add in index order on every target and with any number of tasks: the bits of one addition after another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.backends.running import call, compiled, plan_of
from tests.passes.compare import program
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.steps import LaunchStep
from zenith.backends.weights import WeightTable
from zenith.errors import OutOfBoundsError
from zenith.ir.graph import Graph

PROGRAMS = {
    "scalars": ("x: f32[a], u: f32[n], i: i64[n]", "v = scatter_add(x, u, i)"),
    "rows": ("x: f32[a, b], u: f32[n, b], i: i64[n]", "v = scatter_add(x, u, i)"),
    "elements of a matrix": ("x: f32[a, b], u: f32[n], i: i64[n], j: i64[n]", "v = scatter_add(x, u, i, j)"),
    "matrices at many indices": ("x: f32[a, b, c], u: f32[n, m, b, c], i: i32[n, m]", "v = scatter_add(x, u, i)"),
    "transposed": ("x: f32[a, b, c], t: f32[c, n, b], i: i64[n]",
               "u = transpose(t, axes=(1, 2, 0))\nv = scatter_add(x, u, i)"),
    "known sizes": ("x: f32[11, 5], u: f32[n, 5], i: i64[n]", "v = scatter_add(x, u, i)"),
    "rows apart": ("x: f32[a, b, c], u: f32[a, n, c], i: i64[a, n]",
                   "r = iota(size=a, dtype=i64)\nk = broadcast(r, shape=(a, n), axes=(0,))\n"
                   "v = scatter_add(x, u, k, i)"),
    "elements apart": ("x: f32[a, b], u: f32[n, a], i: i32[n, a]",
                       "r = iota(size=a, dtype=i64)\nk = broadcast(r, shape=(n, a), axes=(1,))\n"
                       "v = scatter_add(x, u, k, i)"),
    "one index": ("x: f32[a, b], u: f32[b], i: i64", "v = scatter_add(x, u, i)"),
}  # fmt: skip
SIZES = {"a": 11, "b": 5, "c": 3, "n": 40, "m": 2}
BACKENDS = ("cpu", "lanes", "scalar", "cuda on lanes", "three tasks")


def graph_of(name: str) -> Graph:
    signature, body = PROGRAMS[name]
    return program(signature, f"{body}\nreturn (v,)")


def arguments(graph: Graph, sizes: dict[str, int]) -> list[Any]:
    """Floats of many magnitudes, so that order shows, and indices, many of which repeat."""
    rng, found = np.random.default_rng(0), []
    for value in graph.inputs:
        shape = [n.evaluate(sizes) for n in value.shape]
        if value.dtype.is_float:
            found.append((rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 4, shape)).astype(np.float32))
        else:
            found.append(rng.integers(0, 5 if value != graph.inputs[-1] else 4, shape).astype(value.dtype.numpy))
    return found


def as_numpy(name: str, updates: Any, indices: list[Any]) -> tuple[Any, Any]:
    """The index and the updates for the same scatter in NumPy."""
    if name in ("rows apart", "elements apart"):
        rows = np.arange(SIZES["a"])
        indices = [rows[:, None] if name == "rows apart" else rows, *indices]
    return tuple(indices), np.transpose(updates, (1, 2, 0)) if name == "transposed" else updates


def executable(graph: Graph, backend: str) -> Any:
    if backend == "three tasks":
        plan = plan_of(graph, replace(cuda_target(), threads=3))
        return LanesExecutable(plan, TILE_FUNCTIONS, WeightTable.of(graph))
    return compiled(graph, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_additions_are_made_in_index_order(name: str, backend: str) -> None:
    graph = graph_of(name)
    run = executable(graph, backend)
    for sizes in (SIZES, {**SIZES, "n": 0}, {**SIZES, "n": 1}):
        x, u, *indices = arguments(graph, sizes)
        expected = x.copy()
        np.add.at(expected, *as_numpy(name, u, indices))
        (result,) = call(run, graph, [x, u, *indices])
        assert np.array_equal(result.view(np.int32), expected.view(np.int32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_index_outside_is_an_error(backend: str) -> None:
    graph = graph_of("rows")
    x, u, indices = arguments(graph, SIZES)
    for wrong in (11, -1):
        indices[3] = wrong
        with pytest.raises(OutOfBoundsError, match="an index is out of bounds"):
            call(executable(graph, backend), graph, [x, u, indices])


@pytest.mark.parametrize("name", ["rows apart", "elements apart"])
def test_rows_without_shared_elements_are_tasks(name: str) -> None:
    for target in (None, cuda_target()):
        plan = plan_of(graph_of(name), target)
        assert plan.groups[-1].choice.engine == "scatter"
        joining = plan.steps[-1]
        assert isinstance(joining, LaunchStep)
        assert str(joining.kernel.tasks) == "a"


MODES = {"set": lambda x, i, u: x.__setitem__(i, u), "mul": np.multiply.at, "max": np.maximum.at, "min": np.minimum.at}


@pytest.mark.parametrize("backend", ["cpu", "lanes", "cuda on lanes", "three tasks"])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_joins_in_index_order(mode: str, backend: str) -> None:
    graph = program(PROGRAMS["rows"][0], f"v = scatter_{mode}(x, u, i)\nreturn (v,)")
    x, u, indices = arguments(graph, SIZES)
    u[3], x[2, 1] = np.nan, np.nan
    expected = x.copy()
    with np.errstate(all="ignore"):
        MODES[mode](expected, indices, u)
    np.testing.assert_array_equal(call(executable(graph, backend), graph, [x, u, indices])[0], expected)


def test_on_a_gpu_a_task_has_a_range_of_indices() -> None:
    cpu, gpu = (plan_of(graph_of("rows"), target) for target in (None, cuda_target()))
    assert [p.groups[0].choice.engine for p in (cpu, gpu)] == ["scatter", "owned_scatter"]
    assert "has no thousands of threads" in str(cpu.groups[0].choice.others)
    adding = gpu.steps[-1]
    assert isinstance(adding, LaunchStep)
    assert adding.kernel.tasks.evaluate({"a": 11, "b": 5, "n": 4}) == 55
    assert 50_000 < adding.kernel.tasks.evaluate({"a": 30522, "b": 768, "n": 4}) <= 65536 + 768
