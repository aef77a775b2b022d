"""Profiles: the launches of a call with their work, as a table, a plot and a trace; no other results than a call's."""

import itertools
import json

import numpy as np
import pytest

import zenith
import zenith.debug
from zenith.api import profile as profiles
from zenith.errors import UnsupportedError

X = np.linspace(-1, 1, 6000, dtype=np.float32).reshape(100, 60)


@pytest.fixture(autouse=True)
def measured_machine(monkeypatch):
    """A machine that is measured already, and few runs."""
    monkeypatch.setattr(profiles, "peak", lambda device=None: 1e11)
    monkeypatch.setattr(profiles, "bandwidth", lambda size, device=None: 1e10)
    monkeypatch.setattr(profiles, "SECONDS", 0.0)


def two_steps(x):
    return np.exp(x).T @ x + 1


def test_launches_are_those_of_the_plan_with_their_work():
    function = zenith.jit(two_steps)
    report = function.profile(X)
    costs = function.lower(X).cost_analysis().at({"x0": 100, "x1": 60})
    assert [p.kernel for p in report.launches] == [k.kernel for k in costs.kernels]
    assert [p.operations for p in report.launches] == [k.operations for k in costs.kernels]
    assert [p.bytes for p in report.launches] == [k.bytes_read + k.bytes_written for k in costs.kernels]
    for p in report.launches:
        assert p.seconds > 0 and p.gbs == pytest.approx(p.bytes / p.seconds / 1e9)
        assert p.share == pytest.approx(max(p.operations / 1e11, p.bytes / 1e10) / p.seconds)
    assert report.runs == profiles.RUNS[0] and report.seconds > 0 and function.cache_info().misses == 1


def test_the_table_has_the_users_lines():
    text = str(zenith.jit(two_steps).profile(X))
    assert "two_steps: a call takes" in text and "test_profile.py:" in text and "of the limit" in text


def test_plot_and_trace(tmp_path):
    report = zenith.jit(two_steps).profile(X)
    figure = report.plot()
    figure.savefig(tmp_path / "profile.png")
    assert len(figure.axes[0].containers) == 2
    report.to_chrome(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in spans] == [p.kernel for p in report.launches]
    assert all(a["ts"] + a["dur"] == pytest.approx(b["ts"]) for a, b in itertools.pairwise(spans))
    assert "two_steps" in spans[0]["args"]["lines"][0]


def test_roofline_and_memory(tmp_path):
    report = zenith.jit(two_steps).profile(X)
    figure = report.plot_roofline()
    figure.savefig(tmp_path / "roofline.png")
    (axes,) = figure.axes
    points = sorted(tuple(map(float, point)) for c in axes.collections for point in c.get_offsets())
    expected = sorted((p.operations / p.bytes, p.gflops) for p in report.launches if p.operations)
    np.testing.assert_allclose(points, expected)
    for line in axes.lines:
        x, y = (np.asarray(values) for values in line.get_data())
        np.testing.assert_allclose(y, np.minimum(1e11, 1e10 * x) / 1e9)
    figure = report.plot_memory()
    figure.savefig(tmp_path / "memory.png")
    arena, alive = figure.axes
    assert len(arena.patches) == len(report.memory) and list(alive.lines[0].get_ydata()) == pytest.approx(
        [count / 1024 for count in report.live]
    )


def test_memory_is_that_of_the_arena():
    function = zenith.jit(lambda x: np.cumsum(np.sort(np.exp(x) @ np.exp(x).T, axis=0), axis=1))
    report = function.profile(X)
    arena = function.lower(X).memory_analysis().at({"x0": 100, "x1": 60}).arena.evaluate({})
    assert report.memory and max(block.offset + block.bytes for block in report.memory) <= arena
    assert 0 < max(report.live) <= arena and len(report.live) == len(report.launches)


def test_what_needs_no_memory_lies_nowhere():
    """Few rows are sorted without a buffer that many would need."""
    report = zenith.jit(lambda x: np.sort(x, axis=1) @ x.T).profile(X)
    assert report.memory and all(block.bytes for block in report.memory)


def test_a_call_without_memory_or_operations_has_figures(tmp_path):
    report = zenith.jit(lambda x: x.T.copy()).profile(X)
    for figure in (report.plot(), report.plot_roofline(), report.plot_memory()):
        figure.savefig(tmp_path / "empty.png")
    assert report.live == (0,) * len(report.launches)


def test_host_calls_are_timed_too(capsys):
    def f(x):
        zenith.debug.print("{}", x[0, 0])
        return x + 1

    report = zenith.jit(f).profile(X)
    assert [p.kernel for p in report.launches if p.kernel == "debug_print"] and len(report.launches) >= 2
    assert capsys.readouterr().out


def test_running_step_by_step_gives_the_same_bits():
    function = zenith.jit(two_steps)
    expected = function(X)
    key, request = function._flatten((X,), {})
    program = function._specializer.match(key, request.leaves)
    seen = []

    def watch(steps):
        for step in steps:
            seen.append(step)
            yield step

    found = program.run([X], {"x0": 100, "x1": 60}, watch)
    np.testing.assert_array_equal(found, expected)
    assert len(seen) == 1 + len(program.executable.program.steps)


def test_only_compiled_functions_have_profiles():
    with pytest.raises(UnsupportedError, match=r"is not compiled(.|\n)*backend=\"cpu\""):
        zenith.jit(two_steps, backend="lanes").profile(X)


def test_the_machine_is_measured(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(profiles, "SECONDS", 0.0)
    monkeypatch.setattr(profiles, "PRODUCTS", ((64, 64, 64),))
    monkeypatch.setattr(profiles, "WORKING_SETS", (1 << 12, 1 << 16))
    for function in (profiles.peak, profiles._bandwidths):
        function.cache_clear()
    try:
        assert profiles.peak() > 1e6
        assert profiles.bandwidth(100) > 1e6 and profiles.bandwidth(1 << 30) == profiles._bandwidths(None)[-1]
    finally:
        for function in (profiles.peak, profiles._bandwidths):
            function.cache_clear()
