"""Whole programs in plain NumPy, run as they are: results and arguments are NumPy's, one program has all sizes."""

import copy
from collections.abc import Callable

import numpy as np
import pytest

import zenith
from tests.plain import (
    active_sets,
    collected,
    graphs,
    linear,
    sequences,
    signals,
    simulation,
    spectral,
    statistics,
    stencils,
)  # fmt: skip
from tests.plain.program import Program

MODULES = (stencils, linear, graphs, sequences, signals, statistics, simulation, spectral, active_sets, collected)
PROGRAMS = [program for module in MODULES for program in module.PROGRAMS]
SMOOTH = [program for program in PROGRAMS if program.smooth]
STEP = 1e-6


def _arguments(program: Program, size: int):
    return program.arguments(size, np.random.default_rng(size))


def _same(found, expected, rtol: float) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            _same(a, b, rtol)
    elif expected is None:
        assert found is None
    else:
        assert np.shape(found) == np.shape(expected)
        if isinstance(expected, (np.ndarray, np.generic)):
            assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol, rtol)


def test_there_are_as_many_as_were_promised():
    assert len(PROGRAMS) >= 100 and len({p.name for p in PROGRAMS}) == len(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_results_and_arguments_are_those_of_numpy(program):
    compiled = zenith.jit(program.function, convert=True)
    for size in (*program.sizes, *[program.sizes[-1]] * 7):  # the last calls are answered by the inline cache
        own, plain = (copy.deepcopy(_arguments(program, size)) for _ in range(2))
        found, expected = compiled(*own), program.function(*plain)
        _same(found, expected, program.rtol)
        _same(own, plain, program.rtol)
    if program.several:
        assert compiled.cache_info().misses > 1, f"now one program, in spite of: {program.several}"
    else:
        assert compiled.cache_info().misses == 1, str(compiled.cache_info())


def _loss(program: Program, args: list[object]) -> Callable[..., object]:
    """A weighted sum of all results and written arguments, of the arguments in which the program is smooth."""
    weights = np.random.default_rng(1).random(50)

    def loss(*smooth):
        given = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
        for number, value in zip(program.smooth, smooth, strict=True):
            given[number] = np.array(value) if isinstance(value, np.ndarray) else value
        results = program.function(*given)
        leaves = results if isinstance(results, tuple) else () if results is None else (results,)
        total = 0.0
        for weight, leaf in zip(weights, leaves, strict=False):
            total = total + weight * np.sum(np.sin(leaf))
        for weight, number in zip(weights[20:], program.smooth, strict=False):
            total = total + weight * np.sum(np.cos(given[number]))
        return total

    return loss


def _gradient(program: Program, args: list[object]) -> tuple[np.ndarray, ...]:
    compiled = zenith.jit(_loss(program, args), convert=True)
    return zenith.grad(compiled, argnums=tuple(range(len(program.smooth))))(*(args[k] for k in program.smooth))


@pytest.mark.parametrize("program", [p for p in SMOOTH if not p.irreversible], ids=lambda p: p.name)
def test_derivatives_are_those_of_finite_differences(program):
    """Along a random direction."""
    rng = np.random.default_rng(0)
    args = list(_arguments(program, program.sizes[0]))
    loss, point = _loss(program, args), [args[number] for number in program.smooth]
    direction = [rng.normal(size=np.shape(p)) for p in point]
    ahead, behind = ([p + s * STEP * d for p, d in zip(point, direction, strict=True)] for s in (1, -1))
    expected = (loss(*ahead) - loss(*behind)) / (2 * STEP)
    found = sum(np.sum(g * d) for g, d in zip(_gradient(program, args), direction, strict=True))
    np.testing.assert_allclose(found, expected, 1e-4, 1e-6)


@pytest.mark.parametrize("program", [p for p in SMOOTH if p.irreversible], ids=lambda p: p.name)
def test_loops_of_an_unknown_number_of_turns_have_no_reverse_mode(program):
    with pytest.raises(zenith.ZenithError, match="an unknown number of steps; use"):
        _gradient(program, list(_arguments(program, program.sizes[0])))
