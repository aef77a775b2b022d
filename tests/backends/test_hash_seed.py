"""The texts of kernels are the same in every process, whatever order its sets have: they are keys of the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TEXTS = """
from tests.backends.running import plan_of
from tests.programs import random_program
from zenith.backends.cpu.texts import kernel_text
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.forms import forms
from zenith.backends.cuda.target import cuda_target
from zenith.backends.steps import LaunchStep, walk

for seed in range(20, 30):
    graph = random_program(seed, symbolic=False, stream="rows")[0]
    for step in walk(plan_of(graph).steps):
        if isinstance(step, LaunchStep):
            print(kernel_text(step.kernel)[0])
    for step in walk(plan_of(graph, cuda_target()).steps):
        if isinstance(step, LaunchStep):
            for form in forms(step.kernel):
                print(CudaPrinter(form).kernel(step.kernel))
"""


def test_texts_do_not_depend_on_the_order_of_sets() -> None:
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", TEXTS], stdout=subprocess.PIPE, text=True, cwd=root,
            env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(root)},
        )
        for seed in (1, 2, 3)
    ]  # fmt: skip
    one, *others = (process.communicate(timeout=500)[0] for process in started)
    assert all(process.returncode == 0 for process in started)
    assert len(one) > 100_000 and others == [one, one]
