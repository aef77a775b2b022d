"""Reductions of leading axes: several terms at a time, neighbours first; long columns in pieces and blocks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.backends.running import call, compiled
from zenith.backends.lower.reduce.column_group import TERMS
from zenith.backends.lower.reduce.columns import SHORT, TOGETHER
from zenith.backends.lower.reduce.long_columns import BLOCK, PANEL, TASKS, TREE
from zenith.ir.text import parse

SUM = "def f(x: f32[n, m]) -> (f32[m]):\n    s = reduce_sum(x, axes=(0,))\n    return (s,)"
DEAR = "def f(x: f32[n, m]) -> (f32[m]):\n    e = exp(x)\n    s = reduce_sum(e, axes=(0,))\n    return (s,)"
PLANES = "def f(x: {t}[n, c, h, 16]) -> ({t}[c, 16]):\n    s = {reduce}(x, axes=(0, 2))\n    return (s,)"


def only(text):
    (kernel,) = compiled(parse(text), "cpu").kernels.values()
    return kernel.text


@pytest.mark.parametrize("rows", [0, 1, TERMS, 7 * TERMS + 3])
def test_terms_of_short_columns_are_added_in_index_order(rows: int, rng: np.random.Generator) -> None:
    graph = parse(SUM.replace("[n, m]", f"[{rows}, m]"))
    code = compiled(graph, "cpu")
    for columns in (0, 1, 17, TOGETHER + 5):
        x = rng.normal(size=(rows, columns)).astype(np.float32)
        total = np.zeros(columns, np.float32)
        for row in x:
            total = total + row
        np.testing.assert_array_equal(call(code, graph, [x])[0], total)


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_terms_of_long_columns_are_added_in_blocks(backend: str, rng: np.random.Generator) -> None:
    graph = parse(SUM)
    code = compiled(graph, backend)
    for rows in (0, 1, TREE + 1, BLOCK - 1, BLOCK, 3 * BLOCK + 7, 5000):
        for columns in (0, 1, 17, PANEL + 5):
            x = rng.normal(size=(rows, columns)).astype(np.float32)
            tasks = -(-TASKS // max(1, -(-columns // PANEL)))
            pieces = max(1, min(tasks, -(-rows // BLOCK)))
            cuts = [p * rows // pieces for p in range(pieces + 1)]
            partial = np.array([_in_blocks(x[a:b]) for a, b in itertools.pairwise(cuts)])
            wanted = partial[0] if pieces == 1 else _in_blocks(partial)
            np.testing.assert_array_equal(call(code, graph, [x])[0], wanted)


def _in_blocks(x):
    total = np.zeros(x.shape[1:], np.float32)
    for first in range(0, len(x), BLOCK):
        block, sums = x[first : first + BLOCK], np.zeros(x.shape[1:], np.float32)
        whole = len(block) // TREE * TREE
        for first_term in range(0, whole, TREE):
            terms = block[first_term : first_term + TREE]
            while len(terms) > 1:
                terms = terms[::2] + terms[1::2]
            sums = sums + terms[0]
        for row in block[whole:]:
            sums = sums + row
        total = total + sums
    return total


def test_a_long_sum_is_nearly_as_exact_as_its_terms(rng: np.random.Generator) -> None:
    x = rng.normal(size=(20000, 7)).astype(np.float32)
    graph, exact = parse(SUM), x.astype(np.float64).sum(0)
    error = np.abs(call(compiled(graph, "cpu"), graph, [x])[0] - exact).max()
    assert error <= 2.0**-21 * np.abs(exact).max()
    assert error <= np.abs(x.sum(0) - exact).max() / 8  # NumPy's, in order


@pytest.mark.parametrize(("kind", "reduce"), [("f32", "reduce_sum"), ("i32", "reduce_sum"), ("f32", "reduce_max")])
def test_columns_of_several_axes(kind: str, reduce: str, rng: np.random.Generator) -> None:
    graph = parse(PLANES.format(t=kind, reduce=reduce))
    code = compiled(graph, "cpu")
    for shape in ((3, 2, 200, 16), (1, 1, 1, 16), (70, 1, 3, 16), (2, 40, 5, 16), (0, 3, 4, 16), (3, 4, 0, 16)):
        if 0 in shape and reduce == "reduce_max":
            continue
        x = rng.integers(-999, 999, shape).astype({"f32": np.float32, "i32": np.int32}[kind])
        wanted = x.sum((0, 2)) if reduce == "reduce_sum" else x.max((0, 2))
        np.testing.assert_array_equal(call(code, graph, [x])[0], wanted)


def test_several_terms_only_where_a_term_is_cheap() -> None:
    for terms in (SHORT, 10 * SHORT):
        size = f"[{terms}, {PANEL * TASKS}]"  # so many results that there is one piece
        cheap, dear = (only(text.replace("[n, m]", size).replace("[m]", f"[{PANEL * TASKS}]")) for text in (SUM, DEAR))
        assert cheap.count("p0[") == (TERMS if terms == SHORT else TREE + 1)
        assert dear.count("p0[") == 1


@pytest.mark.parametrize(("rows", "terms"), [(2, 1), (TERMS, TERMS), (TERMS + 2, TERMS + 1)])
def test_no_loop_without_iterations(rows: int, terms: int) -> None:
    assert only(SUM.replace("[n, m]", f"[{rows}, m]")).count("p0[") == terms
