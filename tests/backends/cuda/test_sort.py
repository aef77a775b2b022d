"""Sorting by blocks of threads: rows of a thread, of a block and of many blocks; values, machine code, launches."""

import numpy as np
import pytest

from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, compiled, plan_of
from tests.backends.sorting import expected, rows, sorting
from zenith.backends.cuda.compile import available, compile_forms
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.forms import is_block
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lower.order import gpu as gpu_sort
from zenith.backends.steps import walk
from zenith.backends.weights import WeightTable


@pytest.fixture
def small(monkeypatch):
    """Tiles of 256 elements: an element for each thread."""
    for name in ("EACH", "EACH_OF_8", "ITEMS_OF_SPLITS"):
        monkeypatch.setattr(gpu_sort, name, 1)


def check(program, graph, shapes):
    for shape in shapes:
        x = rows(graph.inputs[0].dtype.numpy, shape)
        for found, wanted in zip(call(program, graph, [x]), expected(graph, x), strict=True):
            assert found.tobytes() == wanted.tobytes(), shape


@pytest.mark.parametrize(
    ("dtype", "results", "descending"),
    [("f32", "v1, v2", False), ("bool", "v1, v2", True),
     *(pytest.param(*case, marks=pytest.mark.thorough)
       for case in (("f64", "v2", True), ("i16", "v1", True), ("i64", "v1", False)))],
)  # fmt: skip
@pytest.mark.usefixtures("small")
def test_values_on_lanes(dtype, results, descending):
    graph = sorting(dtype, results, descending)
    shapes = [(3, 5), (2, 17), (2, 256), (2, 257), (1, 700), (2, 0), (0, 300)]
    check(compiled(graph, "cuda on lanes"), graph, shapes)


@pytest.mark.usefixtures("small")
def test_more_chunks_than_values_of_a_digit():
    """Where chunks have no whole number of tiles, and a thread adds up the counts of several of them."""
    graph = sorting("bool", "v1, v2", False)
    check(compiled(graph, "cuda on lanes"), graph, [(1, 70_000)])


@pytest.mark.usefixtures("small")
def test_a_digit_that_all_share_moves_nothing():
    graph = sorting("i64", "v1, v2", False)
    x = np.random.default_rng(0).integers(0, 100, (1, 300))
    program = compiled(graph, "cuda on lanes")
    for found, wanted in zip(call(program, graph, [x]), expected(graph, x), strict=True):
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.thorough
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("dtype", "shape"), [("i32", (1, 40)), ("f32", (2, 100)), ("bool", (1, 300))])
def test_values_on_a_grid_of_threads(dtype, shape):
    graph = sorting(dtype, "v1, v2", False)
    check(GridExecutable(plan_of(graph, cuda_target()), WeightTable.of(graph)), graph, [shape])


def kernels(dtype, size, arch="sm_90a"):
    """The kernels of rows of a known length, each once."""
    steps = walk(plan_of(sorting(dtype, "v1, v2", False, f"n, {size}"), cuda_target(arch)).steps)
    return list({step.kernel.name: step.kernel for step in steps}.values())


def test_lengths_decide_whether_threads_or_blocks_sort_a_row():
    (thread,), (block,) = kernels("f32", 16), kernels("f32", 17)
    assert not is_block(thread) and is_block(block)
    assert len(kernels("f32", 2304)) == 1 and len(kernels("f32", 2305)) == 4
    assert len(kernels("f64", 1280)) == 1 and len(kernels("f64", 1281)) == 4


@pytest.mark.skipif(not available(), reason="the CUDA compiler is not installed")
@pytest.mark.parametrize(
    ("dtype", "size", "arch"),
    [("f32", 2000, "sm_90a"),
     *(pytest.param(d, n, a, marks=pytest.mark.thorough)
       for d in ("f32", "f64", "i32", "i64") for n in (16, 1000, 5000) for a in ("sm_75", "sm_80", "sm_90a"))],
)  # fmt: skip
def test_machine_code_needs_registers_and_48_kilobytes_alone(dtype, size, arch):
    for kernel in kernels(dtype, size, arch):
        for code in compile_forms(kernel, arch):
            found = resources(code.cubin)
            assert found.stack == 0 and found.shared <= 48 * 1024 and found.registers <= 128
