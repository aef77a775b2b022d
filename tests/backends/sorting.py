"""Programs that sort, rows that are hard to sort, and the results of NumPy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.ir.graph import Graph
from zenith.ir.text import parse


def sorting(dtype: str, results: str, descending: bool, shape: str = "n, m") -> Graph:
    """A program that gives the elements (v1), their indices (v2), or both."""
    types = ", ".join(f"{dtype if r == 'v1' else 'i64'}[{shape}]" for r in results.split(", "))
    text = f"def f(x: {dtype}[{shape}]) -> ({types}):\n    v1, v2 = sort(x, descending={descending})\n"
    return parse(f"{text}    return ({results},)")


def rows(dtype: np.dtype[Any], shape: tuple[int, int]) -> Any:
    """Numbers of all magnitudes, ties, zeros of both signs, nan."""
    rng = np.random.default_rng(shape[1])
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype)
    with np.errstate(over="ignore"):
        x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-300, 50, shape)).astype(dtype)
    x[:, ::5], x[:, 1::5], x[:, 2::7] = np.nan, -0.0, 0.0
    return x


def expected(graph: Graph, x: Any) -> list[Any]:
    """The results of such a program."""
    (node,) = [node for _, node in graph.nodes() if node.primitive.name == "sort"]
    descending = node.params["descending"]
    keys = x.astype(np.float32) if x.dtype.kind == "V" else x  # NumPy does not know nan in bfloat16
    indices = np.argsort(keys[:, ::-1] if descending else keys, axis=1, kind="stable")
    indices = x.shape[1] - 1 - indices[:, ::-1] if descending else indices
    made = np.take_along_axis(x, indices, 1), indices
    return [made[value.output] for value in graph.outputs]
