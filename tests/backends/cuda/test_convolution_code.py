"""Convolutions as machine code: resources and copies of kernels; every kernel of ResNet-50 and of a training step."""

import re

import numpy as np
import pytest
import torch

import zenith
from benchmarks.workloads.vision import RESNET50_B1
from tests.backends.cuda import networks
from tests.backends.cuda.test_compile import EXPECTED, REGISTERS, SHARED, instructions
from tests.backends.cuda.test_tensor_core_code import check
from tests.backends.running import plan_of
from zenith.backends.cuda.compile import available, compile_forms
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.forms import block_threads, wide_loops
from zenith.backends.cuda.target import cuda_target
from zenith.backends.kernel import walk
from zenith.backends.steps import LaunchStep
from zenith.backends.tiles import SharedProduct

pytestmark = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)

ALL = {**networks.LAYERS, **networks.OPEN_LAYERS}
SAMPLED = {("window", "float32", "sm_90a"), ("strided window", "bfloat16", "sm_80"), ("window", "tf32", "sm_100a")}
CASES = [
    pytest.param(*case, marks=[] if case in SAMPLED else [pytest.mark.thorough])
    for case in (
        (name, dtype, arch) for name in ALL for dtype in ("float32", "tf32", "bfloat16")
        for arch in ("sm_80", "sm_90a", "sm_100a")
    )
]  # fmt: skip


def convolution_of(name, dtype, arch):
    """The kernel of a layer that multiplies."""
    *_, stride, border = ALL[name]
    types = networks.layer_types(name, "float32" if dtype == "tf32" else dtype)
    plan = plan_of(zenith.make_graph(networks.layer(stride, border))(*types), cuda_target(arch, tf32=dtype == "tf32"))
    kernels = [s.kernel for s in plan.steps if isinstance(s, LaunchStep)]
    (kernel,) = [k for k in kernels if any(isinstance(s, SharedProduct) for s in walk(k.body))]
    return kernel


@pytest.mark.parametrize(("name", "dtype", "arch"), CASES)
def test_layers(name, dtype, arch):
    """On tensor cores or not: no spills, no calls; what is dense is copied 16 bytes at a time."""
    for code in compile_forms(convolution_of(name, dtype, arch), arch):
        assert f".target {arch}" in code.ptx
        if dtype == "float32":
            found = resources(code.cubin)
            assert found.stack == 0 and found.shared <= SHARED
            assert 0 < found.registers * block_threads(code.kernel) <= REGISTERS
            assert instructions(code.ptx, r"(ld|st)\.local|\bcall\b|\.f64\b") == []
            continue
        check(code, arch)
        dense = {side for loop in wide_loops(code.kernel).loops.values() for side in loop.sides}
        assert bool(instructions(code.ptx, r"cp\.async\.cg\.shared\.global")) == (code.form.width > 1 and bool(dense))


def resnet():
    """ResNet-50 as a module, and an image."""
    return RESNET50_B1.torch(()).eval(), tuple(map(torch.from_numpy, RESNET50_B1.batches()[0]))


def training_step():
    """A step of training the small network, on 128 images of 32x32."""
    images, labels = np.zeros((128, 3, 32, 32), np.float32), np.zeros(128, np.int64)
    return networks.step, (networks.parameters(), images, labels)


@pytest.mark.thorough
@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("network", [resnet, training_step])
def test_every_kernel_of_a_network(network, arch, tf32):
    function, args = network()
    ready = zenith.aot(function, args, arch=arch, tf32=tf32)
    assert any("conv_blocks" in name for name in ready.ptx)
    for name, ptx in ready.ptx.items():
        found, (threads,) = ready.resources[name], re.findall(r"\.maxntid (\d+)", ptx)
        assert f".target {arch}" in ptx
        assert instructions(ptx, r"(ld|st)\.local|\bcall\b|\.f64\b") == [], ready.sources[name]
        assert found.stack == 0 and found.registers * int(threads) <= REGISTERS, ready.sources[name]
