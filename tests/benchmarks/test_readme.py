"""README.md is true: what it and other documents say of measurements is what is stored, and its examples run."""

import re
import runpy

import pytest

from benchmarks import race, readme, report

TEXT = readme.README.read_text(encoding="utf-8")
QUICKSTART = readme.ROOT / "docs" / "quickstart.md"


@pytest.mark.parametrize("path", [readme.README, readme.TABLES, readme.CHART, readme.RESULTS], ids=lambda p: p.name)
def test_the_measurements_are_those_that_are_stored(path):
    assert readme.renewed(report.load())[path] == path.read_text(encoding="utf-8"), "run `python -m benchmarks.readme`"


def test_a_text_without_markers_is_refused(tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("no table here")
    monkeypatch.setattr(readme, "README", tmp_path / "README.md")
    with pytest.raises(ValueError, match="markers"):
        readme.renewed(report.load())


def test_the_race_is_with_the_fastest_peer_of_each_workload():
    over = {"jax": {"zenith jit": {"median": 3.0}, "zenith from_torch": {"median": 2.0}},
            "numpy": {"zenith jit": {"median": 0.75}, "zenith from_torch": {"median": 1.5}}}  # fmt: skip
    (row,) = race.rows([{"workload": "chain", "zenith_over": over}, {"workload": "alone", "zenith_over": {}}])
    assert row == race.Row("chain", "numpy", 1.5)


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 150


@pytest.mark.parametrize("path", [readme.README, QUICKSTART], ids=lambda p: p.name)
def test_the_examples_run(path, tmp_path):
    """Together, from the first to the last, in a file: functions are converted where their source is known."""
    examples = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 3
    file = tmp_path / "examples.py"
    file.write_text("\n".join(examples), encoding="utf-8")
    runpy.run_path(str(file), run_name="readme")
