"""Fusion: which operations share a kernel, and that groups never wait for each other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs import random_program
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.lowering import Composite, Data, Region, View
from zenith.ir.primitive import get
from zenith.ir.text import parse
from zenith.ir.types import ArrayType, float32
from zenith.ir.verify import verify
from zenith.passes.fuse import fuse
from zenith.passes.grouping import MAX_MEMBERS


def groups(program: str, grow: bool = True) -> list[tuple[str, list[str]]]:
    """The kind and the operations of each group of a program, index maps left out."""
    found = []
    for _, node in verify(fuse(parse(program), grow)).nodes():
        if node.primitive.name == "fused":
            names = [n.primitive.name for _, n in node.params["body"].nodes()]
            found.append((node.params["anchor"], [n for n in names if n not in ("input", "broadcast", "literal")]))
    return found


def test_operations_on_the_same_elements_share_a_kernel() -> None:
    program = """
def f(x: f32[n], y: f32[n]) -> (f32[n]):
    a = mul(x, x)
    b = exp(y)
    c = tanh(a)
    d = add(b, c)
    return (d,)
"""
    assert groups(program) == [("loops", ["mul", "exp", "tanh", "add"])]


def test_a_row_group_takes_in_what_precedes_and_follows() -> None:
    program = """
def softmax(x: f32[n, m], b: f32[m]) -> (f32[n, m]):
    b2 = broadcast(b, shape=(n, m), axes=(1,))
    z = add(x, b2)
    top = reduce_max(z, axes=(1,))
    top2 = broadcast(top, shape=(n, m), axes=(0,))
    e = exp(z)
    d = sub(z, top2)
    w = exp(d)
    s = reduce_sum(w, axes=(1,))
    s2 = broadcast(s, shape=(n, m), axes=(0,))
    r = div(w, s2)
    return (r,)
"""
    ((kind, names), *rest) = groups(program)
    assert kind == "rows" and names == ["add", "reduce_max", "exp", "sub", "exp", "reduce_sum", "div"] and not rest


def test_two_reductions_of_one_array_are_one_walk_when_their_results_meet() -> None:
    program = """
def spread(x: f32[n, m]) -> (f32[n]):
    high = reduce_max(x, axes=(1,))
    low = reduce_min(x, axes=(1,))
    r = sub(high, low)
    return (r,)
"""
    assert groups(program) == [("rows", ["reduce_max", "reduce_min", "sub"])]


def test_a_product_takes_in_what_follows() -> None:
    program = """
def layer(x: f32[n, k], w: f32[k, m], b: f32[m], y: f32[n, m]) -> (f32[n, m]):
    p = matmul(x, w)
    b2 = broadcast(b, shape=(n, m), axes=(1,))
    z = add(p, b2)
    half = tanh(y)
    r = mul(z, half)
    return (r,)
"""
    assert groups(program) == [("product", ["matmul", "add", "tanh", "mul"])]


def test_a_column_reduction_takes_in_what_only_it_reads() -> None:
    alone = """
def f(x: f32[n, m]) -> (f32[m]):
    a = mul(x, x)
    r = reduce_sum(a, axes=(0,))
    return (r,)
"""
    shared = alone.replace("-> (f32[m])", "-> (f32[m], f32[n, m])").replace("(r,)", "(r, a)")
    assert groups(alone) == [("columns", ["mul", "reduce_sum"])]
    assert groups(shared) == [("loops", ["mul"]), ("columns", ["reduce_sum"])]


def test_groups_that_would_wait_for_each_other_stay_apart() -> None:
    """The sum over columns needs all of ``a`` and is needed by ``c``: one kernel cannot hold both."""
    program = """
def f(x: f32[n, m]) -> (f32[n, m]):
    a = exp(x)
    s = reduce_sum(a, axes=(0,))
    s2 = broadcast(s, shape=(n, m), axes=(1,))
    b = tanh(s2)
    c = mul(a, b)
    return (c,)
"""
    assert groups(program) == [("loops", ["exp"]), ("columns", ["reduce_sum"]), ("loops", ["tanh", "mul"])]


def test_a_group_that_grew_after_its_reader_is_followed() -> None:
    """``e`` cannot be computed with ``c``: it waits for ``b``, ``g`` and ``a``, whose group now reads ``c``, too."""
    program = """
def f(x: f32[n], y: f32[n]) -> (f32[n], f32[n]):
    a = exp(x)
    g1 = reverse(a, axes=(0,))
    g = sin(g1)
    b1 = reverse(g, axes=(0,))
    b = tanh(b1)
    c = exp(y)
    c1 = reverse(c, axes=(0,))
    d = add(a, c1)
    e1 = reverse(b, axes=(0,))
    e = sub(c, e1)
    return (d, e)
"""
    kinds = [names for _, names in groups(program)]
    assert kinds == [["exp"], ["exp", "reverse", "add"], ["reverse", "sin"], ["reverse", "tanh"], ["reverse", "sub"]]


def test_an_element_at_another_position_is_read_from_memory() -> None:
    program = """
def f(x: f32[n, n]) -> (f32[n, n]):
    a = exp(x)
    t = transpose(a, axes=(1, 0))
    r = sub(a, t)
    return (r,)
"""
    assert groups(program) == [("loops", ["exp"]), ("loops", ["transpose", "sub"])]


def test_a_product_reads_its_operands_from_memory_whatever_follows_it() -> None:
    program = """
def f(x: f32[n, n]) -> (f32[n, n]):
    a = trunc(x)
    p = matmul(a, x)
    r = sub(a, p)
    return (r,)
"""
    assert groups(program) == [("loops", ["trunc"]), ("product", ["matmul", "sub"])]


def test_groups_unite_only_when_one_reads_the_other_at_its_own_position() -> None:
    program = """
def f(x: f32[n, n]) -> (f32[n, n]):
    a = exp(x)
    t = transpose(a, axes=(1, 0))
    b = tanh(t)
    r = sub(a, b)
    return (r,)
"""
    kinds = [kind for kind, _ in groups(program)]
    assert kinds == ["loops", "loops"]


def test_index_maps_are_computed_only_where_their_value_is_needed() -> None:
    program = """
def f(x: f32[n]) -> (f32[2, n], f32[2, n]):
    b = broadcast(x, shape=(2, n), axes=(1,))
    r = exp(b)
    return (b, r)
"""
    assert groups(program) == [("loops", ["exp"])]
    (body,) = (n.params["body"] for _, n in fuse(parse(program)).nodes() if n.primitive is get("fused"))
    assert len(body.outputs) == 2


def test_groups_are_bounded() -> None:
    graph = Graph("chain")
    value = graph.add_input(ArrayType(float32, (symbol("n"),)), "x")
    for _ in range(3 * MAX_MEMBERS):
        (value,) = graph.add(get("tanh"), (value,))
    graph.set_outputs([value])
    bodies = [n.params["body"] for _, n in verify(fuse(graph)).nodes() if n.primitive is get("fused")]
    assert len(bodies) == 3 and all(len(b) <= MAX_MEMBERS + 1 for b in bodies)


def test_groups_that_do_not_grow_have_one_operation_each() -> None:
    program = """
def f(x: f32[n, m], y: f32[m, k]) -> (f32[n], f32[n, k], f32[m]):
    a = exp(x)
    b = mul(a, x)
    rows = reduce_sum(b, axes=(1,))
    columns = reduce_sum(b, axes=(0,))
    running = cumsum(a, axis=1, reverse=False)
    p = matmul(running, y)
    q = tanh(p)
    return (rows, q, columns)
"""
    assert groups(program, grow=False) == [
        ("loops", ["exp"]), ("loops", ["mul"]), ("rows", ["reduce_sum"]), ("columns", ["reduce_sum"]),
        ("rows", ["cumsum"]), ("product", ["matmul"]), ("loops", ["tanh"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("seed", "grow"), [*((seed, True) for seed in range(60)), *((seed, False) for seed in range(8))]
)
def test_random_programs_keep_their_meaning(seed: int, grow: bool) -> None:
    graph, args = random_program(seed)
    before = str(graph)
    fused = verify(fuse(graph, grow))
    assert str(graph) == before
    outside = [n.primitive for _, n in fused.nodes() if not isinstance(n.primitive.lowering, Data | Region | View)]
    assert all(isinstance(p.lowering, Composite) for p in outside), "what computes elements is in a group"
    with np.errstate(all="ignore"):
        for got, wanted in zip(interpret(fused, *args), interpret(graph, *args), strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("border", "kinds"), [
    ("c = literal(value=0.0, dtype=f32)", [("convolution", ["conv_blocks", "tanh", "pad"])]),
    ("c = mul(v, v)", [("convolution", ["conv_blocks", "tanh"]), ("loops", ["mul"]), ("loops", ["pad"])]),
])  # fmt: skip
def test_a_convolution_stores_its_result_inside_a_border_of_a_known_number(border: str, kinds: list[object]) -> None:
    program = f"""
def f(x: f32[n, 1, 2, h, w, 4], k: f32[1, 24, 12], v: f32) -> (f32[n, 1, 3, h + 1, w + 1, 4]):
    y = conv_blocks(x, k, window=(1, 3), strides=(1, 1), dilation=(1, 1), block=4)
    z = tanh(y)
    {border}
    p = pad(z, c, low=(0, 0, 0, 1, 2, 0), high=(0, 0, 0, 0, 1, 0), interior=(0, 0, 0, 0, 0, 0))
    return (p,)
"""
    assert sorted(groups(program)) == sorted(kinds)
