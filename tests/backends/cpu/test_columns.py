"""Reductions of leading axes: several terms at a time and whole chunks of neighbours, added in index order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled
from zenith.backends.lower.columns import TERMS, TOGETHER
from zenith.ir.text import parse

SUM = "def f(x: f32[n, m]) -> (f32[m]):\n    s = reduce_sum(x, axes=(0,))\n    return (s,)"
DEAR = "def f(x: f32[n, m]) -> (f32[m]):\n    e = exp(x)\n    s = reduce_sum(e, axes=(0,))\n    return (s,)"


@pytest.mark.parametrize("rows", [0, 1, TERMS - 1, TERMS, TERMS + 1, 7 * TERMS + 3])
@pytest.mark.parametrize("columns", [0, 1, 17, TOGETHER + 5])
def test_terms_are_added_in_index_order(rows: int, columns: int, rng: np.random.Generator) -> None:
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    total = np.zeros(columns, np.float32)
    for row in x:
        total = total + row
    graph = parse(SUM)
    np.testing.assert_array_equal(call(compiled(graph, "cpu"), graph, [x])[0], total)


def test_several_terms_only_where_a_term_is_cheap() -> None:
    cheap, dear = (next(iter(compiled(parse(text), "cpu").kernels.values())).text for text in (SUM, DEAR))
    assert cheap.count("p0[") == TERMS + 1
    assert dear.count("p0[") == 1


@pytest.mark.parametrize(("rows", "terms"), [(2, 1), (TERMS, TERMS), (TERMS + 2, TERMS + 1)])
def test_no_walk_without_turns(rows: int, terms: int) -> None:
    (kernel,) = compiled(parse(SUM.replace("[n, m]", f"[{rows}, m]")), "cpu").kernels.values()
    assert kernel.text.count("p0[") == terms
