"""CONTRIBUTING's recipes for a primitive and for a backend are followed to the letter, in a copy of the project."""

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


BACKEND = """\
import sys
import numpy as np
import zenith

assert not {"numba", "zenith.backends.python.executable"} & sys.modules.keys()
compiled = zenith.jit(lambda x: np.exp(x - x.max(-1, keepdims=True)).sum(-1), backend="python")
x = np.linspace(-1, 1, 12).reshape(3, 4)
np.testing.assert_allclose(compiled(x), np.exp(x - x.max(-1, keepdims=True)).sum(-1), rtol=1e-14)
assert "for " in compiled.show("kernels")
assert zenith.jit(zenith.grad(lambda x: np.sum(np.tanh(x))), backend="python")(x).shape == x.shape
try:
    zenith.jit(np.sin, backend="pyton")
except zenith.ZenithError as error:
    assert "python" in str(error)
try:
    compiled.save("never.zenith")
except zenith.ZenithError as error:
    assert "is not compiled" in str(error)
print("followed")
"""


def _blocks(title):
    """The Python of a recipe, in order."""
    recipes = (ROOT / "CONTRIBUTING.md").read_text().split("## Recipe: ")
    (text,) = [r for r in recipes if r.startswith(title)]
    return [textwrap.dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", text, re.M | re.S)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project with the recipe's lines inserted."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("zenith", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    record, line = _blocks("add a primitive")
    chapter, front = folder / "zenith/ir/ops/elementwise.py", folder / "zenith/numpy/elementwise.py"
    before = 'unary("neg", '
    chapter.write_text(chapter.read_text().replace(before, record + before, 1))
    text, replaced = re.subn(r"^square = .*\n", lambda match: line, front.read_text(), flags=re.M)
    assert replaced == 1
    front.write_text(text)
    _add_backend(folder / "zenith/backends")
    return folder


def _add_backend(backends):
    """The folder of the recipe's backend and its line."""
    record, executable = _blocks("add a backend")
    (backends / "python").mkdir()
    (backends / "python/__init__.py").write_text('"""Kernels as plain Python."""\n')
    (backends / "python/backend.py").write_text(record)
    (backends / "python/executable.py").write_text(executable)
    table = backends / "table.py"
    before, line = "from zenith.backends.reference.backend import REFERENCE\n", "(CPU, CUDA, LANES, REFERENCE)"
    text = table.read_text().replace(before, "from zenith.backends.python.backend import PYTHON\n" + before)
    assert line in text
    table.write_text(text.replace(line, "(CPU, CUDA, LANES, REFERENCE, PYTHON)"))


def _run(folder, *command):
    done = subprocess.run([sys.executable, *command], cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)},
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_backend_runs_programs_and_is_listed(copy):
    assert _run(copy, "-c", BACKEND).endswith("followed\n")


def test_the_primitive_is_there_for_every_element_type(copy):
    assert _run(copy, "-c", CHECK) == "followed\n"


@pytest.mark.thorough
def test_the_tests_that_read_the_registry_pass(copy):
    chosen = ("tests/ir", "tests/numpy/test_elementwise.py", "tests/backends/test_registry.py")
    assert " passed" in _run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "square", *chosen)
