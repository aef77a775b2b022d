"""The log says what was compiled, why and from where, and costs nothing where nobody listens."""

import logging

import numpy as np
import pytest

import zenith

X = np.ones((3, 4), np.float32)


def lines(caplog: pytest.LogCaptureFixture, logger: str = "zenith") -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger]


def test_each_program_has_a_line_with_its_reason(caplog):
    @zenith.jit(backend="lanes")
    def halves(x):
        return x[: x.shape[0] // 2] * 2 if x.shape[0] > 2 else x

    with caplog.at_level(logging.INFO, "zenith"):
        halves(X), halves(X), halves(X.astype(np.float64)), halves(X[:2])
    first, second, third = lines(caplog)
    assert first.startswith("halves for (x: numpy f32[_, _]): compiled in ") and first.endswith("; first call")
    assert second.endswith("new: x: numpy f64[_, _]")
    assert "x0 >= 3 is assumed at test_log.py:" in third and third.endswith("which is false here")
    assert not lines(caplog, "zenith.passes")
    reasons = [miss.reason for miss in halves.cache_info().reasons]
    assert all(line.endswith(reason) for line, reason in zip(lines(caplog), reasons, strict=True))


def test_programs_of_the_cache_and_of_files(caplog, tmp_path):
    def of_the_log(x):
        return np.exp(x) * 0.71875

    with caplog.at_level(logging.INFO, "zenith"):
        zenith.jit(of_the_log)(X)
        again = zenith.jit(of_the_log)
        again(X)
        again.save(tmp_path / "program.zenith")
        zenith.load(tmp_path / "program.zenith")
    compiled, cached, loaded = lines(caplog)
    assert "compiled in" in compiled and ", 1 kernel; first call" in compiled
    assert "read from the cache on disk in" in cached and ", 1 kernel; first call" in cached
    assert f"loaded from {tmp_path / 'program.zenith'} in" in loaded


def test_passes_are_for_debugging(caplog):
    def tanh(x):
        return np.tanh(x)

    with caplog.at_level(logging.DEBUG, "zenith"):
        compiled = zenith.jit(tanh, backend="lanes")
        compiled(X)
    reports = compiled._specializer.latest.executable.report.passes
    assert lines(caplog, "zenith.passes") == [f"tanh: {report}" for report in reports] and len(reports) > 20


def test_nothing_is_written_where_nobody_listens(caplog, capfd):
    with caplog.at_level(logging.CRITICAL, "zenith"):
        zenith.jit(lambda x: x + 1, backend="lanes")(X)
    assert not caplog.records and capfd.readouterr() == ("", "")
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("zenith").handlers)


def test_programs_of_torch(caplog):
    torch = pytest.importorskip("torch")
    with caplog.at_level(logging.INFO, "zenith"), torch.no_grad():
        zenith.from_torch(torch.nn.Linear(4, 2), (torch.zeros(3, 4),))(torch.zeros(3, 4))
        torch.compile(lambda x: x * 3, backend="zenith")(torch.zeros(3))
    module, graph = lines(caplog)
    assert module.startswith("Linear for (") and module.endswith("; first call")
    assert graph.startswith("graph_") and ("compiled in" in graph or "read from" in graph)
