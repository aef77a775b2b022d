"""``zenith.quantize(..., tolerance=)``: the error on held-out batches decides, or it is refused."""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import zenith
from tests.quantization.networks import drawn_network
from zenith.errors import ArgumentError, UnsupportedError


def network(seed: int, layers: int) -> tuple[Any, list[np.ndarray]]:
    """A random network of this depth with matrices of uneven columns, and batches for it."""
    generator = np.random.default_rng(seed)
    widths = generator.integers(8, 64, layers + 1)
    weights = [
        (generator.standard_normal((a, b)) * np.exp(generator.normal(0, 1, b)) / np.sqrt(a)).astype(np.float32)
        for a, b in pairwise(widths)
    ]

    def run(x: Any) -> Any:
        for number, w in enumerate(weights):
            x = x @ w
            if number < layers - 1:
                x = np.maximum(x, 0)
        return x

    return run, [generator.standard_normal((16, widths[0])).astype(np.float32) for _ in range(8)]


@pytest.mark.parametrize("seed", range(6))
def test_the_error_stays_below_or_it_is_refused(seed: int) -> None:
    run, batches = network(seed, layers=3)
    for tolerance in (0.003, 0.01, 0.05):
        try:
            small = zenith.quantize(run, batches, tolerance=tolerance, scheme="dynamic" if seed % 2 else "static")
        except UnsupportedError as error:
            assert "with all in bytes the error is" in str(error)
            continue
        held = [batches[3], batches[7]]
        assert small.report.accuracy is not None
        assert zenith.verify(small, held).relative == small.report.accuracy.relative <= tolerance
        kept = [k.why for k in small.report.kept]
        assert kept == [f"the error would exceed {tolerance:g}"] * (3 - len(small.report.products))


def test_what_loses_most_stays() -> None:
    """A matrix whose columns have one outlier each is the one that bytes cannot hold."""
    generator = np.random.default_rng(0)
    first, second = (generator.standard_normal((64, 64)).astype(np.float32) * 0.1 for _ in range(2))
    second[0] = 30
    first[:, 0] = 0
    batches = [generator.standard_normal((16, 64)).astype(np.float32) for _ in range(8)]

    def run(x: Any) -> Any:
        return np.maximum(x @ first, 0) @ second

    exact, loose = (zenith.quantize(run, batches, tolerance=t, smooth=0) for t in (0.02, 1.0))
    assert len(loose.report.products) == 2
    assert [p.precision for p in exact.report.products] == ["int8", "bf16"] and not exact.report.kept
    assert "#2" in exact.report.products[1].name
    exact(batches[0])
    assert "bf16" in str(exact.show("optimized"))
    assert "against float64" in str(exact.report)


@pytest.mark.parametrize(
    ("batches", "tolerance", "kind", "says"),
    [
        (1, 0.1, ArgumentError, "leaves none to measure"),
        (4, 0.0, ArgumentError, "tolerance is 0.0"),
        (4, 1e-9, UnsupportedError, "no product that can have fewer bits within 1e-09"),
    ],
)
def test_what_is_refused(batches: int, tolerance: float, kind: type[Exception], says: str) -> None:
    run, given = network(0, layers=2)
    with pytest.raises(kind, match=says):
        zenith.quantize(run, given[:batches], tolerance=tolerance)


def test_excluded_products_are_no_part_of_the_search() -> None:
    run, batches = network(1, layers=4)
    names = [product.name for product in zenith.quantize(run, batches).report.products]
    small = zenith.quantize(run, batches, exclude=names[:3], tolerance=0.5)
    assert [product.name for product in small.report.products] == names[3:]
    assert {kept.why for kept in small.report.kept} == {"it is excluded"}


def test_weights_alone_are_ordered_by_what_they_lose() -> None:
    """Whatever outliers activations have, which stay floats."""
    generator = np.random.default_rng(0)
    good, bad = (generator.standard_normal((64, 64)).astype(np.float32) * 0.1 for _ in range(2))
    bad[0] = 30
    batches = [generator.standard_normal((16, 64)).astype(np.float32) for _ in range(8)]
    for batch in batches:
        batch[0] *= 1000

    def run(x: Any) -> Any:
        return x @ good, np.tanh(x * [[0.0] + [1.0] * 63]).astype(np.float32) @ bad

    small = zenith.quantize(run, batches, scheme="weight_only", tolerance=0.02)
    assert [product.precision for product in small.report.products] == ["int8", "bf16"]
    assert "#2" in small.report.products[1].name


def test_indices_do_not_count() -> None:
    run, batches = network(2, layers=2)
    small = zenith.quantize(lambda x: (run(x), run(x).argmax(1)), batches, tolerance=0.05)
    assert small.report.accuracy is not None and len(small.report.accuracy.outputs) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_bytes_cannot_hold_has_16_bits_and_what_these_cannot_stays(dtype: Any) -> None:
    run, batches = network(3, layers=4)
    batches = [batch.astype(dtype) for batch in batches]
    seen = set[tuple[str, ...]]()
    for tolerance in (0.5, 0.008, 0.006, 0.003):
        small = zenith.quantize(run, batches, tolerance=tolerance)
        assert small.report.accuracy is not None and small.report.accuracy.relative <= tolerance
        seen.add(tuple(product.precision for product in small.report.products))
        assert small(batches[0]).dtype == dtype
        halves = [p for p in small.report.products if p.precision == "bf16"]
        assert all(p.after * np.dtype(dtype).itemsize == p.before * 2 for p in halves)
    assert seen == {("int8",) * 4, ("bf16",) * 4, ("bf16",) * 3, ("bf16",)}
    with pytest.raises(UnsupportedError, match="fewer bits"):
        zenith.quantize(run, batches, tolerance=1e-5)


def test_saved_with_products_of_both_kinds(tmp_path: Any) -> None:
    run, batches = network(3, layers=4)
    small = zenith.quantize(run, batches, tolerance=0.006)
    small(batches[0])
    small.save(tmp_path / "mixed.zenith")
    np.testing.assert_array_equal(zenith.load(tmp_path / "mixed.zenith")(batches[0]), small(batches[0]))


def check_tolerance(seed: int) -> str:
    """Quantise a random network within its tolerance; what became of it: refused, or the types of its products.

    Every second one is compiled by ``jit``, which may leave all products as they are.
    """
    network = drawn_network(seed)
    batches = network.draw(0)
    try:
        if seed % 2:
            small = zenith.jit(network.function, tolerance=network.tolerance, calibration=batches)
        else:
            small = zenith.quantize(network.function, batches, tolerance=network.tolerance, **network.options)
    except UnsupportedError as error:
        assert "fewer bits" in str(error)
        return "refused"
    assert small.report.accuracy is not None
    assert zenith.verify(small, batches[3::4]).relative == small.report.accuracy.relative <= network.tolerance
    fresh = [zenith.verify(small, [batch]).relative for batch in network.draw(1)]
    assert np.median(fresh) <= 4 * network.tolerance  # some have numbers beyond all that were seen, which are clipped
    return " ".join(sorted({product.precision for product in small.report.products})) or "exact"


NETWORKS = int(os.environ.get("ZENITH_FUZZ_PROGRAMS", 10))  # with the first eight; `make fuzz` asks for more


@pytest.mark.parametrize("seed", range(8))
def test_the_tolerance_holds_for_random_networks(seed: int) -> None:
    check_tolerance(seed)


@pytest.mark.fuzz
def test_the_tolerance_holds_for_many_networks() -> None:
    found = Counter(check_tolerance(seed) for seed in range(8, min(NETWORKS, 1000)))
    assert {"refused", "exact", "int8", "bf16", "bf16 int8"} <= set(found) or NETWORKS < 100, found
