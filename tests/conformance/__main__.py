"""Runs the array API standard's test suite on ``zenith.numpy``, compiled, and on NumPy, and stores the outcomes.

    python -m tests.conformance SUITE [--examples N] [--workers N]

SUITE is a checkout of https://github.com/data-apis/array-api-tests with its submodule; `make conformance` gets one.
Tests that made no compiled call (they test NumPy's arrays and operators) are counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import describe

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "conformance.json"
MODULES = {"zenith": "tests.conformance.jitted", "numpy": "numpy"}


def run(suite: Path, module: str, examples: int, workers: int) -> dict[str, dict[str, Any]]:
    """The outcome of each test of the suite, and whether it made compiled calls."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            **os.environ, "ARRAY_API_TESTS_MODULE": module, "ARRAY_API_TESTS_VERSION": "2024.12",
            "PYTHONPATH": str(ROOT), "ZENITH_CONFORMANCE": folder,
        }  # fmt: skip
        command = [
            sys.executable, "-m", "pytest", "-q", "array_api_tests", "-p", "tests.conformance.outcomes", "-p",
            "no:cacheprovider", "--disable-deadline", "--derandomize", "--max-examples", str(examples),
            "--numprocesses", str(workers), "-W", "ignore", "--tb", "line",
        ]  # fmt: skip
        subprocess.run(command, cwd=suite, env=variables, check=False)
        found: dict[str, dict[str, Any]] = {}
        for path in Path(folder).glob("*.jsonl"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                found[record.pop("test")] = record
    return dict(sorted(found.items()))


def summary(tests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Counts, and the names of what failed."""
    ran = {name: t for name, t in tests.items() if t["outcome"] in ("passed", "failed")}
    entered = {name: t for name, t in ran.items() if t["calls"]}
    return {
        "run": len(ran),
        "passed": sum(t["outcome"] == "passed" for t in ran.values()),
        "entered": len(entered),
        "entered and passed": sum(t["outcome"] == "passed" for t in entered.values()),
        "failed": [name for name, t in ran.items() if t["outcome"] == "failed"],
    }


def main() -> int:
    """Run, store, print; the exit status says whether Zenith passes as many tests as NumPy."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=options.suite, capture_output=True, text=True, check=True)
    results = {name: summary(run(options.suite, module, options.examples, options.workers))
               for name, module in MODULES.items()}  # fmt: skip
    record = {
        "standard": "2024.12", "suite": commit.stdout.strip(), "examples": options.examples,
        "machine": describe(["numpy", "hypothesis"]), "results": results,
    }  # fmt: skip
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    for name, found in results.items():
        print(name, {k: v for k, v in found.items() if k != "failed"}, *found["failed"], sep="\n  ")
    ran = min(found["run"] for found in results.values())
    return ran < 1000 or results["zenith"]["passed"] < results["numpy"]["passed"]


if __name__ == "__main__":
    sys.exit(main())
