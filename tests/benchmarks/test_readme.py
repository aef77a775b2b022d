"""README.md is true: its table is what the stored results say, and its examples run."""

import re
import runpy

import pytest

from benchmarks import readme, report

TEXT = readme.README.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_measurements_are_those_that_are_stored():
    documents = report.load()
    assert readme.renew(TEXT, documents) == TEXT, "run `python -m benchmarks.readme`"
    assert readme.details(documents) == readme.RESULTS.read_text(encoding="utf-8"), "run `python -m benchmarks.readme`"


def test_a_text_without_markers_is_refused():
    with pytest.raises(ValueError, match="markers"):
        readme.renew("no table here", [])


def test_there_are_examples():
    assert EXAMPLES


def test_the_examples_run(tmp_path):
    """Together, from the first to the last, in a file: functions are converted where their source is known."""
    file = tmp_path / "examples.py"
    file.write_text("\n".join(EXAMPLES), encoding="utf-8")
    runpy.run_path(str(file), run_name="readme")
