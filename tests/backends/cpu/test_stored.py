"""Programs in the cache: results and texts as compiled, found for the same function only, lines included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_executable import MIXED, _mixed_args, _take
from tests.backends.running import call, check, plan_of
from tests.ir.test_control import TEXTS
from tests.programs import random_program
from zenith.backends.codec import decode, encode
from zenith.backends.cpu import stored
from zenith.backends.cpu.executable import Executable
from zenith.backends.cpu.link import linked_count
from zenith.backends.cpu.program import Program, program_of
from zenith.backends.weights import WeightTable
from zenith.compile import compile_graph
from zenith.config import config
from zenith.errors import OutOfBoundsError
from zenith.ir.graph import Graph
from zenith.ir.text import parse


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cache of the test's own."""
    before, config.cache_dir = config.cache_dir, tmp_path / "cache"
    yield config.cache_dir
    config.cache_dir = before


def copied(program: Program) -> Program:
    """A program that became JSON and came back."""
    leaves: list[Any] = []
    text = json.dumps(encode(program, lambda leaf, name: (leaves.append(leaf), len(leaves) - 1)[1]))
    return decode(json.loads(text), Program, lambda kind, number: leaves[number])


def test_a_program_comes_back_from_json() -> None:
    for seed in range(40):
        graph, _ = random_program(seed)
        program = program_of(plan_of(graph))
        if len(program.launches) == len(program.steps):
            copy = copied(program)
            assert str(copy) == str(program) and copy.steps == program.steps and copy.prepared == program.prepared
            assert copy.outputs == program.outputs and copy.slots == program.slots
            assert list(copy.constants) == list(program.constants)


@pytest.mark.parametrize("text", TEXTS)
def test_loops_and_branches_come_back_from_json(text: str) -> None:
    graph = parse(text)
    program = program_of(plan_of(graph))
    copy = copied(program)
    assert copy.steps == program.steps and str(copy) == str(program)
    first, second = compile_graph(graph), compile_graph(graph)
    assert (first.report.cached, second.report.cached) == (False, True)


def test_the_second_compilation_runs_no_pass_and_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    args = _mixed_args()
    first = compile_graph(MIXED)
    monkeypatch.setattr("zenith.compile.run", lambda graph: pytest.fail("a pass ran"))
    second = compile_graph(MIXED)
    assert (first.report.cached, second.report.cached) == (False, True) and second.report.passes == []
    assert second.stages == first.stages and second.report.groups == first.report.groups
    results = [call(executable, MIXED, args) for executable in (first, second)]
    assert [a.tobytes() for a in results[0]] == [a.tobytes() for a in results[1]]
    check(results[1], MIXED, args)


def test_errors_of_a_cached_program_name_the_line() -> None:
    graph, x = _take(), np.arange(5, dtype=np.float32)
    for cached in (False, True):
        executable = compile_graph(graph)
        assert executable.report.cached == cached
        with pytest.raises(OutOfBoundsError, match=r"model\.py:12 in step"):
            call(executable, graph, [x, np.array([7])])


def test_lines_are_in_the_key_of_a_program() -> None:
    graph = _take()
    other = Graph("f")
    values: dict[int, Any] = {}
    for number, node in graph.nodes():
        line = node.line and zenith.errors.SourceLine(node.line.file, node.line.line + 1, node.line.function)
        record = type(node)(node.primitive, node.params, node.types, line)
        values[number] = other.add_record(record, tuple(values[a.node][a.output] for a in graph.args(number)))
    other.inputs = [values[v.node][0] for v in graph.inputs]
    other.set_outputs([values[v.node][v.output] for v in graph.outputs])
    assert other == graph
    compile_graph(graph)
    assert not compile_graph(other).report.cached


def test_constants_that_folding_made_are_stored_unless_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    holder, w = Graph("holder"), np.arange(6, dtype=np.float32).reshape(3, 2)
    holder.add_constant(w)
    (name,) = holder.constants
    graph = parse(f"""\
def f(x: f32[3, 2]) -> (f32[3, 2]):
    v1 = constant(id={name!r}, dtype=f32, shape=(3, 2))
    v2 = sin(v1)
    v3 = mul(x, v2)
    return (v3,)""", holder.constants)  # fmt: skip
    x = np.ones((3, 2), np.float32)
    for limit, cached in ((8, False), (8, False), (24, False), (24, True)):
        monkeypatch.setattr(stored, "MAX_CONSTANTS", limit)
        executable = compile_graph(graph)
        assert executable.report.cached == cached and name not in executable.program.constants
        np.testing.assert_allclose(call(executable, graph, [x])[0], np.sin(w), rtol=1e-6)


def test_explain_says_that_a_program_was_cached() -> None:
    x = np.ones((2, 3), np.float32)
    for cached in (False, True):
        function = zenith.jit(_softmax)
        function(x)
        assert ("from disk" in str(function.explain())) == cached


def test_contents_of_weights_are_not_in_a_program() -> None:
    graph = parse("""\
def f(x: f32[n, 4]) -> (f32[n, 3]):
    v1 = weight(name='w', dtype=f32, shape=(4, 3))
    v2 = matmul(x, v1)
    return (v2,)""")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for factor, cached in ((1, False), (2, True)):
        graph.weights = WeightTable({"w": np.full((4, 3), factor, np.float32)})
        executable = compile_graph(graph)
        assert executable.report.cached == cached
        np.testing.assert_array_equal(call(executable, graph, [x])[0], factor * x.sum(1, keepdims=True) + np.zeros(3))


def test_a_program_that_calls_python_is_not_stored() -> None:
    @zenith.jit
    def function(x: Any) -> Any:
        zenith.debug.print("{}", x)
        return x + 1

    for _ in range(2):
        function.cache_clear()
        function(np.zeros(2))
        assert not function.explain().specializations[0].executable.report.cached


def test_stages_of_a_cached_program_are_made_when_asked_for() -> None:
    x = np.ones((2, 3), np.float32)
    texts = []
    for _ in range(2):
        function = zenith.jit(_softmax)
        function(x)
        compiled = function.lower(x).compile()
        texts.append([compiled.as_text(s) for s in ("graph", "optimized", "plan", "kernels")])
        texts[-1].append(str(function.lower(x).cost_analysis()))
    assert texts[0] == texts[1]


def _softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def test_nothing_is_stored_when_the_cache_is_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache", False)
    assert not compile_graph(MIXED).report.cached and not folder.exists()


def test_an_executable_of_a_decoded_program_runs() -> None:
    program = program_of(plan_of(MIXED))
    args = _mixed_args(40, 9)
    check(call(Executable(copied(program), WeightTable()), MIXED, args), MIXED, args)


def test_programs_are_not_cached_while_there_are_kernels_of_the_users_own() -> None:
    like = (zenith.ShapeDtypeStruct(("n",), "float32"),)

    @zenith.kernels.register(computes=lambda x: x * x * 3.25, like=like)
    def own(begin: Any, end: Any, x: Any, out: Any) -> None:
        for i in range(begin, end):
            out[i] = x[i] * x[i] * 3.25

    try:
        assert [compile_graph(MIXED).report.cached for _ in range(2)] == [False, False]
    finally:
        zenith.kernels.unregister("own")
    assert [compile_graph(MIXED).report.cached for _ in range(2)] == [False, True]


def test_kernels_that_differ_in_the_names_of_sizes_only_are_linked_once() -> None:
    """As long as the names sort alike among each other and among loop variables: so products are written."""
    text = "def f(x: f32[{n}, {m}], size0: f32[{m}]) -> (f32[{n}, {m}]):"
    text += "\n    v1 = broadcast(size0, shape=({n}, {m}), axes=(1,))"
    text += "\n    v2 = sub(x, v1)\n    v3 = log1p(v2)\n    return (v3,)"
    args = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)]
    graph = parse(text.format(n="n", m="m"))
    check(call(compile_graph(graph), graph, args), graph, args)
    before = linked_count()
    for n, m in (("n1", "m1"), ("nn", "mm")):
        graph = parse(text.format(n=n, m=m))
        executable = compile_graph(graph)
        check(call(executable, graph, args), graph, args)
        assert linked_count() == before and not executable.report.cached


def test_routines_of_libraries_come_back_from_json() -> None:
    text = """def f(x: f32[n]) -> (f32[n], f32[2, 2]):
    v1 = gammainc_slope(x, x, order=2)
    v2 = slice(x, start=(0,), stop=(4,), step=(1,))
    v3 = reshape(v2, shape=(2, 2))
    v4, v5 = complete_qr(v3)
    return (v1, v5)"""
    graph = parse(text)
    program = program_of(plan_of(graph))
    copy = copied(program)
    assert str(copy) == str(program) and "call gammainc_slope(" in str(copy) and "call complete_qr(" in str(copy)
    first, second = compile_graph(graph), compile_graph(graph)
    assert (first.report.cached, second.report.cached) == (False, True)
    args = [np.arange(9, dtype=np.float32)]
    for one, other in zip(call(first, graph, args), call(second, graph, args), strict=True):
        np.testing.assert_array_equal(one, other)
