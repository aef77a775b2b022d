"""Elementwise operations on short rows, such as blocks of channels: several to a task, with vectors for iterations."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled
from tests.passes.compare import program
from zenith.backends.lower.pointwise.loops import SHORT, STRETCH
from zenith.ir.graph import Graph

BODY = """
t = broadcast(s, shape=(n, 2, h, {c}), axes=(1, 3))
z = mul(x, t)
o = literal(value=0.0, dtype=f32)
q = broadcast(o, shape=(n, 2, h, {c}), axes=())
y = maximum(z, q)
return (y,)"""


def relu_of(channels: int) -> Graph:
    return program(f"x: f32[n, 2, h, {channels}], s: f32[2, {channels}]", BODY.format(c=channels))


@pytest.mark.parametrize(("channels", "backend"), [(16, "cpu"), (16, "lanes"), (5, "cpu"), (SHORT + 1, "cpu")])
def test_rows_of_all_lengths(channels: int, backend: str, rng: np.random.Generator) -> None:
    graph = relu_of(channels)
    executable = compiled(graph, backend)
    for n, h in ((1, 1), (2, STRETCH - 1), (3, STRETCH), (1, STRETCH + 1), (2, 2 * STRETCH + 2), (0, 3), (2, 0)):
        x, s = (rng.standard_normal(t).astype(np.float32) for t in ((n, 2, h, channels), (2, channels)))
        wanted = np.maximum(x * s[:, None], np.float32(0))
        np.testing.assert_array_equal(call(executable, graph, [x, s])[0], wanted)


def test_a_task_has_several_short_rows() -> None:
    texts = [next(iter(compiled(relu_of(c), "cpu").kernels.values())).text for c in (16, SHORT + 1)]
    short, long = (text[text.index("for ") :] for text in texts)
    assert short.count("for ") == 3 and "range(0, 16)" in short
    assert long.count("for ") == 2
