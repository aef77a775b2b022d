"""Elements at ranks: short rows are sorted, of long ones the elements are selected; on a GPU all are sorted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.running import call, compiled, plan_of
from tests.backends.sorting import rows
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lower.order import batch_network, order_statistics, radix_select
from zenith.config import config
from zenith.errors import OutOfBoundsError
from zenith.ir.graph import Graph
from zenith.ir.text import parse

SHAPES = ((2, 5), (1, 8), (5, 6), (3, 9), (1, 40), (2, 100), (3, 100), (0, 20), (1, 300))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 9 elements are selected from; two of 17 are split, into 16 or 32 each; digits have few bits."""
    monkeypatch.setattr(config, "cache", False)  # programs follow from these numbers
    monkeypatch.setattr(order_statistics, "SHORT", 8)
    numbers = {"LONG": 64, "SPLIT": 16, "ROWS": 2, "LARGER": 2, "BITS": 7, "MORE": 2, "STEP": 7, "FEW": 3}
    for name, number in numbers.items():
        monkeypatch.setattr(radix_select, name, number)


def selecting(dtype: str, shape: str = "n, m") -> Graph:
    return parse(f"def f(x: {dtype}[{shape}], r: i64[k]) -> ({dtype}[{shape.rpartition(',')[0]}, k]):\n"
                 "    v1 = order_statistics(x, r)\n    return (v1,)")  # fmt: skip


def expected(x: Any, at: Any) -> Any:
    keys = x.astype(np.float32) if x.dtype.kind == "V" else x
    return np.take_along_axis(x, np.argsort(keys, axis=1, kind="stable"), 1)[:, at]


def ranks_of(size: int) -> Any:
    return np.array([size // 2, 0, size - 1, (size - 1) // 2, size // 3, size // 2])


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cpu", "cuda on lanes"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i16", "u8", "bool", "i64"])
def test_elements_are_those_of_sorted_rows(dtype: str, backend: str) -> None:
    graph = selecting(dtype)
    program = compiled(graph, backend)
    for shape in SHAPES:
        x = rows(graph.inputs[0].dtype.numpy, shape)
        for own in (x, np.sort(x.astype(np.float64), 1).astype(x.dtype), np.broadcast_to(x[:, :1], shape).copy()):
            at = ranks_of(shape[1])
            (found,) = call(program, graph, [own, at])
            assert found.tobytes() == expected(own, at).tobytes(), shape


def test_numbers_that_share_their_first_bits() -> None:
    """What is left after one digit is counted by the next ones; equal numbers are left at the end."""
    graph = selecting("f64")
    program = compiled(graph, "cpu")
    rng = np.random.default_rng(0)
    for spread in (1e-15, 1e-9, 1e-3):
        x = 1 + spread * rng.integers(0, 50, (2, 300)).astype(float)
        for at in (np.arange(300), np.array([7]), np.zeros(0, np.int64)):
            (found,) = call(program, graph, [x, at])
            assert np.array_equal(found, np.sort(x, 1)[:, at])


@pytest.mark.parametrize("size", [5, 100])
@pytest.mark.parametrize("backend", ["lanes", "cpu", "cuda on lanes"])
def test_ranks_are_indices_of_the_row(size: int, backend: str) -> None:
    graph = selecting("f32")
    program = compiled(graph, backend)
    x = np.zeros((1, size), np.float32)
    for rank in (-1, size):
        with pytest.raises(OutOfBoundsError):
            call(program, graph, [x, np.array([rank])])


def test_known_sizes_have_the_kernels_of_theirs() -> None:
    def kernels(shape: str) -> int:
        return len(plan_of(selecting("f32", shape), None).kernels)

    assert [kernels(shape) for shape in ("1, 8", "9, 8", "1, 9", "3, 99", "1, 99", "n, m")] == [2, 2, 1, 1, 4, 8]
    assert batch_network.FEW < 9


def test_engines() -> None:
    for target, engine in ((None, "order_statistics"), (cuda_target(), "shared_order_statistics")):
        (group,) = plan_of(selecting("f32"), target).groups
        assert group.choice.engine == engine
