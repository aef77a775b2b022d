"""Convolutions in bytes: exact where they are integers, and near where they were quantised."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
from tests.passes.test_rounded_convolutions import CASES, drawn, exact, same_numbers  # noqa: F401 (a fixture of every test)
from zenith import nn
from zenith import numpy as znp
from zenith.backends.cpu.vectors import TABLE, host_features
from zenith.errors import UnsupportedError
from zenith.quantization.observers import some_windows

RNG = np.random.default_rng(0)


def bytes_of(dtype: Any, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape, dtype=dtype)


def check_integers(case: str, signs: tuple[Any, Any]) -> str:
    """The plan's text, once sums of bytes were found to be exact."""
    shape, window, options = CASES[case]
    x, w = bytes_of(signs[0], *shape), bytes_of(signs[1], *window)
    function = zenith.jit(lambda x: nn.conv(x.astype(np.int32), w.astype(np.int32), **options))
    np.testing.assert_array_equal(function(x), exact(x.astype(np.int64), w.astype(np.int64), **options))
    return str(function.show("optimized"))


@pytest.mark.parametrize("signs", [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_sums_of_bytes_are_exact(case: str, signs: tuple[Any, Any]) -> None:
    text = check_integers(case, signs)
    assert ("conv_blocks_integer" in text) == (signs[1] == np.int8)


@pytest.mark.parametrize("isa", [name for name, row in TABLE.items() if row.runs_on(host_features())])
def test_every_instruction_set(isa: str) -> None:
    script = (
        "from tests.quantization.test_convolutions import *\n"
        "for case in CASES:\n"
        "    check_integers(case, (np.uint8, np.int8))"
    )
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "ZENITH_ISA": isa}, check=True)


def test_extreme_bytes_do_not_saturate() -> None:
    x, w = np.full((1, 64, 5, 5), 255, np.uint8), np.full((16, 64, 3, 3), -128, np.int8)
    w[::2] = 127
    found = zenith.jit(lambda x: nn.conv(x.astype(np.int32), w.astype(np.int32)))(x)
    np.testing.assert_array_equal(found, exact(x.astype(np.int64), w.astype(np.int64)))


QUANTISED = {name: case for name, case in CASES.items() if "groups" not in case[2]}


@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("case", QUANTISED)
def test_results_are_near(case: str, symmetric: bool, granularity: Any) -> None:
    shape, window, options = QUANTISED[case]
    w, bias = drawn(*window), drawn(window[0])

    def network(x: Any) -> Any:
        return znp.tanh(nn.conv(x, w, bias, **options) / 8)

    batches = [drawn(*shape) for _ in range(4)]
    small = zenith.quantize(network, batches, granularity=granularity, symmetric=symmetric)
    x = drawn(shape[0] + 1, *shape[1:])
    wanted = np.tanh((exact(x, w, **options) + bias.reshape(-1, *[1] * (len(shape) - 2))) / 8)
    assert np.linalg.norm(small(x) - wanted) / np.linalg.norm(wanted) < 0.05
    (product,) = small.report.products
    assert (product.terms, product.columns) == (int(np.prod(window[1:])), window[0])
    assert "conv_blocks_integer" in str(small.show("optimized"))
    assert small.cache_info().misses == 1


def residual_network() -> tuple[Any, list[np.ndarray]]:
    stem, a, b, c = drawn(24, 3, 7, 7) / 12, drawn(24, 24, 3, 3) / 15, drawn(24, 24, 1, 1) / 5, drawn(24, 10) / 5

    def network(x: Any) -> Any:
        h = znp.maximum(nn.conv(x, stem, stride=2, padding=3), 0)
        h = nn.max_pool(h, 3, stride=2, padding=1)
        y = znp.maximum(nn.conv(h, a, padding=1), 0)
        h = znp.maximum(nn.conv(y, b) + h, 0)
        return znp.mean(h, axis=(2, 3)) @ c

    return network, [drawn(2, 3, 32, 28) for _ in range(6)]


def test_a_network_keeps_bytes_between_convolutions() -> None:
    network, batches = residual_network()
    small = zenith.quantize(network, batches)
    x = drawn(3, 3, 40, 28)
    wanted = network(x)
    assert np.linalg.norm(small(x) - wanted) / np.linalg.norm(wanted) < 0.03
    text = str(small.show("optimized"))
    assert text.count("conv_blocks_integer(") == 3 and text.count("matmul_integer(") == 1
    inside = [line for line in text.splitlines() if "pad(" in line and "= pad" in line and "f32" in line.split("#")[-1]]
    assert len(inside) <= 1  # of the pooling; those of convolutions have bytes


def test_saved_and_loaded(tmp_path: Path) -> None:
    network, batches = residual_network()
    small = zenith.quantize(network, batches)
    wanted = small(batches[0])
    small.save(tmp_path / "network.zenith")
    np.testing.assert_array_equal(zenith.load(tmp_path / "network.zenith")(batches[0]), wanted)


@pytest.mark.parametrize("smooth", ["auto", 0])
@pytest.mark.parametrize("tolerance", [None, 0.05])
def test_convolutions_of_one_array_by_other_windows(smooth: Any, tolerance: float | None) -> None:
    a, b = drawn(16, 8, 3, 3) / 9, drawn(16, 8, 1, 1) / 3

    def network(x: Any) -> Any:
        h = znp.tanh(x)
        return nn.conv(h, a, padding=1) + nn.conv(h, b)

    batches = [drawn(2, 8, 9, 8) for _ in range(8)]
    small = zenith.quantize(network, batches, tolerance=tolerance, smooth=smooth)
    wanted = network(batches[0])
    assert np.linalg.norm(small(batches[0]) - wanted) / np.linalg.norm(wanted) < 0.05
    assert len({product.range for product in small.report.products if product.precision == "int8"}) == 1


def test_channels_of_zeros() -> None:
    w = drawn(8, 11, 3, 3) / 8

    def network(x: Any) -> Any:
        return nn.conv(znp.pad(x, ((0, 0), (0, 3), (1, 1), (1, 1))), w)

    batches = [drawn(2, 8, 9, 8) for _ in range(8)]
    small, wanted = zenith.quantize(network, batches), network(batches[0])
    assert np.linalg.norm(small(batches[0]) - wanted) / np.linalg.norm(wanted) < 0.03


def test_within_a_tolerance() -> None:
    network, batches = residual_network()
    free = zenith.quantize(network, batches, tolerance=0.5)
    assert not free.report.kept
    bound = free.report.accuracy.relative * 0.9
    careful = zenith.quantize(network, batches, tolerance=bound)
    assert careful.report.accuracy.relative <= bound
    assert "bf16" in {product.precision for product in careful.report.products}


def test_what_stays_and_why() -> None:
    grouped, single, w = drawn(8, 4, 3, 3), drawn(8, 1, 3, 3), drawn(8, 8, 1, 1)

    def network(x: Any) -> Any:
        return nn.conv(nn.conv(nn.conv(x, grouped, groups=2), single, groups=8), w)

    batches = [drawn(2, 8, 9, 9)]
    small = zenith.quantize(network, batches)
    assert [kept.why for kept in small.report.kept] == ["a convolution in groups of channels"] * 2
    for scheme in ("dynamic", "weight_only"):
        with pytest.raises(UnsupportedError, match="static"):
            zenith.quantize(lambda x: nn.conv(x, w), batches, scheme=scheme)


def test_windows_that_are_sampled() -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    rows = some_windows(x, (2, 3))
    assert rows.shape == (2 * 3 * 3, 18)
    np.testing.assert_array_equal(rows[0], x[0, :, :2, :3].reshape(-1))
    np.testing.assert_array_equal(rows[-1], x[1, :, 2:, 2:].reshape(-1))
    assert some_windows(x, (5, 1)).shape == (0, 15)


def test_modules() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    layers = (torch.nn.Conv2d(3, 20, 3, padding=1), torch.nn.BatchNorm2d(20), torch.nn.ReLU(),
              torch.nn.Conv2d(20, 12, 3, stride=2), torch.nn.Flatten(), torch.nn.Linear(12 * 16, 5))  # fmt: skip
    module = torch.nn.Sequential(*layers).eval()
    batches = [torch.randn(8, 3, 10, 10) for _ in range(8)]
    with torch.no_grad():
        small = zenith.quantize(module, batches)
        x = torch.randn(4, 3, 10, 10)
        error = (small(x) - module(x)).norm() / module(x).norm()
    assert error < 0.04
    assert [product.name for product in small.report.products] == ["0.weight", "3.weight", "5.weight"]
