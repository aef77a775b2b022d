"""The bytes of weights by precision: of programs in memory, and of saved ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import zenith
from zenith import cli
from zenith.api.precisions import weight_bytes

RNG = np.random.default_rng(0)
W, V = (RNG.standard_normal((128, 96)).astype(np.float32) for _ in range(2))
X = RNG.standard_normal((4, 128)).astype(np.float32)
COUNT = W.size
SCALES = 4 * 96 * (128 // 32)  # bytes, in groups of 32


def network(x: Any) -> Any:
    return np.tanh(x @ W)


def _quantized(**options: Any) -> Any:
    return lambda: zenith.quantize(network, [X] * 2, smooth=0, **options)


WAYS: dict[str, tuple[Any, dict[str, int]]] = {
    "float32": (lambda: zenith.jit(network), {"float32": 4 * COUNT}),
    "bfloat16": (lambda: zenith.jit(network, precision="bf16"), {"bfloat16": 2 * COUNT}),
    "static": (_quantized(symmetric=True), {"int8": COUNT, "float32": 2 * 4 * 96}),
    "weights": (_quantized(scheme="weight_only", symmetric=True), {"int8": COUNT, "float32": 4 * 96}),
    "four bits": (
        _quantized(scheme="weight_only", bits=4, granularity="group:32"),
        {"int4": COUNT // 2, "float32": 2 * SCALES},
    ),
    "groups of bytes": (
        _quantized(scheme="weight_only", granularity="group:32", symmetric=True),
        {"int8": COUNT, "float32": SCALES},
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_bytes_are_those_of_what_is_read(tmp_path: Path, way: str) -> None:
    make, expected = WAYS[way]
    function = make()
    function(X)
    assert weight_bytes(function.show("optimized")) == expected
    text = str(function.explain())
    assert all(name in text and f"{size:,}" in text for name, size in expected.items())
    for place in (tmp_path / "one.zenith", tmp_path / "folder"):
        function.save(place)
        shown = CliRunner().invoke(cli.app, ["inspect", str(place)], env={"COLUMNS": "250"}).output
        assert ", ".join(f"{name} {size}" for name, size in expected.items()) in shown, shown


def test_weights_of_loops_and_of_several_readers_count_once() -> None:
    """Also one that a result is."""

    def function(x: Any) -> Any:
        y = zenith.fori_loop(0, 3, lambda i, y: np.tanh(y @ W[:96]), x)
        return y @ V.T, x @ V.T + 1, V * 1

    compiled = zenith.jit(function)
    compiled(RNG.standard_normal((4, 96)).astype(np.float32))
    assert weight_bytes(compiled.show("optimized")).keys() == {"float32"}


def test_no_weights() -> None:
    compiled = zenith.jit(lambda x: x + 1)
    compiled(X)
    assert weight_bytes(compiled.show("optimized")) == {}
