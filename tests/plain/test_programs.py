"""Whole programs in plain NumPy, run as they are: results and arguments are NumPy's, one program has all sizes."""

import copy

import numpy as np
import pytest

import zenith
from tests.plain import graphs, linear, sequences, signals, simulation, statistics, stencils
from tests.plain.program import Program

MODULES = (stencils, linear, graphs, sequences, signals, statistics, simulation)
PROGRAMS = [program for module in MODULES for program in module.PROGRAMS]
STEP = 1e-6


def _smooth():
    """Programs with derivatives, of which those without any in reverse mode are expected to be refused."""
    refused = {p.name: pytest.mark.xfail(reason=p.irreversible, strict=True, raises=zenith.ZenithError)
               for p in PROGRAMS if p.irreversible}  # fmt: skip
    return [pytest.param(p, id=p.name, marks=refused.get(p.name, ())) for p in PROGRAMS if p.smooth]


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
    for size in program.sizes:
        own, plain = (copy.deepcopy(_arguments(program, size)) for _ in range(2))
        found, expected = compiled(*own), program.function(*plain)
        _same(found, expected, program.rtol)
        _same(own, plain, program.rtol)
    if program.several:
        assert compiled.cache_info().misses > 1, f"now one program, in spite of: {program.several}"
    else:
        assert compiled.cache_info().misses == 1, str(compiled.cache_info())


@pytest.mark.parametrize("program", _smooth())
def test_derivatives_are_those_of_finite_differences(program):
    """Of a weighted sum of all results and written arguments, along a random direction."""
    rng = np.random.default_rng(0)
    args = list(_arguments(program, program.sizes[0]))
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

    point = [args[number] for number in program.smooth]
    direction = [rng.normal(size=np.shape(p)) for p in point]
    ahead, behind = ([p + s * STEP * d for p, d in zip(point, direction, strict=True)] for s in (1, -1))
    expected = (loss(*ahead) - loss(*behind)) / (2 * STEP)
    gradient = zenith.grad(zenith.jit(loss, convert=True), argnums=tuple(range(len(point))))(*point)
    found = sum(np.sum(g * d) for g, d in zip(gradient, direction, strict=True))
    np.testing.assert_allclose(found, expected, 1e-4, 1e-6)
