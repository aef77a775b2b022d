"""A workload's two programs compute the same, so that contenders do equal work."""

import doctest

import numpy as np
import pytest

from benchmarks import report, stats
from benchmarks.contenders import BASELINE, CONTENDERS
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_numpy_and_torch_programs_agree(workload):
    torch = pytest.importorskip("torch")
    weights, arrays = workload.make_weights(), workload.first_inputs()
    expected = workload.numpy(weights)(*arrays)
    with torch.inference_mode():
        found = workload.torch(weights)(*map(torch.from_numpy, arrays)).numpy()
    assert expected.dtype == found.dtype == np.float32
    assert stats.relative_error(found, expected) <= workload.bound


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_first_call_has_other_sizes(workload):
    """Otherwise a compiler could specialise to the timed sizes."""
    pairs = list(zip(workload.shapes, workload.first_shapes, strict=True))
    assert all(len(a) == len(b) and a[0] != b[0] for a, b in pairs)


def test_the_reference_is_float64():
    assert WORKLOADS["mlp_b1"].reference().dtype == np.float64


def test_the_baseline_takes_part():
    assert BASELINE in CONTENDERS


def test_a_wrong_shape_or_value_is_infinitely_wrong():
    right = np.array([1.0, 2.0])
    assert stats.relative_error(right[:1], right) == np.inf
    assert stats.relative_error(np.array([1.0, np.nan]), right) == np.inf


def test_speedup_bounds_hold_the_median():
    rng = np.random.default_rng(0)
    base, other = 2 + rng.random(25) / 10, 1 + rng.random(25) / 10
    found = stats.speedup(base, other)
    assert found == stats.speedup(base, other)
    assert 1.8 < found["low"] <= found["median"] <= found["high"] < 2.2


@pytest.mark.parametrize("module", [stats, report])
def test_examples_in_docstrings(module):
    assert doctest.testmod(module) == doctest.TestResults(0, doctest.testmod(module).attempted)
