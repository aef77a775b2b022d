"""Attention on tensor cores, forward and backward: values in the layout of the instructions, machine code, refusals."""

import itertools
import platform
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.backends.cpu.test_attention import KINDS
from tests.backends.cpu.test_attention_vjp import arguments, close, graph
from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, compiled, plan_of
from tests.sampling import leave
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.attention_schedules import attention_tile
from zenith.backends.cuda.compile import available, compile_kernel
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.forms import forms
from zenith.backends.cuda.launch import most_threads
from zenith.backends.cuda.schedules import CHIPS
from zenith.backends.cuda.shared import shared_bytes
from zenith.backends.cuda.target import cuda_target
from zenith.backends.kernel import walk
from zenith.backends.lower.attention.register_writer import padded
from zenith.backends.lower.engine_table import lower_group
from zenith.backends.steps import LaunchStep
from zenith.backends.steps import walk as steps
from zenith.backends.tensor_core_tiles import AttentionShape
from zenith.backends.tiles import RegisterMatrix, RegisterProduct
from zenith.backends.weights import WeightTable
from zenith.ir.types import bfloat16, float16
from zenith.passes.pipeline import run

EXPECTED = sys.platform == "linux" and platform.machine() == "x86_64"
needs_compiler = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)
EPS = {"f16": 2.0**-11, "bf16": 2.0**-8}
LEAST = {"f16": 2.0**-14, "bf16": 1e-30}
HEADS = (32, 64, 128, 256)


def narrow(shape, kinds, mask="none", lead=(), seed=0):
    """Arguments as 16-bit floats."""
    dtype = graph(("s", "t", "d", "e"), kinds).inputs[0].dtype.numpy
    return [x if x.dtype == bool else x.astype(dtype) for x in arguments(shape, np.float32, mask, lead, seed)]


def within(results, values, mask, causal, kinds):
    close([r.astype(np.float32) for r in results], values, mask, causal, EPS[kinds], LEAST[kinds])


def kernels(program, arch):
    """The kernels of attention, of the forward and the backward pass."""
    found = [s.kernel for s in steps(plan_of(program, cuda_target(arch)).steps) if isinstance(s, LaunchStep)]
    return [kernel for kernel in found if "attention" in kernel.doc]


@pytest.mark.parametrize("kinds", [pytest.param(k, marks=[pytest.mark.thorough] * (k != "f16")) for k in EPS])
@pytest.mark.parametrize(("mask", "causal"), leave((("none", False), ("bool", False)), KINDS))
def test_values_of_every_shape_on_lanes(mask, causal, kinds):
    """Lengths are symbols, 0 and 1 and no multiples of tiles among them; heads are of sizes that fill no tile."""
    for d, e in ((64, 64), (20, 36), (80, 128)):
        program = graph(("s", "t", d, e), kinds, mask, causal)
        assert all(any(isinstance(s, RegisterMatrix) for s in walk(k.body)) for k in kernels(program, "sm_90a"))
        executable = compiled(program, "cuda on lanes")
        for seed, (s, t) in enumerate([(1, 1), (1, 70), (70, 1), (0, 5), (5, 0), (64, 64), (130, 67), (3, 200)]):
            values = narrow((s, t, d, e), kinds, mask, seed=seed)
            within(call(executable, program, values), values, mask, causal, kinds)


@pytest.mark.parametrize("head", [pytest.param(h, marks=[pytest.mark.thorough] * (h in (32, 128))) for h in HEADS])
def test_values_of_every_head(head):
    program, values = graph((40, 70, head, head), "f16", lead=(2, 3)), narrow((40, 70, head, head), "f16", lead=(2, 3))
    within(call(compiled(program, "cuda on lanes"), program, values), values, "none", False, "f16")


@pytest.mark.parametrize(("kinds", "arch", "widest"), leave(lambda case: case != ("bf16", "sm_80", True), [
    (kinds, arch, widest)
    for kinds, arch in (("f16", "sm_75"), ("f16", "sm_80"), ("bf16", "sm_80")) for widest in (False, True)
]))  # fmt: skip
def test_values_in_the_layout_of_the_instructions(kinds, arch, widest):
    """The printed source on a grid of threads, with registers laid out as by the instructions' twins."""
    mask, causal = ("bool", False) if widest else ("add", True)
    shape = (24, 40, 32, 16) if widest else (21, 37, 16, 20)
    program, values = graph(("s", "t", *shape[2:]), kinds, mask, causal), narrow(shape, kinds, mask)
    executable = GridExecutable(plan_of(program, cuda_target(arch)), WeightTable.of(program), widest=widest)
    within(call(executable, program, values), values, mask, causal, kinds)


@pytest.mark.parametrize("causal", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_several_blocks_in_the_layout_of_the_instructions(causal):
    """Small blocks, so that there are several: each is copied while the one before is computed with.

    Copies arrive when they are waited for, and their memory has other blocks until then.
    """
    found = cuda_target("sm_80")
    target = replace(found, attention_tile=lambda shape: replace(found.attention_tile(shape), rows=16, block=16))
    assert target.attention_tile(AttentionShape(float16, (16, 16), 1, (16,))).stages == 2
    shape = (40, 56, 16, 16)
    program, values = graph(("s", "t", 16, 16), "f16", causal=causal), narrow(shape, "f16")
    for widest in (True, False):
        executable = GridExecutable(plan_of(program, target), WeightTable.of(program), widest=widest)
        within(call(executable, program, values), values, "none", causal, "f16")


def test_an_iteration_waits_once_and_copies_before_it_multiplies():
    """Copies of the next block start after the one barrier of an iteration, and before its products."""
    for kernel in kernels(graph(("s", "t", 64, 64), "f16"), "sm_80"):
        lines = CudaPrinter(forms(kernel)[-1]).kernel(kernel).splitlines()
        first = next(n for n, line in enumerate(lines) if line.lstrip().startswith(("for block", "while block")))
        depth = len(lines[first]) - len(lines[first].lstrip())
        iteration = []
        for line in lines[first + 1 :]:
            if len(line) - len(line.lstrip()) <= depth:
                break
            iteration.append(line.strip())
        words = [line.partition("(")[0] for line in iteration]
        assert words.count("cuda.syncthreads") == 1 and words.count("wait_copies") == 1
        marks = [words.index(w) for w in ("wait_copies", "cuda.syncthreads", "copy_async", "ldmatrix_4")]
        assert marks == sorted(marks)


def test_a_query_that_sees_nothing():
    for mask in ("bool", "add"):
        program, values = graph(("s", "t", 16, 16), "f16", mask), narrow((30, 70, 16, 16), "f16", mask)
        values[4][1] = False if mask == "bool" else -np.inf
        results = call(compiled(program, "cuda on lanes"), program, values)
        assert results[1][1] == 0 and not results[0][1].any() and not results[2][1].any()
        assert all(np.isfinite(r).all() for r in results)
        within(results, values, mask, False, "f16")


def test_weights_of_padding_may_be_infinite():
    """All scores of a query are far below zero: the zeros that pad its block must not overflow."""
    program, values = graph(("s", "t", 16, 16), "f16"), narrow((3, 5, 16, 16), "f16")
    values[0][:], values[1][:] = 30, -30
    results = call(compiled(program, "cuda on lanes"), program, values)
    assert (results[1] < -4000).all() and all(np.isfinite(r).all() for r in results)


@needs_compiler
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kinds", "arch", "head"),
    [("bf16", "sm_80", 64), ("f16", "sm_80", 128), *itertools.product(["f16"], ("sm_75", "sm_90a"), HEADS)],
)
def test_sums_stay_in_registers(kinds, arch, head):
    """Machine code without a stack, within a block's registers and shared memory, by the instruction it is for."""
    found = kernels(graph(("s", "t", head, head), kinds, causal=True, lead=("b",)), arch)
    assert len(found) == (4 if head == 256 else 3), "there is no room for the sums of two results"
    for kernel in found:
        (product, *_) = [s for s in walk(kernel.body) if isinstance(s, RegisterProduct)]
        assert product.instruction.shape == ("m16n8k8" if arch == "sm_75" else "m16n8k16")
        code = compile_kernel(kernel, forms(kernel)[-1], arch)
        used = resources(code.cubin)
        assert used.stack == 0 and not re.search(r"(ld|st)\.local", code.ptx)
        threads = most_threads(kernel, code.form)
        assert used.registers * threads <= 65536 and f".maxntid {threads}" in code.ptx
        assert f"mma.sync.aligned.{product.instruction.shape}.row.col.f32" in code.ptx
        assert ("cp.async" in code.ptx) == (arch != "sm_75") and "ldmatrix.sync" in code.ptx


def test_copies_have_come_before_the_next_task_begins_its_own():
    """A task without keys runs no iteration of the loop, and so no wait of it."""
    for kernel in kernels(graph(("s", "t", 64, 64), "f16", causal=True), "sm_80"):
        lines = CudaPrinter(forms(kernel)[-1]).kernel(kernel).splitlines()
        inside = max(n for n, line in enumerate(lines) if line.startswith(" " * 12) and "wait_copies(0)" in line)
        after = [line.strip() for line in lines[inside + 1 :] if line.startswith(" " * 8 + "w")]
        assert "wait_copies(0)" in after


def test_schedules_fit_every_gpu():
    """All chips and heads: operands fit shared memory, sums registers, scores whole instructions."""
    for capability, gpu in CHIPS.items():
        for head in (16, 80, *HEADS):
            for scores, sums in ((1, 1), (2, 1), (2, 2)):
                widths = (padded(head),) * 2
                tile = attention_tile(AttentionShape(float16, widths, scores, widths[:sums]), capability)
                if isinstance(tile, str):
                    assert head == 256 and sums == 2, "only sums of two results do not fit"
                    continue
                assert (tile.rows + tile.stages * tile.block) * sum(widths) * 2 <= gpu.shared * 1024
                assert tile.stages == 1 or tile.ahead, "where threads copy themselves, no copy is asynchronous"
                assert tile.block % tile.instruction.terms == tile.rows % tile.instruction.rows == 0


def test_other_groups_are_refused_with_the_reason():
    def others(program, target):
        fused, _ = run(program)
        bodies = [n.params for _, n in fused.nodes() if n.primitive.name == "fused"]
        found = [lower_group(p["body"], p["anchor"], target).choice for p in bodies if "attention" in p["anchor"]]
        return [dict(choice.others) for choice in found]

    cases = [
        (graph(("s", "t", 32, 32), "f32"), cuda_target(), "operands are f32: tensor cores multiply 16-bit floats"),
        (graph(("s", "t", "d", 32), "f16"), cuda_target(), "the size of a head is not known, or above 256"),
        (graph(("s", "t", 32, 300), "f16"), cuda_target(), "the size of a head is not known, or above 256"),
        (graph(("s", "t", 32, 32), "bf16"), cuda_target("sm_75"), "cuda-sm_75: it has no instruction for bf16"),
        (graph(("s", "t", 32, 32), "f16"), cpu_target("portable"), "cpu-portable: it has no tensor cores"),
    ]
    for program, target, reason in cases:
        forward, backward = others(program, target)
        assert forward["attention_cores"].startswith(reason) and backward["attention_vjp_cores"].startswith(reason)
    forward, backward = others(graph(("s", "t", 32, 32), "f16"), cuda_target())
    assert forward["attention"].startswith("costs") and backward["attention_vjp"].startswith("costs")


def test_blocks_ask_for_the_shared_memory_that_they_use():
    (forward, *_) = kernels(graph(("s", "t", 256, 256), "f16"), "sm_80")
    tile = attention_tile(AttentionShape(bfloat16, (256, 256), 1, (256,)), (8, 0))
    assert shared_bytes(forward) == (tile.rows + 2 * tile.stages * tile.block) * 256 * 2
