"""The order of steps: reductions run early, so that what they read does not wait for them in memory."""

from typing import Any

import numpy as np

import zenith
import zenith.numpy as znp
from zenith.backends.cpu.target import cpu_target
from zenith.backends.group_order import scheduled
from zenith.backends.planner import plan
from zenith.ir.graph import Graph
from zenith.ir.text import parse
from zenith.passes.pipeline import run

# Sums of all stages of a chain, requested after the chain, as derivatives do.
CHAIN = """def f(x: f32[n, 64, 96]) -> (f32[n, 64, 96], f32, f32, f32):
    v1 = cumsum(x, axis=2, reverse=False)
    v2 = cumsum(v1, axis=1, reverse=False)
    v3 = cumsum(v2, axis=2, reverse=False)
    v4 = cumsum(v3, axis=1, reverse=False)
    v5 = reduce_sum(v1, axes=(0, 1, 2))
    v6 = reduce_sum(v2, axes=(0, 1, 2))
    v7 = reduce_sum(v3, axes=(0, 1, 2))
    return (v4, v5, v6, v7)
"""


def fused() -> Graph:
    graph, _ = run(parse(CHAIN), debug=True)
    return graph


def kinds(graph: Graph) -> list[str]:
    """The last operation of each group."""
    groups = [node.params["body"] for _, node in graph.nodes() if node.primitive.name == "fused"]
    return [body.node(body.outputs[-1].node).primitive.name for body in groups]


def test_a_reduction_runs_as_soon_as_its_operands_are_there() -> None:
    graph = fused()
    assert kinds(graph) == ["cumsum"] * 4 + ["reduce_sum"] * 3
    assert kinds(scheduled(graph)) == ["cumsum", "reduce_sum"] * 3 + ["cumsum"]


def test_steps_that_are_in_order_stay() -> None:
    graph = scheduled(fused())
    assert scheduled(graph) is graph


def test_two_stages_are_in_memory_and_no_more() -> None:
    stage = 4 * 64 * 96 * 10
    needed = plan(fused(), cpu_target()).arena.evaluate({"n": 10})
    assert 2 * stage <= needed < 2.1 * stage


def test_loops_that_write_in_place() -> None:
    """A histogram that is carried, and a table of which steps write a row, are read before they are written to."""

    def step(carry: Any, x: Any) -> Any:
        table, counts, i = carry
        sums = znp.cumsum(znp.cumsum(x, axis=1), axis=0)
        before, table = znp.cumsum(counts), znp.dynamic_update_slice(table, sums[:1, :4], (i, 0))
        counts = counts.copy()
        znp.add.at(counts, znp.astype(x * 0, "int64"), 1.0)
        return (table, counts, i + 1), (znp.sum(sums), before)

    rng = np.random.default_rng(0)
    carry, xs = (rng.standard_normal((5, 4)), rng.standard_normal(7), 0), rng.standard_normal((3, 40, 30))
    found = [zenith.jit(lambda c, x: zenith.scan(step, c, x), backend=name)(carry, xs) for name in ("cpu", "reference")]
    for a, b in zip(*(zenith.tree.flatten(tree)[0] for tree in found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_values_and_their_derivatives() -> None:
    def stages(x: np.ndarray) -> np.ndarray:
        found = [np.cumsum(x, axis=1)]
        for axis in (0, 1):
            found.append(np.cumsum(np.tanh(found[-1]), axis=axis))
        return sum((np.mean(stage) ** 2 for stage in found), start=np.float64(0))

    x = np.random.default_rng(0).standard_normal((5, 40))
    np.testing.assert_allclose(zenith.jit(stages)(x), stages(x), rtol=1e-12)
    step = 1e-6 * np.random.default_rng(1).standard_normal(x.shape)
    change = np.sum(zenith.jit(zenith.grad(stages))(x) * step)
    np.testing.assert_allclose(change, (stages(x + step) - stages(x - step)) / 2, rtol=1e-5)
