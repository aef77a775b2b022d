"""The driver: one table of launches for every program, cut by host calls, filled again only when sizes change."""

from __future__ import annotations

from typing import Any

import numpy as np

import zenith
from tests.backends.cpu.test_executable import MIXED, _mixed_args
from tests.backends.running import call, check, compiled, plan_of
from zenith.arrays import NUMPY
from zenith.backends.cpu.driver import Frame, Run, segments
from zenith.backends.cpu.program import program_of
from zenith.ir.interpret import bind_sizes
from zenith.ir.text import parse


def test_sizes_are_computed_again_only_when_they_change() -> None:
    executable, calls = compiled(MIXED, "cpu"), []
    sizes = executable.frame.sizes
    executable.frame.sizes = lambda *values: calls.append(values) or sizes(*values)
    for rows, columns in ((3, 4), (3, 4), (3, 4), (300, 4), (300, 4), (3, 4)):
        args = _mixed_args(rows, columns)
        check(call(executable, MIXED, args), MIXED, args)
    assert len(calls) == 3


def test_launches_can_be_run_one_by_one() -> None:
    """As a profiler does it: the same table, the same results."""
    executable, args = compiled(MIXED, "cpu"), _mixed_args(20, 30)
    expected = [r.tobytes() for r in call(executable, MIXED, args)]
    assert len(executable.segments) == 1 < len(executable.program.launches)
    executable.segments = executable.single_steps()
    assert [r.tobytes() for r in call(executable, MIXED, args)] == expected


def test_no_two_uses_share_a_word() -> None:
    program = program_of(plan_of(MIXED))
    frame = Frame(program)
    sources, written = frame.patches.reshape(-1, 2).T // 8
    at = [*written, *frame.sized[0], *frame.slots[0], *(w for words in frame.fixed.values() for w in words)]
    assert len(set(at)) == len(at) and set(sources) <= set(frame.addresses.values())
    assert frame.table <= min(at) and max(at) < frame.status < frame.length


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
    parts = segments(program)
    assert parts[0] == Run(0, 0) and [type(p) for p in parts[1:3]] == [int, Run]
    runs = [part for part in parts if isinstance(part, Run)]
    assert [r.first for r in runs[1:]] == [r.last for r in runs[:-1]] and runs[-1].last == len(program.launches)


def test_the_plan_shows_what_the_driver_runs() -> None:
    function = zenith.jit(lambda x: x / np.sum(x, axis=-1, keepdims=True))
    function(np.ones((2, 3), np.float32))
    (launch,) = function.explain().specializations[0].executable.program.launches
    text = function.show("plan")
    assert f"    0 {launch.kernel.name}(x, result0, x1)" in text and "in chunks of max(1, 400000 // " in text


def test_a_program_of_nothing() -> None:
    graph = parse("def f() -> ():\n    return ()")
    assert compiled(graph, "cpu").run([], [], bind_sizes(graph, [], {}), NUMPY) == []
