"""Fixed memory: work on weights is prepared once, shared, redone after changes, and retained by running calls."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.backends.running import call, check, compiled, plan_of
from tests.programs import random_program
from zenith.backends.weights import WeightTable
from zenith.errors import OutOfBoundsError, ZenithError
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.text import parse
from zenith.passes.rewrite import Rewriter, rebuild

BACKENDS = ["cpu", "lanes", "scalar", "reference"]

_CHAIN = """
def f(x: f64[n, 6], y: f64[n, 5]) -> (f64[n, 5]):
    v2 = weight(name='x', dtype=f32, shape=(5, 6))
    v3 = transpose(v2, axes=(1, 0))
    v4 = cast(v3, dtype=f64)
    v5 = exp(v4)
    v6 = matmul(x, v5)
    v7 = weight(name='b', dtype=f64, shape=(5,))
    v8 = broadcast(v7, shape=(n, 5), axes=(1,))
    v9 = add(v6, v8)
    v10 = add(v9, y)
    return (v10,)
"""


def chain() -> tuple[Graph, list[Any]]:
    """A weight, named like an input, that is cast, transformed and packed; another that each call reads."""
    rng = np.random.default_rng(0)
    weights = WeightTable({"x": rng.standard_normal((5, 6)).astype(np.float32), "b": rng.standard_normal(5)})
    graph = parse(_CHAIN.strip())
    graph.weights = weights
    return graph, [rng.standard_normal((3, 6)), rng.standard_normal((3, 5))]


def with_weights(graph: Graph) -> Graph:
    """The program with weights instead of its constants."""

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.primitive.name != "constant":
            return None
        return [b.graph.add_weight(node.params["id"], graph.constants[node.params["id"]].copy(), node.line)]

    return rebuild(graph, visit)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_chain_of_work_on_weights_is_prepared_and_follows_changes(backend: str) -> None:
    graph, args = chain()
    executable = compiled(graph, backend)
    check(call(executable, graph, args), graph, args)
    for name in ("x", "b", "x"):
        graph.weights[name] *= 0.5
        graph.weights.change({name: graph.weights[name]})
        check(call(executable, graph, args), graph, args)
    graph.weights.change({"x": np.ones((6, 5), np.float32).T, "b": np.arange(10.0)[::2]})
    check(call(executable, graph, args), graph, args)


@pytest.mark.parametrize("backend", BACKENDS)
def test_work_on_weights_that_much_is_read_from_is_done_once(backend: str) -> None:
    """Each of 40 pairs of products reads both of the pair before: there are 2 ** 40 paths through them."""
    lines = [f"    {n}{i + 1} = matmul({n}{i}, {m}{i})" for i in range(40) for n, m in ("vw", "wv")]
    names = ("    v0 = weight(name='a', dtype=f64, shape=(8, 8))", "    w0 = weight(name='b', dtype=f64, shape=(8, 8))")
    first, last = "def f(x: f64[8, n]) -> (f64[8, n]):", "    y = matmul(v40, x)\n    return (y,)"
    graph = parse("\n".join((first, *names, *lines, last)))
    rotations = [np.linalg.qr(np.random.default_rng(seed).standard_normal((8, 8)))[0] for seed in range(3)]
    graph.weights = WeightTable({"a": rotations[0], "b": rotations[1]})
    executable, args = compiled(graph, backend), [np.ones((8, 3))]
    check(call(executable, graph, args), graph, args)
    graph.weights.change({"a": rotations[2]})
    check(call(executable, graph, args), graph, args)


def test_steps_do_only_work_that_depends_on_arguments() -> None:
    plan = plan_of(chain()[0])
    assert len(plan.prepared) >= 2 and len(plan.steps) == 1
    assert [str(w.type) for w in plan.weights.values()] == ["f32[5, 6]", "f64[5]"]
    assert "  weight x: f32[5, 6]\n" in str(plan) and "x=weight x" not in str(plan.steps[0])


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_random_programs_with_weights_for_constants(backend: str) -> None:
    changed = 0
    for seed in range(12):
        graph, args = random_program(seed)
        if not graph.constants:
            continue
        graph = with_weights(graph)
        table = graph.weights = WeightTable(graph.weights)
        executable = compiled(graph, backend)
        for _ in range(2):
            check(call(executable, graph, args), graph, args)
            table.change({name: np.roll(array, 1) for name, array in table.items()})
            changed += 1
    assert changed > 8


def test_results_that_are_much_larger_than_their_operands_are_not_prepared() -> None:
    text = """
def f(x: f32[n, 40]) -> (f32[n, 40]):
    v1 = weight(name='w', dtype=f32, shape=(40,))
    v2 = broadcast(v1, shape=(40, 40), axes=(1,))
    v3 = exp(v2)
    v4 = iota(size=40, dtype=f32)
    v5 = broadcast(v4, shape=(40, 40), axes=(0,))
    v6 = mul(v3, v5)
    v7 = matmul(x, v6)
    return (v7,)"""
    graph = parse(text.strip(), weights={"w": np.ones(40, np.float32)})
    assert sum(size for p in plan_of(graph).prepared for _, _, size in p.results) < 1600


def test_a_call_that_runs_retains_its_state_and_later_ones_reuse_the_memory() -> None:
    graph, args = chain()
    executable = compiled(graph, "lanes")
    (expected,) = call(executable, graph, args)
    began = executable._fixed.bind(executable)
    before = {name: array.copy() for name, array in began.items()}
    graph.weights.change({"x": np.zeros((5, 6), np.float32), "b": np.zeros(5)})
    assert not np.allclose(call(executable, graph, args)[0], expected)
    assert all(np.array_equal(began[name], array) for name, array in before.items())
    addresses = [array.ctypes.data for name, array in executable._fixed.state.items() if name.startswith("once")]
    del began
    graph.weights.change({"x": np.ones((5, 6), np.float32)})
    rebound = executable._fixed.bind(executable)
    assert [array.ctypes.data for name, array in rebound.items() if name.startswith("once")] == addresses


def test_programs_share_prepared_results_and_copies_and_drop_them_together() -> None:
    graph, args = chain()
    table = graph.weights
    table.change({"b": np.arange(10.0)[::2]})
    programs = [compiled(graph, "cpu") for _ in range(3)]
    for program in programs:
        check(call(program, graph, args), graph, args)
    states = [program._fixed.bind(program) for program in programs]
    addresses = [sorted(array.ctypes.data for array in state.arrays) for state in states]
    assert addresses[0] == addresses[1] == addresses[2] and len(table.prepared) == 1
    del programs, program, states
    gc.collect()
    assert len(table.prepared) == 0


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_prepared_work_checks_its_indices_and_recovers(backend: str) -> None:
    text = """
def f(x: f32[n, 3]) -> (f32[n, 3]):
    v1 = weight(name='table', dtype=f32, shape=(4, 3))
    v2 = weight(name='rows', dtype=i64, shape=(3,))
    v3 = take(v1, v2, axis=0)
    v4 = matmul(x, v3)
    return (v4,)"""
    graph = parse(text.strip())
    table = graph.weights = WeightTable({"table": np.eye(4, 3, dtype=np.float32), "rows": np.arange(3)})
    executable, x = compiled(graph, backend), np.ones((2, 3), np.float32)
    check(call(executable, graph, [x]), graph, [x])
    table.change({"rows": np.array([0, 4, 1])})
    for _ in range(2):
        with pytest.raises(OutOfBoundsError):
            call(executable, graph, [x])
    table.change({"rows": np.array([3, 2, 1])})
    check(call(executable, graph, [x]), graph, [x])


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_an_array_of_another_type_is_refused(backend: str) -> None:
    graph, args = chain()
    executable = compiled(graph, backend)
    graph.weights.change({"b": np.zeros(6)})
    with pytest.raises(ZenithError, match=r"weight b is float64\[6\], but the program was made for f64\[5\]"):
        call(executable, graph, args)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_returned_weight_is_copied(backend: str) -> None:
    graph = Graph("f")
    array = np.arange(3.0)
    weight = graph.add_weight("w", array)
    graph.set_outputs([weight, weight])
    results = call(compiled(graph, backend), graph, [])
    assert [r.tolist() for r in results] == [[0, 1, 2]] * 2
    assert not any(np.shares_memory(r, array) for r in results) and not np.shares_memory(*results)
