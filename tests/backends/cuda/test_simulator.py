"""A small set of printed kernels on Numba's own simulator of CUDA, next to our grid of threads: values and status."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tests.backends.cuda.programs import graph, kernels, plan_of_program
from tests.backends.cuda.test_emit import EVEN, SIZES, arguments
from zenith.backends.cuda.compile import available
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.forms import block_threads, forms, is_block, is_team
from zenith.backends.cuda.launch import parameters
from zenith.backends.steps import walk
from zenith.ir.interpret import interpret

pytestmark = pytest.mark.skipif(not available(), reason="numba-cuda is not installed")

PROGRAMS = ("chain", "scalars", "padded", "taken", "words", "product")
THREADS, BLOCKS = 8, 2  # few, so that each thread walks several tasks


def program(name, widest, args, sizes):
    """A program's memory by the names of allocations, and its launches on it."""
    plan = plan_of_program(name)
    memory = {"status": np.zeros(1, np.int64)} | {n: a.ravel() for n, a in zip(plan.inputs, args, strict=True)}
    launches = []
    for launch in walk(plan.steps):
        kernel, form = launch.kernel, forms(launch.kernel)[-1 if widest else 0]
        for b, allocation in zip(kernel.buffers, launch.allocations, strict=True):
            memory.setdefault(allocation.name, np.zeros(b.size.evaluate(sizes), b.dtype.numpy))
        tasks = kernel.tasks.evaluate(sizes)
        given = {n: np.uint32(sizes[n]) for n in kernel.sizes} | {"status": "status"}
        given["tasks"] = np.uint32(tasks if is_team(kernel) else tasks // form.width)
        given |= {b.name: allocation.name for b, allocation in zip(kernel.buffers, launch.allocations, strict=True)}
        source, threads = CudaPrinter(form).kernel(kernel), block_threads(kernel) if is_block(kernel) else THREADS
        launches.append((kernel.name, source, BLOCKS, threads, [given[p] for p in parameters(kernel)]))
    return memory, launches


def simulated(programs):
    """The memories of programs after all ran in one process on the simulator."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.backends.cuda.simulated"], env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        input=pickle.dumps(programs), capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr.decode()
    return pickle.loads(process.stdout)


@pytest.mark.thorough
def test_values():
    """Elementwise kernels with integers and bools, a gather, a product in shared memory: in both forms."""
    runs = [(name, widest, EVEN if widest else SIZES) for name in PROGRAMS for widest in (False, True)]
    args = [arguments(name, sizes) for name, _, sizes in runs]
    memories = simulated([program(name, widest, a, n) for (name, widest, n), a in zip(runs, args, strict=True)])
    for (name, _, sizes), arrays, memory in zip(runs, args, memories, strict=True):
        assert memory["status"][0] == 0
        outputs = [n for n, _ in plan_of_program(name).outputs]
        for output, wanted in zip(outputs, interpret(graph(name), *arrays, sizes=sizes), strict=True):
            got = memory[output].reshape(wanted.shape)
            assert got.dtype == wanted.dtype
            rtol = 3e-6 if got.dtype.kind == "f" else 0
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=2e-6, err_msg=name)


def test_wide_forms_are_among_them():
    assert any(forms(k)[-1].width > 1 for name in PROGRAMS for k in kernels(name))


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_index_out_of_bounds_is_clamped_and_reported(wrong):
    x, index = arguments("taken", SIZES)
    index[2] = wrong
    (memory,) = simulated([program("taken", False, [x, index], SIZES)])
    assert memory["status"][0] == 1
    index[2] = 0 if wrong < 0 else 2
    np.testing.assert_allclose(memory["result0"].reshape(5, 37), np.exp(x[index]), rtol=3e-6)
