"""CUDA kernels down to PTX, without a GPU: entry points, no float64 in float32 kernels, no calls."""

import platform
import re
import sys

import numpy as np
import pytest

from tests.backends.cuda.programs import PROGRAMS, kernels
from tests.passes.compare import program
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.compile import available, compile_ptx
from zenith.backends.lower.groups import lower_group
from zenith.errors import UnsupportedError
from zenith.ir.lowering import Scalar
from zenith.ir.primitive import all_primitives
from zenith.passes.pipeline import run

# The compiler's wheels are installed where they exist: there a missing one is a failure, not a reason to skip.
EXPECTED = sys.platform == "linux" and platform.machine() == "x86_64"
pytestmark = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)

# libdevice reduces arguments beyond 1e5 with two float64 instructions, on a path that is rarely taken.
SLOW_PATHS = {"sin", "cos", "tan"}
ELEMENTWISE = [p for p in all_primitives() if isinstance(p.lowering, Scalar) and p.name not in ("cast", "where")]
NUMPY = {"f32": np.float32, "i32": np.int32, "bool": np.bool_}


def arity(primitive, dtype):
    """How many arguments, all of one element type, a primitive takes; None when it takes none of that type."""
    samples = [s.values for s in primitive.samples(np.dtype(NUMPY[dtype]))]
    return next((len(v) for v in samples if all(np.asarray(a).dtype == NUMPY[dtype] for a in v)), None)


CASES = [(p, dtype, n) for p in ELEMENTWISE for dtype in NUMPY if (n := arity(p, dtype)) is not None]


def instructions(ptx, pattern):
    """The PTX instructions that match, declarations left out."""
    lines = [line.strip() for line in ptx.splitlines()]
    return [line for line in lines if re.search(pattern, line) and not line.startswith((".", "//"))]


@pytest.mark.parametrize("index", ["u32", "u64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_program_becomes_an_entry_without_calls(name, index):
    for kernel in kernels(name):
        ptx = compile_ptx(kernel, index=index)
        assert re.findall(r"\.visible \.entry (\w+)\(", ptx) == [kernel.name]
        assert ".target sm_90" in ptx
        assert len(re.findall(r"^\s*\.param", ptx, re.M)) == 2 + len(kernel.buffers) + len(kernel.sizes)
        assert instructions(ptx, r"\bcall\b") == []
        assert name == "scalars" or instructions(ptx, r"\.f64\b") == []


def test_the_chain_computes_indices_in_32_bits_and_divides_once():
    (kernel,) = kernels("chain")
    ptx = compile_ptx(kernel)
    assert len(instructions(ptx, r"^(div|rem)\.[us]\d")) == 1
    assert instructions(ptx, r"^(div|rem|mul|mad)(\.lo)?\.[us]64") == []


def test_a_row_is_joined_by_shuffles():
    (kernel,) = kernels("softmax")
    ptx = compile_ptx(kernel)
    assert instructions(ptx, r"shfl\.sync\.bfly\.b32")
    assert instructions(ptx, r"ld\.local|st\.local") == []


def test_an_older_architecture():
    (kernel,) = kernels("chain")
    assert ".target sm_75" in compile_ptx(kernel, cc=(7, 5))


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


@pytest.mark.parametrize(("primitive", "dtype", "count"), CASES, ids=[f"{p.name}-{dtype}" for p, dtype, _ in CASES])
def test_every_elementwise_primitive_compiles(primitive, dtype, count):
    """From the registry: a primitive added there is compiled for CUDA here."""
    names = "xyz"[:count]
    text = f"v1 = {primitive.name}({', '.join(names)})\nreturn (v1,)"
    fused, _ = run(program(", ".join(f"{n}: {dtype}[n]" for n in names), text))
    (params,) = [node.params for _, node in fused.nodes() if node.primitive.name == "fused"]
    (kernel,) = lower_group(params["body"], params["anchor"], cpu_target()).kernels
    ptx = compile_ptx(kernel)
    assert instructions(ptx, r"\bcall\b") == []
    assert len(instructions(ptx, r"\.f64\b")) <= (3 if primitive.name in SLOW_PATHS else 0)
