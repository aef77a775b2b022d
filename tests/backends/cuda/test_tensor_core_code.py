"""Products on tensor cores as machine code: the instructions, registers without spills, shared memory."""

import numpy as np
import pytest

import zenith
from tests.backends.cuda.test_compile import EXPECTED, REGISTERS, instructions
from tests.backends.running import plan_of
from zenith.backends.cuda.architecture import capability
from zenith.backends.cuda.compile import available, compile_forms
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.forms import block_threads
from zenith.backends.cuda.schedules import chip, matrix_tiles
from zenith.backends.cuda.shared import dynamic_shared, scheduled, shared_bytes
from zenith.backends.cuda.target import cuda_target
from zenith.backends.steps import LaunchStep

pytestmark = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)
RESERVED = 1024  # bytes of shared memory that a GPU takes for itself, which code for sm_90 counts
COUNT = 16  # bytes for the number that a block gets when it arrives


def gelu(x):
    return x * 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def layer(x, w, b):
    return gelu(x @ w + b)


# rows, terms, columns: the fused layer, a large product, the layers of BERT-base for a sentence of 128 words
SHAPES = {
    "linear and gelu": (1024, 1024, 4096),
    "large": (8192, 8192, 8192),
    "bert projection": (128, 768, 768),
    "bert up": (128, 768, 3072),
    "bert down": (128, 3072, 768),
}


def thorough(*case):
    """A case that `make test` leaves out."""
    return pytest.param(*case, marks=pytest.mark.thorough)


CASES = [
    thorough("linear and gelu", "bfloat16", "sm_80"),
    ("linear and gelu", "bfloat16", "sm_90a"),
    ("linear and gelu", "float16", "sm_75"),
    thorough("linear and gelu", "float16", "sm_80"),
    thorough("linear and gelu", "float16", "sm_90a"),
    thorough("linear and gelu", "float32", "sm_80"),
    thorough("linear and gelu", "float32", "sm_90a"),
    thorough("large", "bfloat16", "sm_80"),
    thorough("large", "bfloat16", "sm_90a"),
    thorough("bert projection", "bfloat16", "sm_90a"),
    thorough("bert up", "bfloat16", "sm_80"),
    thorough("bert down", "bfloat16", "sm_90a"),
]


def kernels(function, shapes, dtype, arch):
    """The kernels of a function of arrays, with those that multiply on tensor cores first."""
    specs = [zenith.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    plan = plan_of(zenith.make_graph(function)(*specs), cuda_target(arch, tf32=True))
    return [s.kernel for s in plan.steps if isinstance(s, LaunchStep)]


def check(code, arch):
    """The invariants of every kernel on tensor cores."""
    kernel, found = code.kernel, resources(code.cubin)
    schedule = scheduled(kernel)[0].schedule
    i = schedule.instruction
    assert i.since <= capability(arch)[:2]
    assert len(instructions(code.ptx, rf"mma\.sync\.aligned\.{i.shape}\.row\.col\.f32\.{i.type}\.{i.type}\.f32")) >= 2
    assert found.stack == 0 and instructions(code.ptx, r"(ld|st)\.local|\bcall\b|\.f64\b") == []
    assert 0 < found.registers * block_threads(kernel) <= REGISTERS
    assert f".maxntid {block_threads(kernel)}, 1, 1" in code.ptx
    used = dynamic_shared(kernel) + found.shared
    assert shared_bytes(kernel) <= used <= shared_bytes(kernel) + COUNT + RESERVED
    assert shared_bytes(kernel) + COUNT <= chip(capability(arch)).shared * 1024
    return schedule


@pytest.mark.parametrize(("shape", "dtype", "arch"), CASES)
def test_every_target_shape(shape, dtype, arch):
    m, k, n = SHAPES[shape]
    (kernel,) = kernels(layer, [(m, k), (k, n), (n,)], dtype, arch)
    for code in compile_forms(kernel, arch):
        schedule = check(code, arch)
        wide = code.form.width > 1
        assert bool(instructions(code.ptx, r"cp\.async\.cg\.shared\.global")) == (wide and schedule.ahead)
        assert bool(instructions(code.ptx, r"(ld|st)\.global\.(\w+\.)*v[24]")) == wide
        assert instructions(code.ptx, r"ldmatrix\.sync")


@pytest.mark.parametrize(("name", "arch"), [
    ("both transposed", "sm_90a"),
    thorough("both transposed", "sm_75"), thorough("plain", "sm_75"), thorough("plain", "sm_90a"),
])  # fmt: skip
def test_sizes_that_are_not_known(name, arch):
    view = np.transpose if name == "both transposed" else lambda x: x
    (kernel,) = kernels(lambda x, w: view(x) @ view(w), [("m", "k"), ("k", "m")], "float16", arch)
    for code in compile_forms(kernel, arch):
        check(code, arch)


@pytest.mark.parametrize("tile", [
    pytest.param(t, id=t.name, marks=[pytest.mark.thorough] * (t.name != "bf16_128x256"))
    for t in matrix_tiles((9, 0), tf32=True) if t.instruction.type != "f16"
])  # fmt: skip
def test_every_schedule(tile):
    """Its wide form; bfloat16 and float16 differ in the name of the instruction only."""
    from dataclasses import replace

    specs = [zenith.ShapeDtypeStruct(("m", 512), tile.instruction.element.numpy), zenith.ShapeDtypeStruct(
        (512, 1024), tile.instruction.element.numpy)]  # fmt: skip
    target = replace(cuda_target(tf32=True), pick=lambda tiles, shape: tile)
    plan = plan_of(zenith.make_graph(lambda x, w: np.exp(x @ w))(*specs), target)
    check(compile_forms(plan.steps[0].kernel, "sm_90a")[-1], "sm_90a")
