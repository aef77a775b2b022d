"""The user's line is found, however the path leads to Zenith by which it was imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import zenith
from zenith.errors import is_library

ROOT = Path(zenith.__file__).parents[1]
SCRIPT = """\
import numpy as np
import zenith

def step(x):
    return x @ np.ones((5, 2))

try:
    zenith.jit(step)(np.ones((2, 3)))
except zenith.ZenithError as error:
    print(error.where)
"""


@pytest.mark.parametrize("path", ["links/../links", "linked", "."])
def test_the_path_of_the_import_does_not_matter(tmp_path, path):
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "zenith").symlink_to(ROOT / "zenith")
    (tmp_path / "linked").symlink_to(ROOT)
    (tmp_path / "script.py").write_text(SCRIPT)
    route = f"{ROOT}/tests/.." if path == "." else str(tmp_path / path)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": route},
                          capture_output=True, text=True)  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == ("script.py:5", 0), done.stderr


def test_which_files_are_libraries():
    inside = ROOT / "zenith" / "api" / "jit.py"
    for file in (inside, f"{ROOT}/tests/../zenith/errors.py", os.path.relpath(inside)):
        assert is_library(str(file))
    for file in (__file__, "<string>", "<stdin>", f"{ROOT}/zenith.py", f"{ROOT}/zenith_of_mine/x.py"):
        assert not is_library(str(file))
