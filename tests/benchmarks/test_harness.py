"""The harness measures whoever is right, and names everybody else with the reason."""

import io
import json

import pytest
from rich.console import Console

from benchmarks import harness, readme, report
from benchmarks.workloads import WORKLOADS

FAKES = "tests.benchmarks.fakes"
FAST = harness.Settings(processes=2, rounds=2, round_s=0.001, warm_up_s=0.001, settle_s=0.0, threads=1, timeout_s=60)


@pytest.fixture(scope="module")
def document():
    names = ["numpy", *(f"{FAKES}:{fake}" for fake in ("PRINTING", "ABSENT", "WRONG", "RAISING", "DYING"))]
    return harness.measure(WORKLOADS["tiny_call"], names, FAST)


def record(document, name):
    return document["contenders"][name if name == "numpy" else f"{FAKES}:{name}"]


@pytest.mark.parametrize("name", ["numpy", "PRINTING"])
def test_a_right_contender_is_measured(document, name):
    measured = record(document, name)
    assert 0 < measured["min_s"] <= measured["q1_s"] <= measured["median_s"] <= measured["q3_s"]
    assert measured["calls"] >= 1
    assert measured["error"] <= document["bound"]
    assert measured["cold"].keys() == {"import_s", "first_call_s"}


def test_everybody_else_is_named_with_the_reason(document):
    assert record(document, "ABSENT") == {"missing": "no_such_library is not installed"}
    assert record(document, "RAISING") == {"failed": "RuntimeError: no kernel for this"}
    assert record(document, "DYING") == {"failed": "the process ended with status 7"}
    assert record(document, "WRONG")["refused"].startswith("error 1.0e-03 to float64")


def test_a_silent_contender_is_given_up():
    hasty = harness.Settings(processes=1, rounds=1, timeout_s=0.0)
    found = harness.measure(WORKLOADS["tiny_call"], ["numpy"], hasty)["contenders"]["numpy"]
    assert found == {"failed": "no answer within 0 s"}


def test_the_document_says_where_and_when(document):
    assert json.loads(json.dumps(document)) == document
    assert document["machine"]["cores"] >= 1
    assert document["versions"]["numpy"]
    assert document["date"].startswith("20")


def test_reports_name_every_contender(document):
    terminal = Console(width=200, file=io.StringIO(), record=True)
    terminal.print(report.table([document]))
    text = terminal.export_text()
    table = readme.markdown([document])
    for name in document["contenders"]:
        assert name in text
        assert name in table
    assert "no_such_library is not installed" in text
    assert "no_such_library is not installed" in table


def test_a_plot_is_drawn(document, tmp_path):
    ratio = {"median": 2.0, "low": 1.9, "high": 2.2}
    report.plot([document | {"speedups": {"numpy": ratio}}], tmp_path / "plot.svg")
    assert "</svg>" in (tmp_path / "plot.svg").read_text()
