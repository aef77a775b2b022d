"""A pytest plugin: writes each test's outcome and its number of compiled calls, a file for each process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest


def _calls() -> int:
    jitted = sys.modules.get("tests.conformance.jitted")
    return 0 if jitted is None else int(jitted.calls)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    """Write the outcome of a test's call; a test that is skipped before it has none."""
    report = yield
    if report.when == "call":
        line = json.dumps({"test": item.nodeid, "outcome": report.outcome, "calls": _calls() - item.calls_before})
        with (Path(os.environ["ZENITH_CONFORMANCE"]) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(line + "\n")
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: Any) -> None:
    """Note how many calls were made before."""
    item.calls_before = _calls()
