"""The indices of true elements: split by split on a CPU, by prefix sums and a scatter on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled, plan_of
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lower.order import compaction
from zenith.config import config
from zenith.ir.text import parse


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits of 16 elements, three of a row at most, whose indices are copied 5 at a time."""
    monkeypatch.setattr(config, "cache", False)  # programs follow from these numbers
    for name, number in {"SPLIT": 16, "MOST": 3, "BLOCK": 5}.items():
        monkeypatch.setattr(compaction, name, number)


GRAPH = parse("def f(x: bool[n, m], y: i8[k]) -> (i64[n, k]):\n    v1 = true_indices(x, size=k)\n    return (v1,)")
KNOWN = parse("def f(x: bool[3, 40]) -> (i64[3, 9]):\n    v1 = true_indices(x, size=9)\n    return (v1,)")


def indices(flags: np.ndarray, size: int) -> np.ndarray:
    out = np.zeros((len(flags), size), np.int64)
    for row, own in zip(out, flags, strict=True):
        found = np.flatnonzero(own)[:size]
        row[: len(found)] = found
    return out


@pytest.mark.parametrize("backend", ["lanes", "scalar", "cpu", "cuda on lanes"])
def test_indices_are_in_order_and_then_0(backend: str) -> None:
    program, known, rng = compiled(GRAPH, backend), compiled(KNOWN, backend), np.random.default_rng(0)
    for share in (0.0, 0.1, 0.5, 1.0):
        for shape in ((1, 1), (2, 7), (1, 16), (3, 40), (1, 200), (0, 5), (2, 0)):
            flags = rng.random(shape) < share
            for size in (0, 1, shape[1], shape[1] + 3):
                (found,) = call(program, GRAPH, [flags, np.zeros(size, np.int8)])
                assert found.tolist() == indices(flags, size).tolist(), (share, shape, size)
        flags = rng.random((3, 40)) < share
        assert call(known, KNOWN, [flags])[0].tolist() == indices(flags, 9).tolist()


def test_a_gpu_has_other_primitives() -> None:
    (group,) = plan_of(GRAPH, None).groups
    assert group.choice.engine == "true_indices"
    kinds = {g.choice.kind for g in plan_of(GRAPH, cuda_target()).groups}
    assert "scatter" in kinds and "true_indices" not in kinds
