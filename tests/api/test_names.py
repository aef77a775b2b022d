"""Names of arguments in any alphabet: they appear in graphs, sizes, kernels and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zenith

X = np.ones((2, 3))


@pytest.mark.parametrize("name", ["θ", "λ1", "µ", "é", "变量"])  # µ is the micro sign, which Python reads as mu
def test_names_beyond_ascii(name: str, tmp_path: Path) -> None:
    f = zenith.jit(eval(f"lambda {name}: np.tanh({name}).sum()", {"np": np}))
    for x in (X, np.ones((4, 1))):
        np.testing.assert_allclose(f(x), np.tanh(x).sum(), rtol=1e-12)
    f.save(tmp_path / "f.zenith")
    assert zenith.load(tmp_path / "f.zenith")(X) == f(X)
    tree = zenith.jit(lambda p: np.tanh(p[name]).sum(0), dims={f"p_{name}": (zenith.Dim(f"rows_{name}", min=1), None)})
    np.testing.assert_allclose(tree({name: X}), np.tanh(X).sum(0), rtol=1e-12)
