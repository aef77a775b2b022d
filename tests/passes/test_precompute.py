"""Products of scanned slices leave scans, with what is computed from them; all else stays."""

from __future__ import annotations

import pytest

from tests.passes.compare import assert_same_results
from zenith.ir.graph import Graph
from zenith.ir.text import parse
from zenith.ir.verify import verify
from zenith.passes.cse import cse
from zenith.passes.dce import dce
from zenith.passes.movement import movement
from zenith.passes.precompute import precompute

CELL = """
def f(u: f32[k, k], w: f32[j, k], b: f32[1, k], h: f32[1, k], xs: f32[n, 1, j]) -> (f32[1, k], f32[n, 1, k]):
    def body0(u: f32[k, k], w: f32[j, k], b: f32[1, k], h: f32[1, k], x: f32[1, j]) -> (f32[1, k], f32[1, k]):
        v5 = matmul(x, w)
        v6 = add(b, v5)
        v7 = matmul(h, u)
        v8 = add(v7, v6)
        v9 = tanh(v8)
        return (v9, v9)
    v5_0, v5_1 = scan(u, w, b, h, xs, body=body0, length=n, captured=3, carried=1, reverse={reverse}, index='')
    return (v5_0, v5_1)
"""
MOVED = """
def f(u: f32[k, k], w: f32[j, k], b: f32[1, k], h: f32[1, k], xs: f32[n, 1, j]) -> (f32[1, k], f32[n, 1, k]):
    def body0(u: f32[k, k], w: f32[j, k], b: f32[1, k], h: f32[1, k], x: f32[1, j], ahead0: f32[1, k]) -> (f32[1, k], f32[1, k]):
        v6 = matmul(h, u)
        v7 = add(v6, ahead0)
        v8 = tanh(v7)
        return (v8, v8)
    v5 = broadcast(w, shape=(n, j, k), axes=(1, 2))
    v6 = matmul(xs, v5)
    v7 = broadcast(b, shape=(n, 1, k), axes=(1, 2))
    v8 = add(v7, v6)
    v9_0, v9_1 = scan(u, w, b, h, xs, v8, body=body0, length=n, captured=3, carried=1, reverse={reverse}, index='')
    return (v9_0, v9_1)
"""  # noqa: E501
SIZES = {"n": 5, "k": 4, "j": 3}


def scan_of(graph: Graph) -> Graph:
    """The body of a graph's only scan."""
    (body,) = (body for node in graph.walk() for body in node.bodies)
    return body


@pytest.mark.parametrize("reverse", [False, True])
def test_the_product_of_all_slices_is_one(reverse: bool) -> None:
    before = parse(CELL.format(reverse=reverse))
    after = verify(precompute(before))
    wanted = parse(MOVED.format(reverse=reverse))
    assert str(cse(dce(after))) == str(cse(dce(wanted)))
    for n in (0, 1, 5):
        assert_same_results(before, after, {**SIZES, "n": n})
    shapes = [node.types[0] for _, node in dce(movement(after)).nodes() if node.primitive.name == "matmul"]
    assert list(map(str, shapes)) == ["f32[n, k]"], "one matrix product, of all steps' rows"


STAYS = """
def f(w: f32[{terms}, {columns}], c: f32[{columns}, {columns}], xs: f32[n, {terms}, {terms}]) -> (f32[m, m]):
    def body0(w: f32[{terms}, {columns}], c: f32[{columns}, {columns}], x: f32[{terms}, {terms}]) -> (f32[m, m]):
        v3 = matmul({left}, {right})
        v4 = reduce_sum(v3, axes=(0, 1))
        v5 = broadcast(v4, shape=({columns}, {columns}), axes=())
        v6 = add(c, v5)
        return (v6,)
    v3 = scan(w, c, xs, body=body0, length=n, captured=1, carried=1, reverse=False, index='')
    return (v3,)
"""


@pytest.mark.parametrize(
    ("left", "right", "terms", "columns", "moves"),
    [
        ("x", "w", "m", "m", True),
        ("c", "w", "m", "m", False),  # of a carried value
        ("w", "x", "m", "m", False),  # each step has a right operand of its own
        ("x", "x", "m", "m", False),
        ("x", "w", 2, 32, True),
        ("x", "w", 2, 33, False),  # results would take much more memory than slices
    ],
)
def test_which_products_leave(left: str, right: str, terms: object, columns: object, moves: bool) -> None:
    before = parse(STAYS.format(left=left, right=right, terms=terms, columns=columns))
    after = verify(dce(precompute(before)))
    assert any(n.primitive.name == "matmul" for n in scan_of(after).walk()) != moves
    assert (str(after) == str(dce(before))) != moves
    assert_same_results(before, after, {"n": 3, "m": 4})


def test_what_is_returned_may_be_computed_ahead_and_inner_loops_give_to_outer_ones() -> None:
    before = parse("""
def f(w: f32[k, k], c: f32[m, k], xs: f32[n, p, m, k]) -> (f32[m, k], f32[n, p, m, k]):
    def body0(w: f32[k, k], c: f32[m, k], part: f32[p, m, k]) -> (f32[m, k], f32[p, m, k]):
        def body0(w: f32[k, k], c: f32[m, k], x: f32[m, k]) -> (f32[m, k], f32[m, k]):
            v3 = exp(x)
            v4 = matmul(v3, w)
            v5 = neg(v4)
            v6 = add(c, v5)
            return (v6, v5)
        v3_0, v3_1 = scan(w, c, part, body=body0, length=p, captured=1, carried=1, reverse=False, index='')
        return (v3_0, v3_1)
    v3_0, v3_1 = scan(w, c, xs, body=body0, length=n, captured=1, carried=1, reverse=True, index='')
    return (v3_0, v3_1)
""")
    after = verify(dce(movement(precompute(before))))
    assert_same_results(before, after, {"k": 3, "m": 2, "n": 3, "p": 4})
    outer = next(body for _, node in after.nodes() for body in node.bodies)
    inner = next(body for _, node in outer.nodes() for body in node.bodies)
    assert not [n for _, n in inner.nodes() if n.primitive.name in ("matmul", "exp", "neg")]
    products = [n for n in outer.walk() if n.primitive.name == "matmul"]
    assert len(products) == 1 and str(products[0].types[0]) == "f32[m*p, k]"


def test_effects_and_what_has_no_batching_rule_stay() -> None:
    before = parse("""
def f(w: f32[2, 2], c: f32[2, 2], xs: f32[n, 2, 2]) -> (f32[2, 2]):
    def body0(w: f32[2, 2], c: f32[2, 2], x: f32[2, 2]) -> (f32[2, 2]):
        def body0(x: f32[2, 2]) -> (f32[2, 2]):
            v1 = neg(x)
            return (v1,)
        v3 = literal(value=0, dtype=i32)
        v4 = switch(v3, x, branches=(body0,))
        v5 = matmul(v4, w)
        v6 = add(c, v5)
        return (v6,)
    v3 = scan(w, c, xs, body=body0, length=n, captured=1, carried=1, reverse=False, index='')
    return (v3,)
""")
    assert str(precompute(before)) == str(before)
