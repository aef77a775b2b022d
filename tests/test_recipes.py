"""CONTRIBUTING's recipe for a primitive is followed to the letter, in a copy of the project, and works."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECK = """\
import numpy as np
import zenith
from zenith.ir.primitive import get

assert get("square").doc == "The product of x with itself."
for dtype in "?bBiqefdFD":
    x = np.array([0, 1, 3]).astype(dtype)
    found, expected = zenith.jit(np.square, backend="reference")(x), np.square(x)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
floats = zenith.jit(np.square, backend="reference").lower(np.ones(3))
assert "= square(" in floats.as_text("graph")
np.testing.assert_array_equal(zenith.grad(lambda x: np.sum(np.square(x)))(np.arange(3.0)), [0, 2, 4])
np.testing.assert_array_equal(zenith.grad(lambda z: np.sum(np.real(np.square(z))))(np.array([1 + 2j])), [2 + 4j])
print("followed")
"""


def _blocks(title):
    """The Python of a recipe, in order."""
    recipes = (ROOT / "CONTRIBUTING.md").read_text().split("## Recipe: ")
    (text,) = [r for r in recipes if r.startswith(title)]
    return [textwrap.dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", text, re.M | re.S)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with the recipe's lines in their places."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("zenith", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    record, line = _blocks("add a primitive")
    chapter, front = folder / "zenith/ir/ops/elementwise.py", folder / "zenith/numpy/elementwise.py"
    before = 'unary("neg", '
    chapter.write_text(chapter.read_text().replace(before, record + before, 1))
    text, places = re.subn(r"^square = .*\n", lambda match: line, front.read_text(), flags=re.M)
    assert places == 1
    front.write_text(text)
    return folder


def _run(folder, *command):
    done = subprocess.run([sys.executable, *command], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_primitive_is_there_for_every_element_type(copy):
    assert _run(copy, "-c", CHECK) == "followed\n"


@pytest.mark.thorough
def test_the_tests_that_read_the_registry_pass(copy):
    chosen = ("tests/ir", "tests/numpy/test_elementwise.py", "tests/backends/test_registry.py")
    assert " passed" in _run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "square", *chosen)
