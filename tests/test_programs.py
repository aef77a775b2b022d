"""Random programs: the properties of the generator and its error bounds, and that every pass and backend agrees.

Programs run in all ways there are: the interpreter without each pass, kernels as NumPy on lanes, some of them planned
for a GPU, compiled kernels; with symbolic sizes and static ones (``tests/ways.py``). One that fails is shrunk and
printed as a script; ZENITH_FUZZ_PROGRAMS says how many, and ZENITH_FUZZ_FIRST the number of the first.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests import fuzz
from tests.bounds import RUNS, perturbation
from tests.programs import discarded, element_types, generated_primitives, random_program, reference_bounds, violations
from tests.ways import STATIC_SHARE, STATIC_WAYS, WAYS, check, complaint, report, turns
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.lowering import Data
from zenith.ir.retype import in_double
from zenith.ir.text import parse
from zenith.ir.types import ArrayType, float32, kind_of
from zenith.ir.verify import verify

PROGRAMS = 300
EACH = 45 / 1000  # every primitive is in at least this share of programs


@pytest.fixture(scope="module")
def programs() -> list[tuple[Graph, list[Any]]]:
    return [random_program(seed) for seed in range(PROGRAMS)]


def test_programs_are_sound_and_long_enough(programs: list[tuple[Graph, list[Any]]]) -> None:
    for graph, args in programs:
        verify(graph)
        assert sum(not isinstance(n.primitive.lowering, Data) for _, n in graph.nodes()) >= 20
        assert len(graph.outputs) >= 2 and len(graph.symbols()) >= 2 and len(args) == len(graph.inputs)


def test_every_primitive_appears(programs: list[tuple[Graph, list[Any]]]) -> None:
    seen = Counter(name for graph, _ in programs for name in {n.primitive.name for _, n in graph.nodes()})
    assert not _rare(seen, PROGRAMS)


def _rare(seen: Counter[str], programs: int) -> dict[str, int]:
    """The primitives that are in too few programs, of those whose element types a primitive takes."""
    rare = {}
    for primitive in generated_primitives():
        takes = [any(list(primitive.samples(t.numpy)) for t in element_types(seed)) for seed in range(40)]
        if seen[primitive.name] < EACH * programs * sum(takes) / len(takes):
            rare[primitive.name] = seen[primitive.name]
    return rare


def test_programs_are_varied(programs: list[tuple[Graph, list[Any]]]) -> None:
    dtypes = Counter(v.dtype.name for graph, _ in programs for v in graph.outputs)
    assert all(dtypes[name] > PROGRAMS / 4 for name in ("bool", "i32", "i64", "u32", "f32", "f64"))
    sizes = Counter(n for _, args in programs for a in args for n in np.shape(a))
    assert all(sizes[n] > PROGRAMS / 10 for n in (0, 1, 2, 3))
    assert sum(bool(graph.constants) for graph, _ in programs) > PROGRAMS / 10


def test_the_same_seed_is_the_same_program_static_or_symbolic() -> None:
    for seed in range(40):
        graph, args = random_program(seed)
        repeated, _ = random_program(seed)
        static, static_args = random_program(seed, symbolic=False)
        assert graph == repeated and not static.symbols() and verify(static)
        names = [[n.primitive.name for _, n in g.nodes()] for g in (graph, static)]
        assert names[0] == names[1]
        for a, b in zip(interpret(graph, *args), interpret(static, *static_args), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_length_can_be_chosen() -> None:
    for size in (1, 5, 60):
        graph, _ = random_program(7, size=size)
        operations = sum(not isinstance(n.primitive.lowering, Data) for _, n in graph.nodes())
        assert size <= operations <= size + 12


@pytest.mark.thorough
def test_few_programs_are_discarded_and_the_reference_is_within_its_own_bounds(
    programs: list[tuple[Graph, list[Any]]],
) -> None:
    lost = 0
    for graph, args in programs[:150]:
        bounds = reference_bounds(graph, args)
        assert violations(interpret(graph, *args), bounds) == []
        lost += discarded(bounds) > 0.5
        inexact = [b for b in bounds if kind_of(b.reference.dtype) in ("f", "c")]
        assert all((np.isfinite(b.reference) | ~b.compared).all() for b in inexact)
    assert lost < 0.05 * 150


def test_widening_turns_every_float32_into_float64() -> None:
    graph, _ = random_program(5)
    wide = verify(in_double(graph))
    assert len(wide) == len(graph)
    assert not [t for _, n in wide.nodes() for t in n.types if isinstance(t, ArrayType) and t.dtype == float32]


_SUM = parse("def f(x: f32[n], i: i32[n]) -> (f32, i32[n], bool[n]):\n"
             "    v2 = exp(x)\n    v3 = reduce_sum(v2, axes=(0,))\n    v4 = add(i, i)\n    v5 = gt(x, v2)\n"
             "    return (v3, v4, v5)")  # fmt: skip
_ARGS = [np.linspace(-1, 1, 5, dtype=np.float32), np.arange(5, dtype=np.int32)]


def test_bounds_are_tight() -> None:
    bounds = reference_bounds(_SUM, _ARGS)
    assert discarded(bounds) == 0
    assert 1e-8 < bounds[0].tolerance < 1e-4
    good = interpret(_SUM, *_ARGS)
    assert violations(good, bounds) == []
    (off,) = violations([good[0] * np.float32(1 + 1e-4), *good[1:]], bounds)
    assert off.startswith("output 0: 1 of 1 elements differ, first at (): ")
    (off,) = violations([good[0], good[1] + 1, good[2]], bounds)
    assert off.startswith("output 1: 5 of 5 elements differ, first at (0,): ")
    assert violations([good[0], good[1], ~good[2]], bounds)[0].startswith("output 2: 5 of 5")
    assert violations([good[0], good[1][:2], good[2]], bounds) == ["output 1: shape (2,), not (5,)"]


def test_decisions_that_flip_are_left_out() -> None:
    graph = parse("def f(x: f32[3], y: f32[3]) -> (bool[3], f32[3], i32[3]):\n"
                  "    v2 = mul(x, x)\n    v3 = gt(v2, y)\n    v4 = floor(v2)\n    v5 = cast(v4, dtype=i32)\n"
                  "    return (v3, v4, v5)")  # fmt: skip
    x = np.float32([1.5, np.sqrt(np.float32(3.0)), 2.5])
    bounds = reference_bounds(graph, [x, x * x])
    assert bounds[0].compared.sum() == 0, "each product is compared with itself"
    assert bounds[1].compared.tolist() == bounds[2].compared.tolist() == [True, False, True]
    assert discarded(bounds) == pytest.approx(5 / 9)


def test_floats_that_are_nearly_equal_may_be_equal() -> None:
    graph = parse("def f(x: f32[3], y: f32[3]) -> (bool[3], bool[3]):\n"
                  "    v2 = eq(x, y)\n    v3 = ne(x, y)\n    return (v2, v3)")  # fmt: skip
    x = np.float32([1, 2, 3])
    bounds = reference_bounds(graph, [x, x + np.float32([0, 1e-6, 1e-3])])
    assert [b.compared.tolist() for b in bounds] == [[True, False, True]] * 2


def test_infinities_and_nan_are_exact() -> None:
    graph = parse("def f(x: f32[3]) -> (f32[3]):\n    v1 = log(x)\n    return (v1,)")
    bounds = reference_bounds(graph, [np.float32([0, -1, 1])])
    assert violations([np.float32([-np.inf, np.nan, 0])], bounds) == []
    assert violations([np.float32([-1e30, np.nan, 0])], bounds) and violations([np.float32([-np.inf, 0, 0])], bounds)


def test_both_parts_of_complex_numbers_move_in_both_directions() -> None:
    graph = parse("def f(x: c64[14]) -> (c64[14]):\n    v1 = exp(x)\n    return (v1,)")
    x = np.full(14, 1 + 1j, np.complex64)
    exact = np.exp(x)
    node = graph.node(graph.outputs[0].node)
    moves = [perturbation(graph, [x], run)(node, [x], (exact,))[0] - exact for run in range(RUNS)]
    for part in (np.real(moves), np.imag(moves)):
        assert np.all(part.min(axis=0) < 0) and np.all(part.max(axis=0) > 0)


def test_double_precision_is_bounded_by_perturbation() -> None:
    graph = parse("def f(x: f64[4]) -> (f64[4]):\n    v1 = sin(x)\n    v2 = mul(v1, x)\n    return (v2,)")
    x = np.linspace(0.5, 2, 4)
    (bound,) = reference_bounds(graph, [x])
    assert np.all(bound.tolerance > 1e-16) and np.all(bound.tolerance < 1e-13)
    assert violations([(np.sin(x) * x).astype(np.float32).astype(np.float64)], [bound])


# --- every way of running a program -------------------------------------------------------------------------------

FIRST = int(os.environ.get("ZENITH_FUZZ_FIRST", "0"))
FUZZ = FIRST + fuzz.programs(15)
BLOCK = 5  # programs a test: small, so that workers finish together
CENSUS = 2000  # programs in one count of discarded elements and of primitives


def test_every_way_has_its_turns() -> None:
    every = [turns(seed) for seed in range(8 * STATIC_SHARE * 5)]
    assert set().union(*(t[True] for t in every)) == set(WAYS)
    assert set().union(*(t[False] for t in every)) == set(STATIC_WAYS)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(FIRST, FUZZ, BLOCK))
def test_every_way_of_running_a_program_agrees(first: int) -> None:
    for seed in range(first, min(first + BLOCK, FUZZ)):
        check(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(FIRST, FUZZ, CENSUS))
def test_few_programs_are_discarded_and_no_primitive_is_rare(first: int) -> None:
    seeds = range(first, min(first + CENSUS, FUZZ))
    seen, lost = Counter[str](), 0
    for seed in seeds:
        graph, args = random_program(seed)
        seen.update({n.primitive.name for _, n in graph.nodes()})
        lost += discarded(reference_bounds(graph, args)) > 0.5
    assert lost <= 0.05 * len(seeds)
    if len(seeds) >= 1000:  # of fewer, chance decides
        assert not _rare(seen, min(len(seeds), int(50 / EACH)))


def test_a_failing_program_is_shrunk_to_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Graph, args: list[Any]) -> list[Any]:
        tanh = any(n.primitive.name == "tanh" for _, n in graph.nodes())
        return [r + 1 if tanh and kind_of(r.dtype) == "f" else r for r in interpret(graph, *args)]

    monkeypatch.setitem(WAYS, "cpu", broken)
    seed = next(s for s in range(50) if complaint("cpu", *random_program(s)))
    found = report("cpu", *random_program(seed))
    assert found.startswith("cpu: output 0: ") and found.count(" = tanh(") == 1 and found.count("\n    v") == 1
    scope: dict[str, Any] = {}
    exec(found.split("\n\n", 1)[1], scope)
    assert len(scope["graph"]) <= 2
