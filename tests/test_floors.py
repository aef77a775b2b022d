"""The lowest versions that are declared are those that `make test-min` installs."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_lowest_versions_are_those_that_are_tested():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    floors = dict(d.split(">=") for d in declared)
    pins = re.findall(r"^([\w-]+)==([\w.]+)$", (ROOT / "constraints-min.txt").read_text(), re.M)
    assert {name: re.sub(r"(\.0)+$", "", version) for name, version in pins} == floors


def test_make_installs_them():
    recipe = (ROOT / "Makefile").read_text().split("\ntest-min:", 1)[1].split("\n\n", 1)[0]
    assert "constraints-min.txt" in recipe and "pytest" in recipe
