"""Every instruction set, forced in a process of its own: right results, and no register that it does not have."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from zenith.backends.cpu.vectors import TABLE, host_features

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import re, sys
import numpy as np
from tests.backends.running import call, compiled
from zenith.backends.cpu.link import kernel_module
from zenith.backends.cpu.machine import target_machine
from zenith.ir.text import parse

def random(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)

def softmax(x):
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)

def gelu(x):
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

LAYER = '''
def layer(x: f32[n, k], w: f32[k, m], b: f32[m]) -> (f32[n, m]):
    v1 = matmul(x, w)
    v2 = broadcast(b, shape=(n, m), axes=(1,))
    v3 = add(v1, v2)
    v4 = mul(v3, v3)
    v5 = mul(v4, v3)
    v6 = literal(value=0.044715, dtype=f32)
    v7 = broadcast(v6, shape=(n, m), axes=())
    v8 = mul(v5, v7)
    v9 = add(v3, v8)
    v10 = literal(value=1.5957691216057308, dtype=f32)
    v11 = broadcast(v10, shape=(n, m), axes=())
    v12 = mul(v9, v11)
    v13 = sigmoid(v12)
    v14 = mul(v3, v13)
    return (v14,)'''

ATTENTION = '''
def attention(q: f32[h, s, 32], k: f32[h, t, 32], v: f32[h, t, 32]) -> (f32[h, s, 32]):
    v1 = transpose(k, axes=(0, 2, 1))
    v2 = matmul(q, v1)
    v3 = reduce_max(v2, axes=(2,))
    v4 = broadcast(v3, shape=(h, s, t), axes=(0, 1))
    v5 = sub(v2, v4)
    v6 = exp(v5)
    v7 = reduce_sum(v6, axes=(2,))
    v8 = broadcast(v7, shape=(h, s, t), axes=(0, 1))
    v9 = div(v6, v8)
    v10 = matmul(v9, v)
    return (v10,)'''

CASES = [
    (LAYER, [random(13, 300), random(300, 70), random(70)], lambda x, w, b: gelu(x @ w + b)),
    (LAYER, [random(1, 30), random(30, 128), random(128)], lambda x, w, b: gelu(x @ w + b)),
    (ATTENTION, [random(2, 33, 32), random(2, 41, 32), random(2, 41, 32)],
     lambda q, k, v: softmax(q @ k.transpose(0, 2, 1)) @ v),
]
used = set()
for text, args, reference in CASES:
    graph = parse(text.strip())
    executable = compiled(graph, "cpu")
    (result,) = call(executable, graph, args)
    exact = reference(*(a.astype(np.float64) for a in args))
    assert np.abs(result - exact).max() <= 1e-5 * np.abs(exact).max()
    for kernel in executable.kernels.values():
        used |= set(re.findall(r"%([xyz]mm)", target_machine().emit_assembly(kernel_module(kernel.text, "kernel"))))
print(*sorted(used))
"""


@pytest.mark.parametrize("isa", TABLE)
def test_whole_programs_obey_the_instruction_set(isa: str) -> None:
    if not TABLE[isa].runs_on(host_features()):
        pytest.skip(f"this processor does not execute {isa}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ZENITH_ISA": isa}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    if platform.machine() == "x86_64":
        widest = {"avx512": "zmm", "avx2": "ymm", "portable": "xmm"}[isa]
        assert max(done.stdout.split()) == widest
