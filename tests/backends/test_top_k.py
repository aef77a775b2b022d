"""The k best elements: few are selected, block by block and split by split, many come from sorted rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled, plan_of
from tests.backends.sorting import rows
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lower.order import top_k
from zenith.config import config
from zenith.ir.graph import Graph
from zenith.ir.text import parse

SHAPES = ((2, 9), (1, 32), (3, 33), (1, 100), (2, 5), (0, 20))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 8 elements, and splits of 32."""
    monkeypatch.setattr(config, "cache", False)  # programs follow from these numbers
    monkeypatch.setattr(top_k, "BLOCK", 8)
    monkeypatch.setattr(top_k, "SPLIT", 32)


def choosing(dtype: str, k: int | str, largest: bool, results: str = "v1, v2") -> Graph:
    """A program that gives the k best elements (v1), their indices (v2), or both."""
    types = ", ".join(f"{dtype if r == 'v1' else 'i64'}[n, {k}]" for r in results.split(", "))
    text = f"def f(x: {dtype}[n, m]) -> ({types}):\n    v1, v2 = top_k(x, k={k}, largest={largest})\n"
    return parse(f"{text}    return ({results},)")


def check(program: object, graph: Graph, k: int | None, largest: bool, results: str) -> None:
    for shape in SHAPES:
        x = rows(graph.inputs[0].dtype.numpy, shape)
        mirrored = np.argsort(x[:, ::-1], axis=1, kind="stable")
        order = shape[1] - 1 - mirrored[:, ::-1] if largest else np.argsort(x, axis=1, kind="stable")
        indices = order[:, : k if k is not None else shape[1] // 2]
        expected = {"v1": np.take_along_axis(x, indices, 1), "v2": indices}
        for found, name in zip(call(program, graph, [x]), results.split(", "), strict=True):
            assert found.tobytes() == expected[name].tobytes(), (shape, name)


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cpu"])
@pytest.mark.parametrize(
    ("dtype", "k", "largest", "results"),
    [("f32", 5, True, "v1, v2"), ("f64", 3, False, "v1"), ("i16", 1, True, "v2"), ("bool", 4, True, "v1, v2")],
)
def test_few_are_selected(dtype: str, k: int, largest: bool, results: str, backend: str) -> None:
    graph = choosing(dtype, k, largest, results)
    check(compiled(graph, backend), graph, k, largest, results)


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cuda on lanes"])
def test_many_are_the_first_of_sorted_rows(backend: str) -> None:
    graph = choosing("f32", "m//2", False)
    check(compiled(graph, backend), graph, None, False, "v1, v2")


def test_engines() -> None:
    """A CPU selects few elements; a GPU sorts, as does a program of many or of an unknown number."""
    for k, target, engine in ((3, None, "top_k"), (65, None, "sorted_top_k"), ("m//2", None, "sorted_top_k"),
                              (3, cuda_target(), "shared_top_k")):  # fmt: skip
        (group,) = plan_of(choosing("f32", k, True), target).groups
        assert group.choice.engine == engine
