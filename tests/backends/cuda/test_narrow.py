"""16-bit floats in CUDA kernels: 16 bits in memory, float32 in registers, rounded by the instruction that there is."""

import itertools
import platform
import re
import sys

import pytest

from tests.backends.cuda.programs import PROGRAMS as SHARED
from tests.passes.compare import program
from tests.sampling import leave
from zenith.backends.cuda.compile import available, compile_kernel
from zenith.backends.cuda.forms import forms
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lower.engine_table import lower_group
from zenith.passes.pipeline import run

EXPECTED = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)

PROGRAMS = {
    "chain": ("x: f32[n], y: f32[n]", "v1 = mul(x, y)\nv2 = tanh(v1)\nv3 = add(v2, v2)\nreturn (v3,)"),
    "rows": SHARED["softmax"],
    "columns": ("x: f32[n, m]", "v1 = reduce_sum(x, axes=(0,))\nreturn (v1,)"),
    "product": ("x: f32[n, k], w: f32[k, m]", "v1 = matmul(x, w)\nv2 = exp(v1)\nreturn (v2,)"),
    "attention": (
        "q: f32[h, s, 32], k: f32[h, u, 32], v: f32[h, u, 32]",
        "v1, l = attention(q, k, v, scale=0.5, causal=False, mask='none', empty=0.0)\nreturn (v1,)",
    ),
    "order": ("x: f32[n, 40]", "v1, v2 = sort(x, descending=False)\nreturn (v2,)"),
}


def codes(name, dtype, arch):
    inputs, text = PROGRAMS[name]
    fused, _ = run(program(inputs.replace("f32", dtype), text))
    bodies = [node.params for _, node in fused.nodes() if node.primitive.name == "fused"]
    target = cuda_target(arch)
    kernels = [k for params in bodies for k in lower_group(params["body"], params["anchor"], target).kernels]
    return [compile_kernel(kernel, form, arch) for kernel in kernels for form in forms(kernel)]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_eight_neighbours_are_one_access(dtype):
    _, wide = codes("chain", dtype, "sm_90a")
    assert wide.form.width == 8
    assert count([wide], r"ld\.global\.v4\.u32") == 2 and count([wide], r"st\.global\.v4\.u32") == 1


def count(found, pattern):
    return sum(len(re.findall(pattern, code.ptx)) for code in found)


LONG = {"attention": ("f16", "sm_75"), "product": ("bf16", "sm_90a")}  # of these one case each
FIRST = (("f16", "sm_75"), ("bf16", "sm_90a"))


@pytest.mark.parametrize(("name", "dtype", "arch"), leave(
    lambda case: case[1:] not in FIRST or case[1:] != LONG.get(case[0], case[1:]),
    itertools.product(PROGRAMS, ("f16", "bf16"), ("sm_75", "sm_90a")),
))  # fmt: skip
def test_kernels_compute_in_float32(name, dtype, arch):
    found = codes(name, dtype, arch)
    assert found and all(code.cubin for code in found)
    assert count(found, r"\.f64\b") == 0 and count(found, r"^\s*call\b") == 0
    assert count(found, r"(add|mul|fma)[.\w]*\.(f16|bf16)") == 0, "no arithmetic in 16 bits"
    instruction = dtype == "f16" or arch != "sm_75"
    rounds = name != "order"
    assert bool(count(found, rf"cvt\.rn\.{dtype}\.f32")) == (instruction and rounds)
    assert dtype != "f16" or count(found, r"cvt\.f32\.f16") or count(found, r"mma\.sync.*\.f32\.f16\.f16\.f32")
