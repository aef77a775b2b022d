"""CUDA kernels down to machine code, without a GPU: entry points, float64 where it belongs, no calls, no spills."""

import importlib
import itertools
import json
import platform
import re
import sys

import numpy as np
import pytest

from tests.backends.cuda.programs import PROGRAMS, kernels
from tests.ir.cases import ALIKE, in_turn
from tests.passes.compare import program
from tests.sampling import leave
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.compile import available, compile_forms, compile_kernel, compile_ptx
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.forms import KernelForm
from zenith.backends.cuda.launch import most_threads, parameters
from zenith.backends.cuda.scalars import IN_FLOAT64
from zenith.backends.lower.engine_table import lower_group
from zenith.config import config
from zenith.errors import UnsupportedError
from zenith.ir.lowering import Scalar
from zenith.ir.primitive import all_primitives
from zenith.ir.types import bool_, float32, int32
from zenith.passes.pipeline import run

# The compiler's wheels are installed where they exist: there a missing one is a failure, not a reason to skip.
EXPECTED = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)

REGISTERS, SHARED = 65536, 48 * 1024  # limits of a block on every GPU since sm_70
LOCAL_ARRAYS = {"scalars"}  # libdevice reduces large angles with an array of the thread's own
# libdevice reduces arguments beyond 1e5 with two float64 instructions, on a path that is rarely taken.
SLOW_PATHS = {"sin", "cos", "tan"}
ELEMENTWISE = [p for p in all_primitives() if isinstance(p.lowering, Scalar) and p.name not in ("cast", "where")]
DTYPES = (float32, int32, bool_, *ALIKE)


def arity(primitive, dtype):
    """How many arguments, all of one element type, a primitive takes; None when it takes none of that type."""
    samples = [s.values for s in primitive.samples(dtype.numpy)]
    return next((len(v) for v in samples if all(np.asarray(a).dtype == dtype.numpy for a in v)), None)


CASES = [
    pytest.param(
        p, dtype, n, id=f"{p.name}-{dtype}", marks=[] if in_turn(number, dtype) else [pytest.mark.thorough]
    )
    for number, p in enumerate(ELEMENTWISE) for dtype in DTYPES if (n := arity(p, dtype)) is not None
]  # fmt: skip


def instructions(ptx, pattern):
    """The PTX instructions that match, declarations left out."""
    lines = [line.strip() for line in ptx.splitlines()]
    return [line for line in lines if re.search(pattern, line) and not line.startswith((".", "//"))]


@pytest.mark.skipif(not EXPECTED, reason="these packages have wheels for Linux x86-64")
@pytest.mark.parametrize("package", ["cupy", "numba_cuda", "cuda.bindings.nvrtc", "cuda.bindings.nvjitlink"])
def test_packages_that_other_tests_need_are_installed(package):
    """Tests of CUDA are skipped where a package is missing: where it can be installed, that must not go unnoticed."""
    assert importlib.import_module(package)


# For the older architecture, and with long indices, every third program; attention is not among them.
THIRD = list(PROGRAMS)[1::3]


@pytest.mark.parametrize(("name", "arch"), leave(
    lambda case: case[1] == "sm_75" and case[0] not in THIRD, itertools.product(PROGRAMS, ("sm_90a", "sm_75"))
))  # fmt: skip
def test_every_program_becomes_machine_code_without_calls(name, arch):
    for code in (code for kernel in kernels(name) for code in compile_forms(kernel, arch)):
        kernel, found = code.kernel, resources(code.cubin)
        assert re.findall(r"\.visible \.entry (\w+)\(", code.ptx) == [kernel.name]
        assert f".target {arch}" in code.ptx and f".maxntid {most_threads(kernel, code.form)}, 1, 1" in code.ptx
        assert len(re.findall(r"^\s*\.param", code.ptx, re.M)) == len(parameters(kernel))
        assert instructions(code.ptx, r"\bcall\b") == []
        assert 0 < found.registers * most_threads(kernel, code.form) <= REGISTERS
        assert found.shared <= SHARED
        if name not in LOCAL_ARRAYS:
            assert found.stack == 0 and instructions(code.ptx, r"ld\.local|st\.local|\.f64\b") == []
        wide = instructions(code.ptx, r"(ld|st)\.global\.(\w+\.)*v[24]")
        assert bool(wide) == (code.form.width > 1)


def test_a_wide_form_accesses_16_bytes():
    (kernel,) = kernels("chain")
    _, wide = compile_forms(kernel, "sm_90a")
    assert wide.form == KernelForm(width=4)
    assert len(instructions(wide.ptx, r"ld\.global\.v4\.f32")) == 2
    assert len(instructions(wide.ptx, r"st\.global\.v4\.f32")) == 1
    (kernel,) = kernels("bytes")
    _, wide = compile_forms(kernel, "sm_90a")
    assert wide.form == KernelForm(width=16)
    assert (
        len(instructions(wide.ptx, r"ld\.global\.v4\.u32")) == len(instructions(wide.ptx, r"st\.global\.v4\.u32")) == 2
    )


@pytest.mark.parametrize("name", leave(lambda name: name not in THIRD, PROGRAMS))
def test_indices_of_64_bits(name):
    for kernel in kernels(name):
        ptx = compile_ptx(kernel, KernelForm("u64"))
        assert instructions(ptx, r"\bcall\b") == []
        assert re.findall(r"\.param \.u(\d+)", ptx) == ["64"] * len(parameters(kernel))


def test_the_chain_computes_indices_in_32_bits_and_divides_once():
    (kernel,) = kernels("chain")
    ptx = compile_ptx(kernel)
    assert len(instructions(ptx, r"^(div|rem)\.[us]\d")) == 1
    assert instructions(ptx, r"^(div|rem|mul|mad)(\.lo)?\.[us]64") == []


def test_a_row_is_joined_by_shuffles_and_warps_by_shared_memory():
    (kernel,) = kernels("softmax")
    ptx = compile_ptx(kernel)
    assert instructions(ptx, r"shfl\.sync\.bfly\.b32") and instructions(ptx, r"bar\.sync")
    assert instructions(ptx, r"ld\.shared\.f32")


def test_a_compiled_kernel_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    (kernel,) = kernels("taken")
    first = compile_kernel(kernel, KernelForm(), "sm_80")
    monkeypatch.setattr("zenith.backends.cuda.compile._COMPILER.known", {})
    second = compile_kernel(kernel, KernelForm(), "sm_80")
    assert (first.cached, second.cached) == (False, True)
    assert (second.ptx, second.cubin) == (first.ptx, first.cubin)


def test_an_unknown_architecture_is_named():
    with pytest.raises(UnsupportedError, match="there is no architecture 'hopper' that Zenith compiles for"):
        compile_kernel(kernels("columns")[0], KernelForm(), "hopper")


def test_bytes_that_are_no_cubin():
    with pytest.raises(ValueError, match="no cubin"):
        resources(b"not an ELF file")


def test_the_search_for_float64_finds_it():
    fused, _ = run(program("x: f64[n]", "v1 = exp(x)\nreturn (v1,)"))
    (params,) = [node.params for _, node in fused.nodes() if node.primitive.name == "fused"]
    (kernel,) = lower_group(params["body"], params["anchor"], cpu_target()).kernels
    assert instructions(compile_ptx(kernel), r"\.f64\b")


def test_a_missing_compiler_is_named(monkeypatch):
    monkeypatch.setattr("zenith.backends.cuda.compile.available", lambda: False)
    with pytest.raises(UnsupportedError, match="the CUDA compiler is not installed") as caught:
        compile_ptx(kernels("columns")[0])
    assert "zenith-compiler[cuda13]" in str(caught.value)


@pytest.mark.parametrize(("primitive", "dtype", "count"), CASES)
def test_every_elementwise_primitive_compiles(primitive, dtype, count):
    """From the registry: a primitive added there is compiled for CUDA here."""
    names = "xyz"[:count]
    (first, *_) = primitive.samples(dtype.numpy)
    params = [f"{name}={json.dumps(value)}" for name, value in first.params.items()]
    text = f"v1 = {primitive.name}({', '.join([*names, *params])})\nreturn (v1,)"
    fused, _ = run(program(", ".join(f"{n}: {dtype}[n]" for n in names), text), disabled={"simplify"})
    (params,) = [node.params for _, node in fused.nodes() if node.primitive.name == "fused"]
    (kernel,) = lower_group(params["body"], params["anchor"], cpu_target()).kernels
    ptx = compile_ptx(kernel)
    assert instructions(ptx, r"\bcall\b") == []
    in_float64 = IN_FLOAT64.intersection(re.findall(r"\w+", primitive.lowering.text(dtype.kind)))
    if not (in_float64 and dtype is float32):
        assert len(instructions(ptx, r"\.f64\b")) <= (3 if primitive.name in SLOW_PATHS else 0)
