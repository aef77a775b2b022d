"""``tolerance=`` of ``jit`` and ``from_torch``: products as cheap as the error of the outputs allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import zenith
from tests.quantization.test_tolerances import network
from zenith.errors import ArgumentError, RecompilationError, UnsupportedError

LEVELS = {0.5: ["int8"] * 4, 0.008: ["bf16"] * 4, 0.006: ["bf16"] * 3, 1e-5: [], 1.2e-7: []}


def test_from_bytes_to_sums_in_float64() -> None:
    run, batches = network(3, layers=4)
    for tolerance, precisions in LEVELS.items():
        small = zenith.jit(run, tolerance=tolerance, calibration=batches)
        report = small.report
        assert [product.precision for product in report.products] == precisions
        assert report.float64_sums is (tolerance == 1.2e-7)
        assert zenith.verify(small, [batches[3], batches[7]]).relative == report.accuracy.relative <= tolerance
        lost = {p.name: p.loses for p in (*report.products, *report.kept)}
        assert len(lost) == 4 and all(0.005 < loses < 0.05 for loses in lost.values())
        assert ("sums of float32 are added in float64" in str(report)) is report.float64_sums
        assert ("loses in bytes" in str(report)) is bool(precisions)
    with pytest.raises(UnsupportedError, match=r"error of 1\..e-07 as it is, and of .*e-08 with sums in float64"):
        zenith.jit(run, tolerance=2e-8, calibration=batches)


def test_a_decorator_for_a_function_without_products() -> None:
    batches = [np.random.default_rng(i).normal(1e4, 1, (300, 40)).astype(np.float32) for i in range(4)]

    @zenith.jit(tolerance=1e-6, calibration=iter(batches))
    def variance(x: Any) -> Any:
        return np.var(x, axis=0), np.cumsum(x - np.float32(1e4), axis=0)

    assert "no product has fewer bits" in str(variance.report)
    wanted = np.var(batches[0].astype(np.float64), axis=0)
    assert np.linalg.norm(variance(batches[0])[0] - wanted) <= 1e-6 * np.linalg.norm(wanted)
    assert variance(batches[0][:7])[0].shape == (40,) and variance.cache_info().misses == 1


def test_what_else_was_asked_of_jit_holds() -> None:
    run, batches = network(3, layers=2)
    small = zenith.jit(run, tolerance=0.5, calibration=batches, max_compilations=1)
    assert small(batches[0]).dtype == np.float32
    with pytest.raises(RecompilationError):
        small(batches[0].astype(np.float64))


def test_a_saved_one_with_sums_in_float64(tmp_path: Any) -> None:
    run, batches = network(3, layers=4)
    small = zenith.jit(run, tolerance=1.2e-7, calibration=batches)
    wanted = small(batches[0])
    small.save(tmp_path / "wide.zenith")
    np.testing.assert_array_equal(zenith.load(tmp_path / "wide.zenith")(batches[0]), wanted)


def test_modules() -> None:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).eval()
    batches = [(torch.randn(16, 40),) for _ in range(8)]
    seen = []
    with torch.no_grad():
        for tolerance in (0.1, 0.005, 1e-5):
            small = zenith.from_torch(layers, batches[0], tolerance=tolerance, calibration=batches)
            found, wanted = small(batches[0][0]), layers(batches[0][0])
            assert isinstance(found, torch.Tensor)
            assert (found - wanted).norm() <= 1.5 * tolerance * wanted.norm()
            seen.append([(p.name, p.precision) for p in small.report.products])
    assert seen == [[(f"{n}.weight", bits) for n in (0, 2)] for bits in ("int8", "bf16")] + [[]]


def test_a_quantised_module_keeps_its_numerics() -> None:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).eval()
    compiled = zenith.from_torch(layers, (torch.randn(4, 40),), precision="bf16")
    small = zenith.quantize(compiled, [torch.randn(4, 40)], exclude=["2.weight"])
    assert small.numerics == compiled.numerics


def test_the_report_as_a_plot() -> None:
    run, batches = network(3, layers=4)
    report = zenith.jit(run, tolerance=0.006, calibration=batches).report
    (axes,) = report.plot().axes
    assert len(axes.get_yticklabels()) == len(axes.patches) == 4
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["as it was", "bf16"]
    with pytest.raises(ArgumentError, match="no errors of single products"):
        zenith.quantize(run, batches).report.plot()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"calibration": []}, "without a tolerance"),
        ({"tolerance": 0.1}, "calibration has no batch"),
        ({"tolerance": -1.0, "calibration": [np.ones((2, 12))] * 2}, "tolerance is -1.0"),
        ({"tolerance": 0.1, "calibration": [np.ones((2, 12))]}, "leaves none to measure"),
    ],
)
def test_what_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        zenith.jit(lambda x: x * 2, **options)
