"""The driver: one table of launches for every program, cut by host calls, refilled only when sizes change."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_executable import MIXED, _mixed_args
from tests.backends.running import call, check, compiled, plan_of
from tests.ir.test_control import TEXTS
from zenith.arrays import NUMPY
from zenith.backends.cpu.executable import LEASES
from zenith.backends.cpu.frame import Frame, Run, segments
from zenith.backends.cpu.link import linked_count
from zenith.backends.cpu.program import program_of
from zenith.backends.cpu.step_table import Control, rows_of
from zenith.backends.cpu.word_layout import BEGIN, END, EXIT, JUMP, SELECT, TEST
from zenith.ir.graph import Graph
from zenith.ir.interpret import bind_sizes
from zenith.ir.text import parse


def test_sizes_are_recomputed_only_where_no_idle_frame_has_them() -> None:
    executable, calls = compiled(MIXED, "cpu"), []
    sizes = executable.frame.sizes
    executable.frame.sizes = lambda *values: calls.append(values) or sizes(*values)
    for rows, columns in ((3, 4), (3, 4), (3, 4), (300, 4), (300, 4), (3, 4)):
        args = _mixed_args(rows, columns)
        check(call(executable, MIXED, args), MIXED, args)
    assert len(calls) == 2
    for rows in (*range(5, 5 + LEASES), 3):  # as many others, which take the frames of those sizes
        args = _mixed_args(rows, 4)
        check(call(executable, MIXED, args), MIXED, args)
    assert len(calls) == 2 + LEASES + 1


def test_launches_can_be_run_one_by_one() -> None:
    """As a profiler runs them: the same table, the same results."""
    executable, args = compiled(MIXED, "cpu"), _mixed_args(20, 30)
    expected = [r.tobytes() for r in call(executable, MIXED, args)]
    assert len(executable.segments) == 1 < len(executable.program.launches)
    executable.segments = executable.single_steps()
    assert [r.tobytes() for r in call(executable, MIXED, args)] == expected


@pytest.mark.parametrize("graph", [MIXED, *map(parse, TEXTS)])
def test_no_two_uses_share_a_word(graph: Graph) -> None:
    program = program_of(plan_of(graph))
    frame = Frame(program)
    sources, written = frame.patches.reshape(-1, 2).T // 8
    moved = [to for moves in frame.moves for to in moves.reshape(-1, 2).T[1] // 8]
    fixed = [w for words in frame.fixed.values() for w in words]
    kernels = [word for word, _ in frame.kernels]
    at = [*written, *moved, *frame.sized[0], *frame.slots[0], *fixed, *frame.constants[0], *frame.links[0], *kernels]
    assert len(set(at)) == len(at) and set(sources) <= set(frame.addresses.values())
    assert frame.table <= min(at) and max(at) < frame.status < frame.length
    assert all(word < frame.length for word in frame.links[1])


def test_a_table_of_loops() -> None:
    """Rows lead where they should: a loop back to its first step, out of it, and into one branch."""
    text = """
def f(i: i32, n: f32, x: f32[m]) -> (f32[m]):
    def body0(n: f32, i: i32, x: f32[m]) -> (bool):
        v3 = reduce_sum(x, axes=(0,))
        v4 = lt(v3, n)
        return (v4,)
    def body1(i: i32, x: f32[m]) -> (i32, f32[m]):
        def body0(x: f32[m]) -> (f32[m]):
            v1 = exp(x)
            return (v1,)
        def body1(x: f32[m]) -> (f32[m]):
            v1 = neg(x)
            return (v1,)
        v2 = switch(i, x, branches=(body0, body1))
        v3 = add(i, i)
        return (v3, v2)
    v3_0, v3_1 = while_loop(n, i, x, condition=body0, body=body1, condition_captured=1, body_captured=0, index='',
                              most=0)
    return (v3_1,)
"""
    rows = rows_of(program_of(plan_of(parse(text))))
    codes = [row.opcode if isinstance(row, Control) else 0 for row in rows]
    begin, test, select, end = (codes.index(code) for code in (BEGIN, TEST, SELECT, END))
    assert 0 == begin < test < select < end == len(codes) - 2 and codes[-1] == EXIT
    assert codes[1:test] == [0] * (test - 1) and test > 1, "the condition's launches"
    jumps = [number for number, code in enumerate(codes) if code == JUMP]

    def targets(number: int) -> tuple[int, ...]:
        row = rows[number]
        assert isinstance(row, Control)
        return row.targets

    assert targets(begin) == targets(test) == (end + 1,) and targets(end) == (1,)
    assert targets(select) == (select + 1, jumps[0] + 1) and targets(jumps[0]) == targets(jumps[1]) == (jumps[1] + 1,)


@pytest.mark.timing
def test_a_step_of_a_loop_costs_nanoseconds_and_none_compiles() -> None:
    """The time that native code adds to a launch; the bound is far above the usual time, for busy machines."""
    graph = parse("""
def f(x: f64, xs: f64[n]) -> (f64):
    def body0(x: f64, y: f64) -> (f64):
        v2 = add(x, y)
        return (v2,)
    v2 = scan(x, xs, body=body0, length=n, captured=0, carried=1, reverse=False, index='')
    return (v2,)
""")
    executable = compiled(graph, "cpu")
    call(executable, graph, [np.zeros(()), np.ones(1)])
    kernels, steps = linked_count(), 200_000
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        (found,) = call(executable, graph, [np.zeros(()), np.ones(steps)])
        times.append(time.perf_counter() - begun)
    assert found == steps and linked_count() == kernels
    assert min(times) / steps < 5e-7


def test_host_calls_cut_a_program_into_segments(capfd: Any) -> None:
    def shows(x: Any) -> Any:
        zenith.debug.print("first {}", x)
        y = np.tanh(x)
        zenith.debug.print("then {} {}", y, x)
        zenith.debug.print("{}", y[:0])
        return np.sum(y)

    function = zenith.jit(shows)
    for size in (2, 1, 3):
        assert function(np.zeros((size, 2), np.float32)) == 0
    assert capfd.readouterr().out.startswith(
        "first [[0. 0.]\n [0. 0.]]\nthen [[0. 0.]\n [0. 0.]] [[0. 0.]\n [0. 0.]]\n[]\n"
    )
    program = function.explain().specializations[0].executable.program
    found = segments(program)
    assert found[0] == Run(0, 0) and [type(p) for p in found[1:3]] == [int, Run]
    runs = [item for item in found if isinstance(item, Run)]
    assert [r.first for r in runs[1:]] == [r.last for r in runs[:-1]] and runs[-1].last == len(program.launches)


def test_the_plan_shows_the_launches_of_the_driver() -> None:
    function = zenith.jit(lambda x: x / np.sum(x, axis=-1, keepdims=True))
    function(np.ones((2, 3), np.float32))
    (launch,) = function.explain().specializations[0].executable.program.launches
    text = function.show("plan")
    assert f"    0 {launch.kernel.name}(x, result0, x1)" in text and "in chunks of max(1, 100000 // " in text


def test_a_program_of_nothing() -> None:
    graph = parse("def f() -> ():\n    return ()")
    assert compiled(graph, "cpu").run([], [], bind_sizes(graph, [], {}), NUMPY) == []
