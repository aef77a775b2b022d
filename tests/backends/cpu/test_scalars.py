"""Division by what a row shares: the quotient that a division gives, at every edge."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled
from zenith.ir.text import parse

PROGRAM = """
def f(x: {t}[n, m], y: {t}[n]) -> ({t}[n, m]):
    b = broadcast(y, shape=(n, m), axes=(0,))
    q = div(x, b)
    return (q,)
"""


def quotients(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every x by every y: as a kernel computes it, and by division."""
    graph = parse(PROGRAM.format(t="f32" if x.dtype == np.float32 else "f64"))
    executable = compiled(graph, "cpu")
    assert "divide_same(" in next(iter(executable.kernels.values())).text
    rows = np.broadcast_to(x, (len(y), len(x)))
    with np.errstate(all="ignore"):
        return call(executable, graph, [rows, y])[0], rows / y[:, None]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mantissas_of_all_kinds_are_divided_exactly(dtype: str, rng: np.random.Generator) -> None:
    info = np.finfo(dtype)
    y = np.concatenate([rng.uniform(1, 2, 200), 2 - info.eps * np.arange(1, 20), 1 + info.eps * np.arange(20)])
    y = (y * 2.0 ** rng.integers(-40, 40, y.size) * rng.choice([-1, 1], y.size)).astype(dtype)
    got, expected = quotients((rng.normal(size=5000) * 2.0 ** rng.integers(-9, 9, 5000)).astype(dtype), y)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges_are_those_of_a_division(dtype: str) -> None:
    info = np.finfo(dtype)
    values = [
        0.0,
        info.smallest_subnormal,
        3 * info.smallest_subnormal,
        info.tiny,
        info.tiny / 3,
        0.1,
        1.0,
        3.0,
        4.0,
        info.max / 3,
        info.max,
    ]
    edges = np.array([*values, *(-v for v in values), np.inf, -np.inf, np.nan], dtype)
    got, expected = quotients(edges, edges)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(expected)[number])
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    finite = np.isfinite(expected)
    with np.errstate(all="ignore"):
        unit = np.spacing(np.abs(expected[finite]))
        assert (np.abs(got[finite] - expected[finite]) <= unit).all(), "an ulp where the residual is too small"
        assert (got[finite] == expected[finite])[np.abs(expected[finite]) > info.tiny * 2.0**30].all()
