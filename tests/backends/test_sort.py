"""Sorting in parts: rows that are cut into many, with rows and parts so short that plain Python runs them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled
from zenith.backends.lower import sort, sort_parts
from zenith.config import config
from zenith.ir.graph import Graph
from zenith.ir.text import parse


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 8 elements are merged no more, and those of more than 16 are cut."""
    monkeypatch.setattr(config, "cache", False)  # programs follow from these numbers
    monkeypatch.setattr(sort, "SHORT", 8)
    monkeypatch.setattr(sort_parts, "PART", 16)
    monkeypatch.setattr(sort_parts, "MOST", 5)


def _graph(dtype: str, results: str, descending: bool) -> Graph:
    types = ", ".join(f"{dtype if r == 'v1' else 'i64'}[n, m]" for r in results.split(", "))
    text = f"def f(x: {dtype}[n, m]) -> ({types}):\n    v1, v2 = sort(x, descending={descending})\n"
    return parse(f"{text}    return ({results},)")


def _rows(dtype: np.dtype, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(shape[1])
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "i":
        low = np.iinfo(dtype)
        return rng.integers(low.min, low.max, shape, dtype)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-300, 30, shape)).astype(dtype)
    x[:, ::5], x[:, 1::5], x[:, 2::7] = np.nan, -0.0, 0.0
    return x


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cpu"])
@pytest.mark.parametrize(
    ("dtype", "results", "descending"),
    [("f32", "v1, v2", False), ("f64", "v2", True), ("i32", "v1", True), ("bool", "v1, v2", False)],
)
def test_rows_in_parts(dtype: str, results: str, descending: bool, backend: str) -> None:
    graph = _graph(dtype, results, descending)
    program = compiled(graph, backend)
    for shape in ((2, 17), (3, 32), (1, 100), (2, 9), (2, 3), (1, 0), (0, 20)):
        x = _rows(graph.inputs[0].dtype.numpy, shape)
        mirrored = x[:, ::-1] if descending else x
        places = np.argsort(mirrored, axis=1, kind="stable")
        places = shape[1] - 1 - places[:, ::-1] if descending else places
        expected = {"v1": np.take_along_axis(x, places, 1), "v2": places}
        for found, name in zip(call(program, graph, [x]), results.split(", "), strict=True):
            assert found.tobytes() == expected[name].tobytes(), (shape, name)


def test_a_digit_that_all_share_moves_nothing() -> None:
    """Small integers have one digit that differs: the other steps leave the elements where they are."""
    graph = _graph("i64", "v1, v2", False)
    x = np.random.default_rng(0).integers(0, 100, (2, 100))
    values, places = call(compiled(graph, "scalar"), graph, [x])
    assert np.array_equal(values, np.sort(x, axis=1, kind="stable"))
    assert np.array_equal(places, np.argsort(x, axis=1, kind="stable"))


def test_lengths_decide_which_kernels_there_are() -> None:
    """A row of known length is merged, moved as one task, or in parts."""
    for size, kernels in ((8, 1), (16, 1), (17, 2 + 3 * 3 + 1)):
        body = parse(
            f"def f(x: f32[{size}]) -> (f32[{size}]):\n    v1, v2 = sort(x, descending=False)\n    return (v1,)"
        )
        assert len(sort_parts.lower_sort_parts(body)) == kernels
