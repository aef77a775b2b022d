"""Random programs under derivatives and batching: forward against reverse, examples together against each alone."""

import os

import numpy as np
import pytest

from tests.programs import random_program
from tests.rewrite import widen, widen_array
from zenith import grad, jit, jvp, vjp, vmap
from zenith.trace.nested import replay

PROGRAMS = int(os.environ.get("ZENITH_FUZZ_PROGRAMS", "40"))
BLOCK = 5
EXAMPLES = 3


def problem(seed):
    """A program in float64 as a function from its floating-point arguments to its floating-point results."""
    graph, args = random_program(seed, symbolic=False)
    graph, args = widen(graph), [np.asarray(widen_array(a)) for a in args]
    moving = [i for i, a in enumerate(args) if a.dtype.kind == "f"]

    def function(*floats):
        every = list(args)
        for i, value in zip(moving, floats, strict=True):
            every[i] = value
        found = replay(graph, every)
        return [r for r in found if r.dtype.kind == "f"]

    return function, [args[i] for i in moving]


def scale(*arrays):
    """How large the terms of a sum are, in which infinities and nan leave nothing to compare."""
    total = sum(float(np.abs(a).sum()) for a in arrays)
    return total if np.isfinite(total) else None


def check_forward_against_reverse(function, args, rng):
    directions = [rng.uniform(-1, 1, a.shape) for a in args]
    values, moved = jvp(function, args, directions)
    weights = [rng.uniform(-1, 1, v.shape) for v in values]
    _, back = vjp(function, *args)
    pulled = back(weights)
    left = [w * m for w, m in zip(weights, moved, strict=True)]
    right = [g * d for g, d in zip(pulled, directions, strict=True)]
    size = scale(*left, *right)
    if size is None:
        return 0
    difference = sum(float(a.sum()) for a in left) - sum(float(a.sum()) for a in right)
    assert abs(difference) <= 1e-9 * max(size, 1.0)
    return 1


def check_gradients(function, args, rng):
    """jit(grad), vmap(grad) and grad(vmap) against grad."""

    def number(*floats):
        return sum(np.sum(np.tanh(r)) for r in function(*floats)) + 0.0

    every = tuple(range(len(args)))
    alone = grad(number, argnums=every)
    plain, compiled = alone(*args), jit(alone)(*args)
    if scale(*plain) is None:
        return 0
    for a, b in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9 * max(1.0, scale(*plain)))
    stacked = [np.stack([a * (1 + 0.1 * i) for i in range(EXAMPLES)]) for a in args]
    each = [alone(*(s[i] for s in stacked)) for i in range(EXAMPLES)]
    together = vmap(alone)(*stacked)
    total = grad(lambda *s: np.sum(vmap(number)(*s)), argnums=every)(*stacked)
    for place in every:
        expected = np.stack([e[place] for e in each])
        if np.isfinite(expected).all():
            bound = {"rtol": 1e-9, "atol": 1e-9 * max(1.0, float(np.abs(expected).max(initial=0)))}
            np.testing.assert_allclose(together[place], expected, **bound)
            np.testing.assert_allclose(total[place], expected, **bound)
    return 1


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_transforms_of_random_programs_agree(first):
    compared = 0
    with np.errstate(all="ignore"):
        for seed in range(first, first + BLOCK):
            function, args = problem(seed)
            if args:
                rng = np.random.default_rng(seed)
                compared += check_forward_against_reverse(function, args, rng)
                compared += check_gradients(function, args, rng)
    assert compared >= BLOCK, "most programs have something to compare"
