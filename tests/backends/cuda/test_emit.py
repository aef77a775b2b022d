"""CUDA sources: readable (a golden file; ``ZENITH_RENEW=1`` writes it anew) and right in plain Python."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from tests.backends.cuda.grid import GridExecutable
from tests.backends.cuda.programs import PROGRAMS, graph, kernels, plan_of_program
from tests.backends.running import call
from tests.sampling import leave
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.cuda.barriers import Barriers
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.forms import forms
from zenith.backends.cuda.index import Indices
from zenith.backends.expressions import Load, Number
from zenith.backends.kernel import Let, Store
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.lower.engine_table import lower_group
from zenith.backends.weights import WeightTable
from zenith.errors import OutOfBoundsError, UnsupportedError
from zenith.ir.dims import dim, symbol
from zenith.ir.interpret import interpret
from zenith.ir.types import float32
from zenith.passes.pipeline import run

GOLDEN = Path(__file__).with_name("kernels.txt")
SIZES = {"n": 3, "m": 37, "k": 5}
EVEN = {"n": 4, "m": 48, "k": 4}  # sizes that wide forms need
EXECUTABLES = {
    "lanes": (SIZES, lambda plan, weights: LanesExecutable(plan, TILE_FUNCTIONS, weights)),
    "grid": (SIZES, GridExecutable),
    "teams of two warps": (SIZES, lambda plan, weights: GridExecutable(plan, weights, team=64)),
    "widest": (EVEN, lambda plan, weights: GridExecutable(plan, weights, widest=True)),
}


def arguments(name, sizes):
    """Arrays for a program's inputs; indices are in bounds."""
    rng = np.random.default_rng(7)
    made = []
    for value in graph(name).inputs:
        shape = [s.evaluate(sizes) for s in value.shape]
        if value.dtype.kind == "f":
            made.append(rng.uniform(-3, 3, shape).astype(value.dtype.numpy))
        else:
            made.append(rng.integers(0, 2, shape).astype(value.dtype.numpy))
    return made


# These run for long thread by thread: one executable of that kind each.
LONG = {"attended": "grid", "attended backward": "grid", "product": "widest", "sorted": "teams of two warps"}


@pytest.mark.parametrize(("name", "executable"), leave(
    lambda case: case[1] not in ("lanes", LONG.get(case[0], case[1])), itertools.product(PROGRAMS, EXECUTABLES)
))  # fmt: skip
def test_values(name, executable):
    sizes, make = EXECUTABLES[executable]
    source, args = graph(name), arguments(name, sizes)
    results = call(make(plan_of_program(name), WeightTable.of(source)), source, args)
    for got, wanted in zip(results, interpret(source, *args, sizes=sizes), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=3e-6 if got.dtype.kind == "f" else 0, atol=2e-6)


def test_an_index_out_of_bounds_sets_the_status_word():
    x, index = arguments("taken", SIZES)
    index[2] = 3
    with pytest.raises(OutOfBoundsError):
        call(GridExecutable(plan_of_program("taken"), WeightTable.of(graph("taken"))), graph("taken"), [x, index])


def test_the_sources_are_the_golden_ones():
    text = "\n".join(
        CudaPrinter(form).kernel(k)
        for name in ("chain", "taken", "softmax", "product", "attended")
        for k in kernels(name)
        for form in forms(k)
    )
    if os.environ.get("ZENITH_RENEW") == "1":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "renew the file with ZENITH_RENEW=1 if this is meant"


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (symbol("i"), "i"),
        (symbol("i") * 0 + 7, "7"),
        (symbol("n") - symbol("i") - 1, "u32(0 - i + n - 1)"),
        (symbol("i") // symbol("n") * 4, "u32(4 * (i // n))"),
        ((symbol("i") - 1) // 4, "u32(u32(((i64(i) - 1) // i64(4))))"),
    ],
)
def test_index_expressions(at, text):
    printed = Indices().text(at)
    assert printed == text
    scope = {"u32": np.uint32, "i64": np.int64, "i": np.uint32(5), "n": np.uint32(11)}
    with np.errstate(all="ignore"):
        assert int(eval(printed, scope)) == at.evaluate({"i": 5, "n": 11})


@pytest.mark.parametrize("name", ["product", "attended"])
def test_tiles_of_the_cpu_are_refused(name):
    fused, _ = run(graph(name))
    (params,) = [node.params for _, node in fused.nodes() if node.primitive.name == "fused"]
    kernel = lower_group(params["body"], params["anchor"], cpu_target("portable")).kernels[-1]
    with pytest.raises(UnsupportedError, match="has no CUDA form: it was written for the CPU"):
        CudaPrinter().kernel(kernel)


def test_a_barrier_follows_a_loop_that_may_have_no_iteration():
    """Stores before such a loop are read after it: without keys attention has zeros, of other threads."""
    source, args = graph("attended"), arguments("attended", SIZES | {"m": 0})
    results = call(GridExecutable(plan_of_program("attended"), WeightTable.of(source)), source, args)
    np.testing.assert_array_equal(results[0], np.zeros((3, 16), np.float32))
    (kernel,) = kernels("attended")
    lines = [line.strip() for line in CudaPrinter().kernel(kernel).splitlines()]
    last_iteration = max(i for i, line in enumerate(lines) if line.startswith("block") and "+ 1)" in line)
    after = lines[last_iteration + 1 :]
    assert "cuda.syncthreads()" in after[: next(i for i, line in enumerate(after) if "total[" in line)]


def test_branches_start_from_the_state_before_them():
    barriers = Barriers({"a"})
    store = Store("a", dim(0), Number(0.0, float32))
    load = Let("x", Load("a", dim(0), float32))
    assert not barriers.is_needed((store,))
    barriers.note((store,))
    before = barriers.since
    assert barriers.is_needed((load,))
    assert barriers.barrier("64") == ["cuda.syncthreads()"] and not barriers.is_needed((load,))
    barriers.since = before
    assert barriers.is_needed((load,)), "the barrier of one case is not in another"
