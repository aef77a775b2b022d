"""Long chains in stages: the same values, whatever the strip's remainder, and nothing split that need not be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.running import call, compiled
from tests.bounds import reference_bounds, violations
from zenith.backends.cpu.emit import STRIP, CpuPrinter
from zenith.backends.cpu.loop_fission import stages
from zenith.backends.cpu.target import cpu_target
from zenith.backends.expressions import Apply, Load, Name
from zenith.backends.kernel import Let, Store
from zenith.backends.lower.engine_table import lower_group
from zenith.ir.dims import symbol
from zenith.ir.text import parse
from zenith.ir.types import float32
from zenith.passes.pipeline import run

CHAIN = """
def chain(x: f32[n, m], b: f32[m]) -> (f32[n, m], f32[n, m]):
    b2 = broadcast(b, shape=(n, m), axes=(1,))
    a = add(x, b2)
    t = tanh(a)
    u = mul(t, x)
    e = exp(u)
    s = sigmoid(e)
    r = add(s, t)
    return (r, e)
"""


def source(text: str) -> str:
    """The CPU source of a program's only kernel."""
    graph, _ = run(parse(text))
    (node,) = (n for _, n in graph.nodes() if n.primitive.name == "fused")
    (kernel,) = lower_group(node.params["body"], node.params["anchor"], cpu_target()).kernels
    return CpuPrinter(with_lines=False).kernel(kernel)


@pytest.mark.parametrize("sizes", [(1, 1), (3, STRIP), (2, STRIP + 1), (1, 3 * STRIP - 1), (5, 7), (0, 4), (4, 0)])
def test_stages_compute_the_same_as_one_loop(sizes: tuple[int, int]) -> None:
    graph, rng = parse(CHAIN), np.random.default_rng(0)
    args = [rng.normal(size=sizes).astype(np.float32), rng.normal(size=sizes[1:]).astype(np.float32)]
    assert violations(call(compiled(graph, "cpu"), graph, args), reference_bounds(graph, args)) == []


def test_a_chain_is_split_after_each_elementary_function() -> None:
    text = source(CHAIN)
    loops = [line for line in text.splitlines() if line.strip().startswith("for i in range(i_strip")]
    assert len(loops) == 3
    assert text.count(f"f32_scratch({STRIP})") == 2, "results of tanh and exp are stored for later stages"
    assert text.count("p0[") == 2


def test_one_elementary_function_stays_in_one_loop() -> None:
    text = source(
        "def f(x: f32[n]) -> (f32[n]):\n    a = mul(x, x)\n    e = exp(a)\n    r = add(e, x)\n    return (r,)"
    )
    assert "strip" not in text and "scratch" not in text


def test_every_element_type_can_pass_between_stages() -> None:
    graph = parse("""
def f(x: f32[n], i: i64[n]) -> (f32[n], bool[n], i64[n]):
    a = exp(x)
    p = gt(a, x)
    k = add(i, i)
    b = tanh(a)
    r = where(p, b, x)
    c = sigmoid(r)
    q = bit_not(p)
    j = where(q, k, i)
    return (c, q, j)
""")
    args = [np.linspace(-3, 3, 700, dtype=np.float32), np.arange(700)]
    assert violations(call(compiled(graph, "cpu"), graph, args), reference_bounds(graph, args)) == []


def test_an_element_that_is_overwritten_is_saved_not_read_twice() -> None:
    at = symbol("i")
    body = [
        Let("v1", Load("out0", at, float32)),
        Let("v2", Apply("exp(x)", (Name("v1", float32),), float32)),
        Store("out0", at, Name("v2", float32)),
        Let("v3", Apply("tanh(x)", (Name("v2", float32),), float32)),
        Store("out0", at, Apply("x + y", (Name("v3", float32), Name("v1", float32)), float32)),
    ]
    assert [len(stage) for stage in stages(body)] == [2, 3]
    printer = CpuPrinter()
    printer._scratches = 0
    lines = "\n".join(printer.iterate("i", "begin", "end", True, body))
    assert lines.count("out0[i]") == 3 and "v1 = staged1[i - i_strip]" in lines
