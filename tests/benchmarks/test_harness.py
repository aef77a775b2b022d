"""The harness measures contenders with right results, and names the others with the reason."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from benchmarks import harness, readme, report, sheets, worker
from benchmarks.contenders import CONTENDERS
from benchmarks.settings import Settings
from benchmarks.workloads import WORKLOADS

FAKES = "tests.benchmarks.fakes"
FAST = Settings(processes=2, rounds=2, round_s=0.001, warm_up_s=0.001, settle_s=0.0, threads=1, timeout_s=300)


@pytest.fixture(scope="module")
def document():
    names = [
        "numpy",
        *(f"{FAKES}:{fake}" for fake in ("PRINTING", "SAVING", "ABSENT", "WRONG", "RAISING", "DYING", "CHOOSY")),
    ]
    return harness.measure(WORKLOADS["tiny_call"], names, FAST)


def record(document, name):
    return document["contenders"][name if name == "numpy" else f"{FAKES}:{name}"]


@pytest.mark.parametrize("name", ["numpy", "PRINTING", "SAVING"])
def test_a_right_contender_is_measured(document, name):
    measured = record(document, name)
    assert 0 < measured["min_s"] <= measured["q1_s"] <= measured["median_s"] <= measured["q3_s"]
    assert measured["passes"] >= 1
    assert measured["error"] <= document["bound"]
    assert measured["cold"].keys() == measured["warm"].keys() == {"import_s", "first_call_s"}


def test_who_can_save_starts_from_the_file_too(document):
    saved = record(document, "SAVING")["saved"]
    assert saved.keys() == {"import_s", "first_call_s"} and saved["first_call_s"] > 0
    assert "saved" not in record(document, "numpy")
    (line,) = sheets.starts([document]).rows
    assert sorted(cell.count(", ") for cell in line[1:]) == [0, 0, 0, 0, 1, 1, 2]


def test_everybody_else_is_named_with_the_reason(document):
    assert record(document, "ABSENT") == {"missing": "no_such_library is not installed"}
    assert record(document, "RAISING") == {"failed": "RuntimeError: no kernel for this"}
    assert record(document, "DYING") == {"failed": "the process ended with status 7"}
    assert record(document, "CHOOSY") == {"declined": "it is too small for me"}
    assert record(document, "WRONG")["refused"].startswith("error 1.0e-03 to float64")


def test_a_silent_contender_is_given_up():
    hasty = Settings(processes=1, rounds=1, timeout_s=0.0)
    found = harness.measure(WORKLOADS["tiny_call"], ["numpy"], hasty)["contenders"]["numpy"]
    assert found == {"failed": "no answer within 0 s"}


def test_the_document_says_where_and_when(document):
    assert json.loads(json.dumps(document)) == document
    assert document["machine"]["cores"] >= 1
    assert document["versions"]["numpy"]
    assert document["date"].startswith("20")


def test_a_pass_of_many_calls_is_timed_call_by_call(tmp_path):
    """The results of the checked batches are stored."""
    batches = [(np.full(size, size),) for size in (3, 1, 2)]
    running = worker.Running(CONTENDERS["numpy"], lambda x: x + 1, batches, checked=(0, 2))
    assert len(running.results(str(tmp_path / "results.npz"))) == len(running.passes(1)) == 3
    with np.load(tmp_path / "results.npz") as stored:
        assert [stored[name].tolist() for name in stored.files] == [[4, 4, 4], [3, 3]]


def test_changing_sizes_are_reported():
    calls = {"first_s": [0.1, 0.9, 0.3], "median_s": [0.1, 0.2, 0.3]}
    record = {"calls": calls, "facts": {"compilations": 2}, "median_s": 0.5}
    document = {"workload": "w", "sentences": 5, "sizes": [1, 2, 3], "contenders": {"numpy": record}}
    assert sheets.changing_sizes([document]).rows == [("w", "numpy", "2", "700 ms", "1.0000", "10")]


def test_reports_name_every_contender(document):
    terminal = Console(width=200, file=io.StringIO(), record=True)
    terminal.print(*report.terminal([document]))
    texts = [terminal.export_text(), readme.summary([document]), readme.details([document])]
    for text in texts:
        assert all(name in text for name in document["contenders"])
        assert "no_such_library is not installed" in text
        assert "it is too small for me" in text


def test_zenith_is_compared_with_every_peer(document):
    ratio = {"median": 2.0, "low": 1.9, "high": 2.2}
    (row,) = sheets.ratios([document | {"zenith_over": {"numpy": {"zenith jit": ratio}}}]).rows
    assert row[:3] == ("tiny_call", "zenith jit", "2.00x")


def test_a_plot_is_drawn(document, tmp_path):
    ratio = {"median": 2.0, "low": 1.9, "high": 2.2}
    report.plot([document | {"speedups": {"numpy": ratio}}], tmp_path / "plot.svg")
    assert "</svg>" in (tmp_path / "plot.svg").read_text()
