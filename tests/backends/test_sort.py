"""Sorting in chunks: rows that are split into many, with rows and chunks so short that plain Python runs them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled
from tests.backends.sorting import expected, rows, sorting
from zenith.backends.lower.order import batch_network, radix_sort, row_network, sort, split_network, split_radix_sort
from zenith.config import config


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 8 elements are not ranked, nor sorted by networks, and those of more than 16 are split."""
    monkeypatch.setattr(config, "cache", False)  # programs follow from these numbers
    monkeypatch.setattr(radix_sort, "SHORT", 8)
    for module in (sort, split_radix_sort):
        monkeypatch.setattr(module, "SPLIT", 16)
    monkeypatch.setattr(split_radix_sort, "MOST", 5)
    for module in (batch_network, row_network):
        monkeypatch.setattr(module, "MOST", 8)
    monkeypatch.setattr(split_network, "longest", lambda sorting: 8)


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cpu"])
@pytest.mark.parametrize(
    ("dtype", "results", "descending"),
    [("f32", "v1, v2", False), ("f64", "v2", True), ("i32", "v1", True), ("bool", "v1, v2", False)],
)
def test_rows_in_chunks(dtype: str, results: str, descending: bool, backend: str) -> None:
    graph = sorting(dtype, results, descending)
    program = compiled(graph, backend)
    for shape in ((2, 17), (3, 32), (1, 100), (2, 9), (2, 3), (1, 0), (0, 20)):
        x = rows(graph.inputs[0].dtype.numpy, shape)
        for found, wanted in zip(call(program, graph, [x]), expected(graph, x), strict=True):
            assert found.tobytes() == wanted.tobytes(), shape


def test_a_digit_that_all_share_moves_nothing() -> None:
    """Small integers have one digit that differs: the other steps leave the elements where they are."""
    graph = sorting("i64", "v1, v2", False)
    x = np.random.default_rng(0).integers(0, 100, (2, 100))
    values, indices = call(compiled(graph, "scalar"), graph, [x])
    assert np.array_equal(values, np.sort(x, axis=1, kind="stable"))
    assert np.array_equal(indices, np.argsort(x, axis=1, kind="stable"))


def test_lengths_decide_which_kernels_there_are() -> None:
    """A row of known length is sorted by a network, its own or that of a batch, which the number of rows decides."""
    for size, kernels in ((8, 2), (9, 2 + 3 * 3 + 1)):
        assert len(sort.lower_sort(sorting("f32", "v1", False, f"n, {size}"))) == kernels
    assert len(sort.lower_sort(sorting("f32", "v1, v2", False, "20, 8"))) == 1
    for size, kernels in ((8, 1), (16, 1), (17, 2 + 3 * 7 + 1)):  # indices do not fit in: ranked, moved, or in chunks
        assert len(sort.lower_sort(sorting("f64", "v2", False, f"n, {size}"))) == kernels
