"""The machine code of kernels: wide vectors, no run-time checks for overlap, no calls of elementary functions."""

from __future__ import annotations

import re
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.backends.running import compiled
from zenith.backends.cpu.link import kernel_module
from zenith.backends.cpu.loop_metadata import REGISTERS_OF_A_VECTOR
from zenith.backends.cpu.machine import load, target_machine
from zenith.backends.cpu.vectors import TABLE, host_features, select
from zenith.backends.weights import WeightTable
from zenith.ir.text import parse

WIDE = "zmm" if TABLE["avx512"].runs_on(host_features()) else "ymm"
pytestmark = pytest.mark.skipif(
    not TABLE["avx2"].runs_on(host_features()), reason="names registers of x86 with AVX2 or AVX-512"
)

CHAIN = """\
def f(x: f32[n], y: f32[n]) -> (f32[n], f32[n]):
    v2 = mul(x, y)
    v3 = tanh(v2)
    v4 = exp(v3)
    v5 = sigmoid(v4)
    return (v5, v3)"""

ROW = """\
def f(x: f32[n, m]) -> (f32[n, m]):
    v1 = reduce_max(x, axes=(1,))
    v2 = broadcast(v1, shape=(n, m), axes=(0,))
    v3 = sub(x, v2)
    v4 = exp(v3)
    v5 = reduce_sum(v4, axes=(1,))
    v6 = broadcast(v5, shape=(n, m), axes=(0,))
    v7 = div(v4, v6)
    return (v7,)"""

COLUMN = "def f(x: f32[n, m]) -> (f32[m]):\n    v1 = reduce_sum(x, axes=(0,))\n    return (v1,)"


@pytest.mark.parametrize(
    ("text", "instructions"),
    [(CHAIN, ("vmulps", "vfmadd", "vdivps")), (ROW, ("vmaxps", "vfmadd", "vaddps", "vfnmadd")), (COLUMN, ("vaddps",))],
    ids=["chain", "row", "column"],
)
def test_kernels_are_vectors_throughout(text: str, instructions: tuple[str, ...]) -> None:
    kernel, *_ = compiled(parse(text), "cpu").kernels.values()
    module = kernel_module(kernel.text, "kernel")
    assert "vector.memcheck" not in str(module)
    assembly = target_machine().emit_assembly(module)
    for instruction in instructions:
        assert re.search(rf"\b{instruction}\w*\s.*%{WIDE}", assembly), instruction
    assert not re.search(r"\b(expf?|tanhf?|log1pf?|fmaf?)\b", assembly)


def test_elementary_functions_of_several_vectors_are_interleaved() -> None:
    (kernel,) = compiled(parse(CHAIN), "cpu").kernels.values()
    assembly = target_machine().emit_assembly(kernel_module(kernel.text, "kernel"))
    blocks = re.split(r"\n\.LBB", assembly)
    most = max(len(re.findall(rf"\bvdivps\s.*%{WIDE}", block)) for block in blocks)
    assert most == select().registers // REGISTERS_OF_A_VECTOR


def test_a_row_is_divided_by_its_sum_with_one_division() -> None:
    (kernel,) = compiled(parse(ROW), "cpu").kernels.values()
    assembly = target_machine().emit_assembly(kernel_module(kernel.text, "kernel"))
    assert "divide_same(" in kernel.text
    assert re.search(r"\bvdivss\s", assembly) and not re.search(r"\bvdivps\s", assembly)


BLOCKS = """\
def f(x: f32[n, 1, 2, h, 16], k: f32[1, 32, 48], y: f32[n, 1, 3, h, 16]) -> (f32[n, 1, 3, h, 16]):
    v1 = conv_blocks(x, k, window=(1,), strides=(1,), dilation=(1,), block=16)
    v2 = sub(v1, y)
    return (v2,)"""


def test_a_block_of_channels_after_a_convolution_is_a_vector() -> None:
    (kernel,) = [k for k in compiled(parse(BLOCKS), "cpu").kernels.values() if "gathered_tile" in k.text]
    assembly = target_machine().emit_assembly(kernel_module(kernel.text, "kernel"))
    assert re.search(rf"\bvsubps\s.*%{WIDE}", assembly) and not re.search(r"\bvsubss\b", assembly)


BY_TILES = """\
def f(x: f32[n, 1, 2, h, w, 16], y: f32[n, 1, 3, h - 2, w - 2, 16]) -> (f32[n, 1, 3, h - 2, w - 2, 16]):
    v1 = weight(name='k', dtype=f32, shape=(1, 288, 48))
    v2 = conv_blocks(x, v1, window=(3, 3), strides=(1, 1), dilation=(1, 1), block=16)
    v3 = sub(v2, y)
    return (v3,)"""


def test_transforms_of_a_convolution_are_vectors() -> None:
    graph = parse(BY_TILES)
    graph.weights = WeightTable({"k": np.ones((1, 288, 48), np.float32)})
    (kernel,) = [k for k in compiled(graph, "cpu").kernels.values() if "product_tile" in k.text]
    module = kernel_module(kernel.text, "kernel")
    assert "vector.memcheck" not in str(module)
    assembly = target_machine().emit_assembly(module)
    assert re.search(rf"\bvsubps\s.*%{WIDE}", assembly) and not re.search(r"\bv(add|sub)ss\b", assembly)


SHORT_ROWS = """\
def f(x: f32[n, 2, h, 16], s: f32[2, 16]) -> (f32[n, 2, h, 16]):
    v1 = broadcast(s, shape=(n, 2, h, 16), axes=(1, 3))
    v2 = mul(x, v1)
    v3 = literal(value=0.0, dtype=f32)
    v4 = broadcast(v3, shape=(n, 2, h, 16), axes=())
    v5 = maximum(v2, v4)
    return (v5,)"""


def test_short_rows_of_whole_vectors_are_not_written_out_element_by_element() -> None:
    (kernel,) = compiled(parse(SHORT_ROWS), "cpu").kernels.values()
    assembly = target_machine().emit_assembly(kernel_module(kernel.text, "kernel"))
    assert re.search(rf"\bvmulps\s.*%{WIDE}", assembly) and not re.search(r"\bvmulss\b", assembly)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF files")
def test_an_object_with_an_unresolved_symbol_is_refused() -> None:
    """LLVM would end the process."""
    text = "declare void @zenith_nowhere()\ndefine void @zenith_calls() {\n  call void @zenith_nowhere()\n  ret void\n}"
    code = target_machine().emit_object(llvm.parse_assembly(text))
    with pytest.raises(ValueError, match="an object needs zenith_nowhere, which this process has not"):
        load(code, ("zenith_calls",))
