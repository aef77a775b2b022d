"""Sorting networks: steps are their twins, comparators sort zeros and ones, and batches of rows have NumPy's bits."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import cfunc, types

import zenith.backends.cpu.sorting_network_code  # noqa: F401  (teaches Numba the functions)
from tests.backends.running import call, compiled
from tests.backends.sorting import expected, rows, sorting
from zenith.backends.cpu import sorting_network as steps
from zenith.backends.lower.order import batch_network, row_network, split_network
from zenith.config import config

LANES = {"int64": 8, "int32": 16, "uint8": 64}
STEPS: dict[str, tuple[Callable[..., None], str]] = {
    "eight": (steps.sort_words, "LANES, words, 1, 2"),
    "two of two": (steps.merge_words, "LANES, 2, 1, words, 1, 6, 3, 2"),
    "two of four": (steps.merge_words, "LANES, 4, 1, words, 0, 9, 3, 1"),
    "two of eight": (steps.merge_words, "LANES, 8, 1, words, 1, 8, 1, 1"),
    "two of two through lanes": (steps.merge_words, "LANES, 2, 2, words, 1, 6, 3, 2"),
    "two of eight through lanes": (steps.merge_words, "LANES, 8, 2, words, 2, 17, 2, 2"),
    "pairs of lanes": (steps.merge_lanes, "LANES, 2, 1, words, 1, 4, 2"),
    "groups of lanes": (steps.merge_lanes, "LANES, 8, 1, words, 1, 4, 2"),
    "all lanes": (steps.merge_lanes, "LANES, LANES, 1, words, 1, 4, 2"),
    "bitonic lanes": (steps.merge_lanes, "LANES, LANES, 0, words, 1, 4, 2"),
    "bitonic": (steps.merge_words, "LANES, 8, 0, words, 1, 15, 2, 2"),
    "transposed": (steps.transpose_words, "LANES, words, 1, words, LANES + 1"),
}


def sorts(pairs: list[tuple[int, int]], sequence: tuple[int, ...]) -> bool:
    found = list(sequence)
    for i, j in pairs:
        found[i], found[j] = sorted((found[i], found[j]))
    return found == sorted(found)


def test_eight_are_sorted() -> None:
    """All zeros and ones, therefore all (the zero-one principle; Knuth, TAOCP 3, 5.3.4)."""
    assert all(sorts(list(steps.EIGHT), bits) for bits in itertools.product((0, 1), repeat=8))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_merges(count: int) -> None:
    half = count // 2
    for i, j in itertools.product(range(half + 1), repeat=2):
        left, right = (tuple(int(k >= half - n) for k in range(half)) for n in (i, j))
        assert sorts(steps.comparators(count, True), left + right)
        assert sorts(steps.comparators(count, False), left + right[::-1])


@pytest.mark.parametrize("dtype", LANES)
@pytest.mark.parametrize("step", STEPS)
def test_compiled_code_does_what_its_twin_does(step: str, dtype: str) -> None:
    function, arguments = STEPS[step]
    lanes = LANES[dtype]
    words = np.random.default_rng(1).integers(0, 200, (2 * lanes + 10) * lanes).astype(dtype)
    again = words.copy()
    exec(
        f"def kernel(words):\n    function({arguments.replace('LANES', str(lanes))})",
        scope := {"function": function},
    )
    pointer = types.CPointer(getattr(types, dtype))
    kernel: Any = cfunc(types.void(pointer), nopython=True)(scope["kernel"])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(words.ctypes.data)
    scope["kernel"](again)
    np.testing.assert_array_equal(words, again)


CASES = [
    ("f32", "v1", False), ("f64", "v1", True), ("f16", "v1, v2", True), ("bf16", "v1", False), ("i32", "v1", True),
    ("u8", "v1", False), ("bool", "v1", True), ("f32", "v2", True), ("u32", "v1, v2", False), ("i16", "v2", False),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cpu"])
@pytest.mark.parametrize(("dtype", "results", "descending"), CASES)
def test_batches_of_rows(
    dtype: str, results: str, descending: bool, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With elements that are sorted first so few, in plain Python, that other levels follow."""
    monkeypatch.setattr(config, "cache", False)  # programs follow from these numbers
    monkeypatch.setattr(batch_network, "NEAR", 16)
    monkeypatch.setattr(batch_network, "MANY", 3)
    monkeypatch.setattr(batch_network, "MOST", 64)
    graph = sorting(dtype, results, descending)
    program = compiled(graph, backend)
    for shape in ((4, 1), (5, 7), (17, 8), (4, 20), (5, 33), (4, 64), (4, 65), (3, 30), (6, 0), (0, 6)):
        x = rows(graph.inputs[0].dtype.numpy, shape)
        for found, wanted in zip(call(program, graph, [x]), expected(graph, x), strict=True):
            assert found.tobytes() == wanted.tobytes(), shape


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cpu"])
@pytest.mark.parametrize(("dtype", "results", "descending"), CASES)
def test_long_rows(dtype: str, results: str, descending: bool, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks so short that all kinds of merges are reached: rows of a task, and rows of chunks."""
    monkeypatch.setattr(config, "cache", False)
    few = {"MOST": 300, "FEW": 16, "ROWS": 32, "BLOCKS": 1}
    numbers = {row_network: few, split_network: {"ROWS": 16, "CHUNK": 512, "LEVELS": 3}}
    for module, values in numbers.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    graph = sorting(dtype, results, descending)
    program = compiled(graph, backend)
    for shape in ((1, 1), (2, 100), (1, 300), (1, 301), (2, 1025), (1, 2048), (1, 2049), (1, 3100), (1, 4097), (1, 0)):
        x = rows(graph.inputs[0].dtype.numpy, shape)
        for found, wanted in zip(call(program, graph, [x]), expected(graph, x), strict=True):
            assert found.tobytes() == wanted.tobytes(), shape


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "u16"])
def test_all_lengths_of_levels(dtype: str) -> None:
    graph = sorting(dtype, "v1", False)
    program = compiled(graph, "cpu")
    for size in (9, 16, 31, 63, 100, 128, 129, 255, 256, 257, 500, 1023, 1025, 2047, 2048, 2049):
        x = rows(graph.inputs[0].dtype.numpy, (5, size))
        (found,), (wanted,) = call(program, graph, [x]), expected(graph, x)
        assert found.tobytes() == wanted.tobytes(), size
