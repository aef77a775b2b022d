"""Programs that random testing found wrong, in their smallest form."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled
from tests.bounds import reference_bounds, violations
from zenith.ir.text import parse

PROGRAMS = {
    "work on a size only, which is no constant": (
        """
def program(x: f64[k], y: i32) -> (i32):
    v2 = size(value=k)
    v3 = cast(v2, dtype=i32)
    v4 = broadcast(v3, shape=(3,), axes=())
    v5 = reduce_min(v4, axes=(0,))
    v6 = remainder(v5, y)
    return (v6,)
""",
        [np.zeros(3), np.array(2, np.int32)],
    ),
    "a sum of nothing after a reshape": (
        """
def program(x: f64[0, 2]) -> (f64):
    v1 = copysign(x, x)
    v2 = reshape(v1, shape=(0,))
    v3 = reduce_sum(v2, axes=(0,))
    return (v3,)
""",
        [np.zeros((0, 2))],
    ),
    "an empty slice joined to something": (
        """
def program(z: f64[m], y: f64[m]) -> (f64[2*((m - min(1, m) + 2)//3) + m]):
    v2 = slice(z, start=(min(1, m),), stop=(m,), step=(3,))
    v3 = concat(y, v2, v2, axis=0)
    return (v3,)
""",
        [np.ones(1), np.zeros(1)],
    ),
    "elements of nothing between padding": (
        """
def program(z: i64[n], w: f64[k]) -> (f64[n + 2], f64[n + 2]):
    v1 = literal(value=5, dtype=i64)
    v2 = broadcast(v1, shape=(n,), axes=())
    v3 = add(z, v2)
    v4 = gather(w, v3)
    v5 = literal(value=0.5, dtype=f64)
    v6 = pad(v4, v5, low=(1,), high=(1,), interior=(0,))
    v7 = take(w, z, axis=0)
    v8 = pad(v7, v5, low=(1,), high=(1,), interior=(0,))
    return (v6, v8)
""",
        [np.zeros(0, np.int64), np.ones(0)],
    ),
    "a row that is taken by another value in the phase that reads it": (
        """
def program(x: f32[3, 8]) -> (f32[3, 8]):
    a = exp(x)
    s = reduce_sum(a, axes=(1,))
    s2 = broadcast(s, shape=(3, 8), axes=(0,))
    xs = mul(x, s2)
    b = tanh(xs)
    t = reduce_sum(b, axes=(1,))
    as2 = mul(a, s2)
    u = reduce_sum(as2, axes=(1,))
    t2 = broadcast(t, shape=(3, 8), axes=(0,))
    u2 = broadcast(u, shape=(3, 8), axes=(0,))
    bt = mul(b, t2)
    r = mul(bt, u2)
    return (r,)
""",
        [np.linspace(-2, 2, 24, dtype=np.float32).reshape(3, 8)],
    ),
    "empty rows that are saved": (
        """
def program(x: f64[2, 0, 0]) -> (f64[2, 0, 0], f64[2]):
    v1 = erf(x)
    v2 = div(v1, v1)
    v3 = reduce_sum(v1, axes=(1, 2))
    return (v2, v3)
""",
        [np.zeros((2, 0, 0))],
    ),
    "rows that are saved, and stages after them": (
        """
def program(x: f64[2, 2], y: f64[2, 2]) -> (f64[2], f64[2, 2], bool[2, 2]):
    v1 = tanh(x)
    v2 = mul(v1, y)
    v3 = add(v2, y)
    v4 = power(x, v3)
    v5 = tanh(v4)
    v6 = reduce_max(v4, axes=(1,))
    v7 = sin(v5)
    v8 = ge(v7, y)
    v9 = arctan2(v3, v2)
    return (v6, v9, v8)
""",
        [np.linspace(0.5, 1.5, 4).reshape(2, 2), np.linspace(1.5, 0.5, 4).reshape(2, 2)],
    ),
    "a product's group that also stores the transpose of another operand": (
        """
def program(x: f64[n, n], y: f64[n, m], z: f64[m, n]) -> (f64[n, m], f64[n, m]):
    v1 = transpose(z, axes=(1, 0))
    v2 = matmul(x, y)
    v3 = add(v2, v1)
    return (v1, v3)
""",
        [np.linspace(-3, 3, n).reshape(shape) for n, shape in ((9, (3, 3)), (12, (3, 4)), (12, (4, 3)))],
    ),
    "an empty operand of a concatenation, which begins beyond the last element": (
        """
def program(x: f32[1], y: f32[1]) -> (f32[1], f32[2]):
    v1 = slice(x, start=(1,), stop=(1,), step=(3,))
    v2 = concat(v1, y, axis=0)
    v3 = concat(v1, y, x, axis=0)
    return (v2, v3)
""",
        [np.ones(1, np.float32), np.full(1, 2.0, np.float32)],
    ),
    "a checked index in a reduction of an axis without elements": (
        """
def program(x: i32[2, 0], y: i32[2, 0]) -> (i32[2]):
    v1, _ = sort(x, descending=False)
    v2 = bit_or(v1, y)
    v3 = reduce_or(v2, axes=(1,))
    return (v3,)
""",
        [np.zeros((2, 0), np.int32), np.zeros((2, 0), np.int32)],
    ),
    "an operand of a product that its epilogue reads, too": (
        """
def program(x: f32[m, m]) -> (f32[m, m]):
    v1 = trunc(x)
    v2 = matmul(v1, x)
    v3 = sub(v1, v2)
    return (v3,)
""",
        [np.linspace(-3, 3, 16, dtype=np.float32).reshape(4, 4)],
    ),
    "the sign of a zero that is a logarithm of 1": (
        """
def program(x: f32[m, n], y: f32[m, n]) -> (f32[m, n]):
    v1 = cumlogsumexp(x, axis=1, reverse=True)
    v2 = arctan2(v1, y)
    return (v2,)
""",
        [np.array([[1, -0.0], [2, 0.0]], np.float32), np.full((2, 2), -1, np.float32)],
    ),
    "an infinite factor of the nothing before a recurrence": (
        """
def program(x: f64[n], y: f64[n]) -> (f64[n]):
    v1 = recurrence(x, y, axis=0, reverse=False)
    return (v1,)
""",
        [np.array([np.inf, 0.5, 2]), np.ones(3)],
    ),
    "a value that exists once a row, in a row that the next value takes": (
        """
def program(x: f32[3, 4]) -> (f32[3, 4]):
    v1 = reduce_max(x, axes=(1,))
    v2 = broadcast(v1, shape=(3, 4), axes=(0,))
    v3 = sub(x, v2)
    v4 = exp(v3)
    v5 = reduce_sum(v4, axes=(1,))
    v6 = log(v5)
    v7 = add(v6, v1)
    v8 = broadcast(v7, shape=(3, 4), axes=(0,))
    v9 = sub(x, v8)
    v10 = reduce_max(v9, axes=(1,))
    v11 = broadcast(v10, shape=(3, 4), axes=(0,))
    v12 = sub(v9, v11)
    v13 = exp(v12)
    v14 = reduce_sum(v13, axes=(1,))
    v15 = broadcast(v14, shape=(3, 4), axes=(0,))
    v16 = div(v13, v15)
    v17 = mul(v9, v16)
    v18 = reduce_sum(v17, axes=(1,))
    v19 = broadcast(v18, shape=(3, 4), axes=(0,))
    v20 = add(v16, v19)
    return (v20,)
""",
        [np.linspace(-3, 2, 12, dtype=np.float32).reshape(3, 4)],
    ),
}


@pytest.mark.parametrize("backend", ["lanes", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_right_now(name: str, backend: str) -> None:
    text, args = PROGRAMS[name]
    graph = parse(text)
    assert violations(call(compiled(graph, backend), graph, args), reference_bounds(graph, args)) == []
