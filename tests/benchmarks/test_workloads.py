"""A workload's two programs compute the same, so that contenders do equal work."""

import doctest
import inspect

import numpy as np
import pytest

import zenith
from benchmarks import sheets, stats
from benchmarks.contenders import BASELINE, CONTENDERS
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.convolving import TRAIN_CNN
from benchmarks.workloads.workload import CHECKED

BOTH = [workload for workload in WORKLOADS.values() if workload.numpy is not None]


@pytest.mark.parametrize("workload", BOTH, ids=lambda workload: workload.name)
def test_numpy_and_torch_programs_agree(workload):
    torch = pytest.importorskip("torch")
    weights, arrays = workload.weights(), workload.first()
    expected = workload.numpy(weights, np)(*arrays)
    with torch.inference_mode():
        found = workload.torch(weights)(*map(torch.from_numpy, arrays)).numpy()
    assert expected.dtype == found.dtype and found.dtype in (np.float32, np.int64)
    assert stats.relative_error(found, expected) <= workload.bound


def test_convolutions_of_every_library_agree():
    """Each brings its own to the network: on some of its images, PyTorch's, Zenith's, JAX's and windows of NumPy's."""
    torch, jnp = (pytest.importorskip(name) for name in ("torch", "jax.numpy"))
    weights, (images, labels) = TRAIN_CNN.weights(), TRAIN_CNN.first()
    images, labels = images[:2, :, :9, :8], labels[:2]
    expected = float(TRAIN_CNN.torch(weights)(torch.from_numpy(images), torch.from_numpy(labels)).detach())
    assert abs(TRAIN_CNN.numpy(weights, np)(images, labels) - expected) <= 1e-6 * expected
    assert abs(zenith.jit(TRAIN_CNN.numpy(weights, zenith.numpy))(images, labels) - expected) <= 1e-6 * expected
    assert abs(TRAIN_CNN.numpy(tuple(map(jnp.asarray, weights)), jnp)(images, labels) - expected) <= 1e-6 * expected


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_sizes_that_change_are_new_after_the_first_call(workload):
    """Otherwise a compiler could specialise to the timed sizes."""
    for library in workload.libraries:
        pytest.importorskip(library)
    changing = workload.changing_axes()[0]
    first = [workload.first()[0].shape[a] for a in changing]
    assert all(first != [batch[0].shape[a] for a in changing] for batch in workload.batches()) or not changing
    assert bool(changing) or not workload.varied


@pytest.mark.parametrize("workload", [w for w in WORKLOADS.values() if w.expression], ids=lambda w: w.name)
def test_the_expression_is_the_program(workload):
    numexpr = pytest.importorskip("numexpr")
    program = workload.numpy((), np)
    arguments = dict(zip(inspect.signature(program).parameters, workload.first(), strict=True))
    expected = program(**arguments)
    assert stats.relative_error(numexpr.evaluate(workload.expression, arguments), expected) <= workload.bound


def test_checked_batches_are_spread_from_the_first_to_the_last():
    checked = WORKLOADS["dynamic_lengths"].checked()
    assert len(checked) == CHECKED
    assert (checked[0], checked[-1]) == (0, 49)
    assert WORKLOADS["mlp_b1"].checked() == [0]


def test_the_reference_is_float64():
    (result,) = WORKLOADS["mlp_b1"].reference()
    assert result.dtype == np.float64


def test_the_baseline_is_a_contender():
    assert BASELINE in CONTENDERS


def test_a_wrong_shape_or_value_is_infinitely_wrong():
    right = np.array([1.0, 2.0])
    assert stats.relative_error(right[:1], right) == np.inf
    assert stats.relative_error(np.array([1.0, np.nan]), right) == np.inf


def test_speedup_bounds_enclose_the_median():
    rng = np.random.default_rng(0)
    base, other = 2 + rng.random(25) / 10, 1 + rng.random(25) / 10
    found = stats.speedup(base, other)
    assert found == stats.speedup(base, other)
    assert 1.8 < found["low"] <= found["median"] <= found["high"] < 2.2


@pytest.mark.parametrize("module", [stats, sheets])
def test_examples_in_docstrings(module):
    assert doctest.testmod(module) == doctest.TestResults(0, doctest.testmod(module).attempted)
