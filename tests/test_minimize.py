"""The minimiser finds the one node that an artificial failure depends on, and its script runs by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.minimize import as_script, minimize
from tests.programs import random_program
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.text import parse

ROOT = Path(__file__).resolve().parent.parent


def _computed(graph: Graph) -> list[str]:
    return [node.primitive.name for _, node in graph.nodes() if node.primitive.name != "input"]


def _broken(name: str) -> Any:
    """A backend that computes one primitive wrongly, and whether that shows."""

    def fails(graph: Graph, args: list[Any]) -> bool:
        def watch(node: Any, operands: Any, results: Any) -> Any:
            wrong = node.primitive.name == name and results[0].dtype.kind == "f"
            return (results[0] + np.asarray(1, results[0].dtype),) if wrong else results

        pairs = zip(interpret(graph, *args, watch=watch), interpret(graph, *args), strict=True)
        return any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)

    return fails


@pytest.mark.parametrize("name", ["sin", "div", "where", "reduce_sum", "matmul"])
def test_one_node_is_left(name: str) -> None:
    fails = _broken(name)
    seed = next(s for s in range(1000) if fails(*random_program(s)))
    graph, args = minimize(*random_program(seed), fails)
    assert fails(graph, args) and _computed(graph) == [name] and len(graph.outputs) == 1
    assert not graph.symbols()
    assert len(args) == len(graph.inputs) == len({a.node for a in graph.args(len(graph) - 1)})


def test_a_failure_of_two_nodes_keeps_both() -> None:
    def fails(graph: Graph, args: list[Any]) -> bool:
        edges = graph.networkx.edges()
        return any((graph.node(u).primitive.name, graph.node(v).primitive.name) == ("exp", "neg") for u, v in edges)

    text = """def f(x: f32[n], y: f32[m]) -> (f32[n], f32[n], f32[m]):
        v2 = sin(x)
        v3 = exp(v2)
        v4 = neg(v3)
        v5 = add(v4, x)
        v6 = cos(y)
        return (v5, v3, v6)"""
    graph, args = minimize(parse(text), [np.ones(3, np.float32), np.ones(2, np.float32)], fails)
    assert _computed(graph) == ["exp", "neg"] and len(args) == 1


def test_what_needs_symbols_keeps_them() -> None:
    graph, args = random_program(3)
    smaller, _ = minimize(graph, args, lambda g, a: bool(g.symbols()))
    assert smaller.symbols() and len(smaller) < len(graph)


def test_what_does_not_shrink_stays() -> None:
    graph, args = random_program(1)
    assert minimize(graph, args, lambda g, a: False)[0] is graph


@pytest.mark.parametrize("seed", [0, 1])
def test_the_script_reproduces_the_program(seed: int, tmp_path: Path) -> None:
    graph, args = random_program(seed)
    path = tmp_path / "case.py"
    path.write_text(as_script(graph, args, "for r in interpret(graph, *args): print(r.dtype, r.tobytes().hex())"))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(ROOT)}
    )
    expected = [f"{np.asarray(r).dtype} {np.asarray(r).tobytes().hex()}" for r in interpret(graph, *args)]
    assert [line.strip() for line in done.stdout.splitlines()] == [line.strip() for line in expected]


def test_the_script_keeps_special_numbers_and_awkward_texts() -> None:
    graph = parse("def f(x: f32[n], t: token) -> (f32[n], token):\n"
                  "    v2 = debug_print(t, x, format='\"\"\" \\\\n {}')\n    return (x, v2)")  # fmt: skip
    args = [np.float32([np.nan, -np.inf, -0.0]), None]
    names: dict[str, Any] = {}
    exec(as_script(graph, args, check=""), names)
    assert names["graph"] == graph and names["args"][1] is None
    assert names["args"][0].tobytes() == args[0].tobytes()
