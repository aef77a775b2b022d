"""Kernels compile with a NumPy that has lost a function which Numba-CUDA declares."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zenith.backends.cuda.compile import available
from zenith.backends.cuda.numba_arrays import without_lost

ROOT = Path(__file__).parents[3]
SCRIPT = """\
import numba.np.arrayobj  # Numba's own, which asks for NumPy's version
import numpy as np
from tests.backends.cuda.programs import kernels
from zenith.backends.cuda.compile import compile_ptx

(kernel, *_) = kernels("columns")
vars(np).pop("row_stack", None)  # as NumPy 2.5 is
print(f".entry {kernel.name}" in compile_ptx(kernel), hasattr(np, "row_stack"))
"""


def test_declarations_of_functions_that_numpy_has_stay():
    source = "if new:\n    overload(np.no_such_stack)(impl_np_vstack)\noverload(np.vstack)(impl_np_vstack)\n"
    assert without_lost(source) == "if new:\n    pass\noverload(np.vstack)(impl_np_vstack)\n"


@pytest.mark.skipif(not available(), reason="the CUDA compiler is not installed")
def test_kernels_compile_without_row_stack():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
                          capture_output=True, text=True)  # fmt: skip
    assert (done.stdout.split(), done.returncode) == (["True", "False"], 0), done.stderr[-2000:]
