"""Operands whose sizes are formulas of others: in some calls they are 1, 0, or another operand's size, in others not.

Random functions of slices of two vectors and a matrix, each compiled once and called with many sizes: results are
NumPy's, what NumPy refuses is refused, and gradients are the slopes of the results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import zenith
from tests import fuzz
from zenith.errors import ZenithError

Array = Any
Function = Callable[[Array, Array, Array], Array]

FUNCTIONS = fuzz.programs(40, one_in=10)
SIZES = 12  # that a function is called with
PIECES: list[Function] = [
    lambda x, y, z: x,
    lambda x, y, z: y,
    lambda x, y, z: z,
    lambda x, y, z: x[: x.shape[0] // 2],
    lambda x, y, z: x[x.shape[0] // 2 :],
    lambda x, y, z: y[: y.shape[0] // 3],
    lambda x, y, z: x[::2],
    lambda x, y, z: y[1:],
    lambda x, y, z: x[: min(x.shape[0], y.shape[0])],
    lambda x, y, z: y[y.shape[0] - y.shape[0] % 3 :],
    lambda x, y, z: x[: 2 * (x.shape[0] // 2)],
    lambda x, y, z: z[: z.shape[0] // 2],
    lambda x, y, z: z[:, : z.shape[1] // 2],
    lambda x, y, z: z[z.shape[0] // 3 :, 1::2],
    lambda x, y, z: z.reshape(-1)[: x.shape[0] * y.shape[0] // 4],
    lambda x, y, z: x[max(0, x.shape[0] - y.shape[0]) :],
]
AXES: list[Callable[[Array], Array]] = [
    lambda a: a, lambda a: a[..., None], lambda a: a[None], lambda a: a.T, lambda a: a[..., ::-1],
]  # fmt: skip


def _assigned(a: Array, b: Array) -> Array:
    found = a * 1.0
    found[...] = b
    return found


def _added(a: Array, b: Array) -> Array:
    found = a + 0.0
    found += b
    return found


def _along(a: Array, b: Array) -> Array:
    return np.take_along_axis(a, np.argsort(b, -1), -1)


def _indexed(a: Array, b: Array) -> Array:
    return a[np.arange(a.shape[0]), np.argsort(b, -1)[..., : a.shape[0]]]


JOINS: list[Callable[[Array, Array], Array]] = [
    lambda a, b: a + b,
    lambda a, b: np.where(a > b, a, b * 2),
    lambda a, b: np.stack(np.broadcast_arrays(a, b)),
    lambda a, b: np.broadcast_to(a, b.shape) * b,
    lambda a, b: np.clip(a, b, b + 0.5),
    lambda a, b: (a * b).sum(-1),
    lambda a, b: np.matmul(a, b),
    lambda a, b: np.concatenate([a * b, b], -1),
    lambda a, b: np.linspace(a, b, 3),
    lambda a, b: np.einsum("...i,...i->...", a, b),
    lambda a, b: np.trapezoid(a, b),
    lambda a, b: np.sum(a, where=b > 0),
    _assigned,
    _added,
    _along,
    _indexed,
]


@cache
def _function(seed: int) -> Function:
    rng = np.random.default_rng(seed)
    first, second = (rng.choice(len(PIECES)) for _ in range(2))
    turn, other = (rng.choice(len(AXES)) for _ in range(2))
    join = JOINS[rng.choice(len(JOINS))]
    return lambda x, y, z: join(AXES[turn](PIECES[first](x, y, z)), AXES[other](PIECES[second](x, y, z)))


def _arguments(seed: int) -> list[tuple[Array, Array, Array]]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, (SIZES, 2))
    return [tuple(rng.standard_normal(s) for s in ((n,), (m,), (n, m))) for n, m in sizes]


def _result(function: Function, arguments: tuple[Array, Array, Array]) -> Array:
    """The result, or None where the function is refused."""
    try:
        return function(*(a.copy() for a in arguments))
    except (ValueError, IndexError, ZenithError):
        return None


@pytest.mark.parametrize("seed", range(FUNCTIONS))
def test_results_are_numpys(seed: int) -> None:
    function, given = _function(seed), _arguments(seed)
    compiled = zenith.jit(function)
    for arguments in given:
        found, expected = _result(compiled, arguments), _result(function, arguments)
        assert (found is None) == (expected is None), [a.shape for a in arguments]
        if expected is not None:
            assert np.shape(found) == np.shape(expected), [a.shape for a in arguments]
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(0, FUNCTIONS, 4))
def test_gradients_are_slopes(seed: int) -> None:
    function, step = _function(seed), 1e-6

    def loss(x: Array, y: Array, z: Array) -> Array:
        return (function(x, y, z) ** 2).sum()

    gradient = zenith.jit(zenith.grad(loss, argnums=(0, 1, 2)))
    for arguments in _arguments(seed)[:4]:
        if _result(function, arguments) is None:
            continue
        towards = [np.random.default_rng(seed).standard_normal(a.shape) for a in arguments]
        ahead, behind = (loss(*(a + s * t for a, t in zip(arguments, towards, strict=True))) for s in (step, -step))
        slope = sum(np.vdot(g, t) for g, t in zip(gradient(*arguments), towards, strict=True))
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-5)


def _counts(x: Array) -> Array:
    return np.where(x[x > 0].shape[0] - x[x < 0].shape[0] < 0, -1.0, 1.0)


def _computed_slice(x: Array) -> Array:
    return np.sum(x[np.argmin(x) : x.shape[0] - 5])


def _in_turns(x: Array) -> Array:
    total = 0.0
    for i in range(x.shape[0]):
        total += 100.0 if x[i:].shape[0] - 2 < 0 else x[i]
    return total


def _rounded_up(x: Array) -> Array:
    half = -(x[x > 0].shape[0] // -2)
    return np.where(half > 1, 1.0, 2.0), np.where(x[x > 0].shape[0] % -2 < 0, 1.0, 2.0)


NEGATIVE: list[Callable[[Array], Array]] = [
    _counts,
    _computed_slice,
    _in_turns,
    _rounded_up,
    lambda x: x * np.where(np.less(x.shape[0] - 5, 0), 1.0, 0.0),
    lambda x: x + np.fmod(x.shape[0] - 5, 3),
    lambda x: np.take(x, x.shape[0] - 5),
    lambda x: x[: -(x.shape[0] // -2)] + x.shape[0] % -3,
    lambda x: x * (1.0 if x.shape[0] ** 2 * ((x.shape[0] - 3) // 2) < x.shape[0] * ((x.shape[0] - 3) // 2) else 0.0),
]


@pytest.mark.parametrize("number", range(len(NEGATIVE)))
def test_formulas_that_are_negative_in_some_calls(number: int) -> None:
    function = NEGATIVE[number]
    for converted in (True, False) if function is not _in_turns else (True,):
        fast = zenith.jit(function, convert=converted)
        for n in (3, 4, 5, 6, 9):
            x = np.random.default_rng(n).integers(-3, 4, n) * 1.0
            np.testing.assert_array_equal(fast(x), function(x))
