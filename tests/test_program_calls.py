"""Random programs with calls of libraries: what they call, and that all ways agree."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.bounds import RUNS, perturbation, reference_bounds
from tests.fuzz import programs
from tests.ir.cases import WITHOUT_SAMPLES
from tests.program_calls import CALLS, library_primitives
from tests.programs import LEFT_OUT, discarded, generated_primitives, random_program
from tests.ways import check
from zenith.ir.interpret import interpret
from zenith.ir.primitive import all_primitives, get
from zenith.ir.text import parse
from zenith.ir.verify import verify

PROGRAMS = 60
FUZZ = programs(4, one_in=10)
BLOCK = 2
EACH = 1 / 60  # every routine is in at least this share of programs


def test_every_primitive_is_in_a_stream_or_it_is_said_why_not() -> None:
    streams = {p.name for p in (*generated_primitives(), *library_primitives())}
    reasons = {*WITHOUT_SAMPLES, *LEFT_OUT}
    assert not streams & reasons
    assert streams | reasons == {p.name for p in all_primitives()}
    assert set(CALLS) <= {p.name for p in library_primitives()}


def test_programs_call_every_routine_and_few_elements_are_discarded() -> None:
    seen, lost = Counter[str](), 0
    for seed in range(PROGRAMS):
        graph, args = random_program(seed, stream="calls")
        verify(graph)
        seen.update({n.primitive.name for _, n in graph.nodes()})
        lost += discarded(reference_bounds(graph, args)) > 0.5
    assert lost <= 0.05 * PROGRAMS
    assert not {p.name: seen[p.name] for p in library_primitives() if seen[p.name] < EACH * PROGRAMS}


def test_the_same_seed_is_the_same_program_static_or_symbolic() -> None:
    for seed in range(10):
        (graph, args), (static, static_args) = (random_program(seed, stream="calls", symbolic=s) for s in (True, False))
        assert graph == random_program(seed, stream="calls")[0] != random_program(seed)[0]
        for a, b in zip(interpret(graph, *args), interpret(static, *static_args), strict=True):
            np.testing.assert_array_equal(a, b)


def test_matrices_move_by_their_largest_elements_and_spectra_by_theirs() -> None:
    """What is zero moves too: elimination and butterflies leave something there."""
    solve = parse("def f(a: f32[2, 2], y: f32[2, 1]) -> (f32[2, 1]):\n    v2 = solve(a, y)\n    return (v2,)")
    args = [np.float32([[1, 0], [0, 1e-3]]), np.float32([[1], [1]])]
    (exact,) = interpret(solve, *args)
    moved = [interpret(solve, *args, watch=perturbation(solve, args, run))[0] - exact for run in range(RUNS)]
    unit = get("solve").ulp * np.spacing(np.float32(1))
    assert 1e5 * unit < abs(np.array(moved)[:, 1]).max() < 1e7 * unit, "the second row is known to 1e-3 of the first"
    spectrum = parse("def f(x: f32[8]) -> (c64[5]):\n    v1 = rfft(x, norm='backward')\n    return (v1,)")
    (bound,) = reference_bounds(spectrum, [np.ones(8, np.float32)])
    assert np.all(bound.tolerance > 64 * np.spacing(np.float32(8))) and np.all(bound.tolerance < 1e-3)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, FUZZ, BLOCK))
def test_every_way_of_running_a_program_agrees(first: int) -> None:
    for seed in range(first, min(first + BLOCK, FUZZ)):
        check(seed, stream="calls")
