"""CUDA sources: readable (a golden file; ``ZENITH_RENEW=1`` writes it anew) and right in plain Python."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.backends.cuda.grid import run_grid
from tests.backends.cuda.programs import PROGRAMS, graph, kernels
from tests.passes.compare import program
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.emit import LanesPrinter
from zenith.backends.lower.groups import lower_group
from zenith.backends.scalars import LANES_NAMESPACE
from zenith.errors import UnsupportedError
from zenith.ir.dims import symbol
from zenith.ir.interpret import interpret
from zenith.passes.pipeline import run

GOLDEN = Path(__file__).with_name("kernels.txt")
SIZES = {"n": 3, "m": 37, "k": 5}
EVEN = {"n": 2, "m": 72, "k": 5}  # what the wide form needs of sizes
WAYS = [(on_lanes, SIZES), (on_grid, SIZES), (on_two_warps, SIZES), (in_the_widest_form, EVEN)]


def arguments(name):
    """Arrays for a program's inputs; indices are in bounds."""
    rng = np.random.default_rng(7)
    made = []
    for value in graph(name).inputs:
        shape = [s.evaluate(SIZES) for s in value.shape]
        if value.dtype.kind == "f":
            made.append(rng.uniform(-3, 3, shape).astype(value.dtype.numpy))
        else:
            made.append(rng.integers(0, 2 if value.dtype.kind == "b" else 3, shape).astype(value.dtype.numpy))
    return made


def run_program(name, run_kernel, args):
    """A program's results, kernel by kernel in its plan's order, and the status word."""
    fused, _ = run(graph(name))
    memory = {(v.node, 0): np.ascontiguousarray(a).reshape(-1) for v, a in zip(fused.inputs, args, strict=True)}
    status = 0
    for number, node in fused.nodes():
        if node.primitive.name != "fused":
            continue
        body = node.params["body"]
        bound = {body.node(v.node).params["name"]: memory[a.node, a.output]
                 for v, a in zip(body.inputs, fused.args(number), strict=True)}  # fmt: skip
        for i, kind in enumerate(node.types):
            bound[f"out{i}"] = memory[number, i] = np.zeros(kind.size.evaluate(SIZES), kind.dtype.numpy)
        lowered = lower_group(body, node.params["anchor"], cpu_target())
        (kernel,) = lowered.kernels
        bound.update({b.name: np.zeros(b.size.evaluate(SIZES), b.dtype.numpy) for b in lowered.temporaries})
        buffers = [bound[b.name] for b in kernel.buffers]
        status |= run_kernel(kernel, kernel.tasks.evaluate(SIZES), buffers, [SIZES[s] for s in kernel.sizes])
    shapes = [tuple(s.evaluate(SIZES) for s in v.shape) for v in fused.outputs]
    return [memory[v.node, v.output].reshape(s) for v, s in zip(fused.outputs, shapes, strict=True)], status


def on_lanes(kernel, tasks, buffers, sizes):
    scope, status = dict(LANES_NAMESPACE), [0]
    exec(LanesPrinter().kernel(kernel), scope)
    with np.errstate(all="ignore"):
        scope[kernel.name](0, tasks, [status, *buffers, *sizes])
    return status[0]


def on_grid(kernel, tasks, buffers, sizes):
    return run_grid(kernel, tasks, buffers, sizes)


def on_two_warps(kernel, tasks, buffers, sizes):
    return run_grid(kernel, tasks, buffers, sizes, team=64)


def in_the_widest_form(kernel, tasks, buffers, sizes):
    return run_grid(kernel, tasks, buffers, sizes, form=forms(kernel)[-1])


@pytest.mark.parametrize("run_kernel", [on_lanes, on_grid])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, run_kernel):
    args = arguments(name)
    results, status = run_program(name, run_kernel, args)
    assert status == 0
    for got, wanted in zip(results, interpret(graph(name), *args, sizes=SIZES), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=3e-6 if got.dtype.kind == "f" else 0, atol=1e-6)


def test_an_index_out_of_bounds_sets_the_status_word():
    x, index = arguments("taken")
    index[2] = 3
    assert run_program("taken", on_grid, [x, index])[1] == 1


def test_the_sources_are_the_golden_ones():
    text = "\n".join(CudaPrinter().kernel(k) for name in ("chain", "taken", "softmax") for k in kernels(name))
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
    printed = CudaPrinter().size(at)
    assert printed == text
    scope = {"u32": np.uint32, "i64": np.int64, "i": np.uint32(5), "n": np.uint32(11)}
    with np.errstate(all="ignore"):
        assert int(eval(printed, scope)) == at.evaluate({"i": 5, "n": 11})


@pytest.mark.parametrize(
    ("signature", "operation"),
    [
        ("x: f32[n, 8], y: f32[8, m]", "matmul(x, y)"),
        ("q: f32[n, 8], k: f32[m, 8]", "attention(q, k, k, scale=0.5, causal=False, mask='none', empty=0.0)"),
    ],
)
def test_products_and_attention_are_refused(signature, operation):
    fused, _ = run(program(signature, f"v1 = {operation}\nreturn (v1,)"))
    (params,) = [node.params for _, node in fused.nodes() if node.primitive.name == "fused"]
    kernel = lower_group(params["body"], params["anchor"], cpu_target("portable")).kernels[-1]
    with pytest.raises(UnsupportedError, match="has no CUDA form: matrix products and attention run on the CPU only"):
        CudaPrinter().kernel(kernel)
