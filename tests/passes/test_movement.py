"""Movements cancel, join and sink, as programs before and after."""

import pytest

from tests.passes.compare import assert_same_results, expect, program
from zenith.ir.verify import verify
from zenith.passes.axes import align, inserts_units, subsequence
from zenith.passes.dce import dce
from zenith.passes.movement import movement

X = "x: f32[n, m], y: f32[n], t: f32[m, n], z: f32[m], w: f32[m, k], q: f32[b, s, m], u: f32[n, 1], h: f32[k]"
X += ", r: f32[b, s, 12], p: f32[b, s]"
SIZES = {"n": 3, "m": 4, "k": 5, "b": 2, "s": 6}

CANCEL = {
    "optimization barrier": (
        "e = exp(x)\nv = transpose(e, axes=(1, 0))\nw1 = optimization_barrier(v)\nw2 = transpose(w1, axes=(1, 0))\n"
        "return (w2,)",
        "e = exp(x)\nv = optimization_barrier(e)\nreturn (v,)",
    ),
    "reshape to itself": ("v = reshape(x, shape=(n, m))\nreturn (v,)", "return (x,)"),
    "reshape of reshape": (
        "v = reshape(x, shape=(n*m,))\nw1 = reshape(v, shape=(m, n))\nreturn (w1,)",
        "v = reshape(x, shape=(m, n))\nreturn (v,)",
    ),
    "reshape back": ("v = reshape(x, shape=(n*m,))\nw1 = reshape(v, shape=(n, m))\nreturn (w1,)", "return (x,)"),
    "transpose to itself": ("v = transpose(x, axes=(0, 1))\nreturn (v,)", "return (x,)"),
    "transpose twice": (
        "v = transpose(q, axes=(1, 2, 0))\nw1 = transpose(v, axes=(0, 2, 1))\nreturn (w1,)",
        "v = transpose(q, axes=(1, 0, 2))\nreturn (v,)",
    ),
    "transpose of a unit axis": (
        "v = transpose(u, axes=(1, 0))\nreturn (v,)",
        "v = reshape(u, shape=(1, n))\nreturn (v,)",
    ),
    "broadcast to itself": ("v = broadcast(x, shape=(n, m), axes=(0, 1))\nreturn (v,)", "return (x,)"),
    "broadcast of broadcast": (
        "v = broadcast(y, shape=(n, m), axes=(0,))\nw1 = broadcast(v, shape=(b, n, s, m), axes=(1, 3))\nreturn (w1,)",
        "v = broadcast(y, shape=(b, n, s, m), axes=(1,))\nreturn (v,)",
    ),
    "keepdims": (
        "v = reshape(y, shape=(n, 1))\nw1 = broadcast(v, shape=(n, m), axes=(0, 1))\nreturn (w1,)",
        "v = broadcast(y, shape=(n, m), axes=(0,))\nreturn (v,)",
    ),
    "stretched input": (
        "v = broadcast(u, shape=(n, m), axes=(0, 1))\nreturn (v,)",
        "v = reshape(u, shape=(n,))\nw1 = broadcast(v, shape=(n, m), axes=(0,))\nreturn (w1,)",
    ),
    "broadcast that only adds units": (
        "v = broadcast(y, shape=(1, n, 1), axes=(1,))\nreturn (v,)",
        "v = reshape(y, shape=(1, n, 1))\nreturn (v,)",
    ),
    "broadcast of new units": (
        "v = reshape(z, shape=(1, m))\nw1 = broadcast(v, shape=(b, 1, m), axes=(1, 2))\nreturn (w1,)",
        "v = broadcast(z, shape=(b, 1, m), axes=(2,))\nreturn (v,)",
    ),
    "reshape of broadcast": (
        "v = broadcast(z, shape=(b, s, m), axes=(2,))\nw1 = reshape(v, shape=(b*s, m))\nreturn (w1,)",
        "v = broadcast(z, shape=(b*s, m), axes=(1,))\nreturn (v,)",
    ),
    "reshape that mixes a broadcast axis": (
        "v = broadcast(y, shape=(b, n, m), axes=(1,))\nw1 = reshape(v, shape=(b, n*m))\nreturn (w1,)",
        "v = broadcast(y, shape=(b, n, m), axes=(1,))\nw1 = reshape(v, shape=(b, n*m))\nreturn (w1,)",
    ),
    "transpose of broadcast": (
        "v = broadcast(x, shape=(n, b, m), axes=(0, 2))\nw1 = transpose(v, axes=(2, 1, 0))\nreturn (w1,)",
        "v = transpose(x, axes=(1, 0))\nw1 = broadcast(v, shape=(m, b, n), axes=(0, 2))\nreturn (w1,)",
    ),
    "axes joined after a transpose": (
        "v = transpose(q, axes=(2, 0, 1))\nw1 = reshape(v, shape=(m, b*s))\nreturn (w1,)",
        "v = reshape(q, shape=(b*s, m))\nw1 = transpose(v, axes=(1, 0))\nreturn (w1,)",
    ),
    "axes joined that were no neighbours": (
        "v = transpose(q, axes=(1, 0, 2))\nw1 = reshape(v, shape=(b*s, m))\nreturn (w1,)",
        "v = transpose(q, axes=(1, 0, 2))\nw1 = reshape(v, shape=(b*s, m))\nreturn (w1,)",
    ),
    "axes cut and joined after a transpose": (
        "v = transpose(r, axes=(2, 1, 0))\nw1 = reshape(v, shape=(3, 4, s*b, 1))\nreturn (w1,)",
        "v = transpose(r, axes=(2, 1, 0))\nw1 = reshape(v, shape=(3, 4, s*b, 1))\nreturn (w1,)",
    ),
    "an axis cut after a transpose, with a unit axis": (
        "v = transpose(r, axes=(1, 0, 2))\nw1 = reshape(v, shape=(1, s, b, 3, 4))\nreturn (w1,)",
        "v = reshape(r, shape=(b, 1, s, 3, 4))\nw1 = transpose(v, axes=(1, 2, 0, 3, 4))\nreturn (w1,)",
    ),
    "joined axes of a broadcast": (
        "v = broadcast(p, shape=(b, s, m), axes=(0, 1))\nw1 = reshape(v, shape=(b*s, m))\nreturn (w1,)",
        "v = reshape(p, shape=(b*s,))\nw1 = broadcast(v, shape=(b*s, m), axes=(0,))\nreturn (w1,)",
    ),
    "slice of transpose": (
        "v = transpose(x, axes=(1, 0))\nw1 = slice(v, start=(1, 0), stop=(m, n), step=(2, 1))\nreturn (w1,)",
        "v = slice(x, start=(0, 1), stop=(n, m), step=(1, 2))\nw1 = transpose(v, axes=(1, 0))\nreturn (w1,)",
    ),
    "one of the blocks of an axis": (
        "v = reshape(r, shape=(b*s, 3, 4))\nw1 = slice(v, start=(0, 1, 0), stop=(b*s, 2, 4), step=(1, 1, 1))\n"
        "w2 = reshape(w1, shape=(b*s, 4))\nreturn (w2,)",
        "v = slice(r, start=(0, 0, 4), stop=(b, s, 8), step=(1, 1, 1))\nw1 = reshape(v, shape=(b*s, 4))\nreturn (w1,)",
    ),
    "a slice inside of each block stays": (
        "v = reshape(r, shape=(b, s, 3, 4))\n"
        "w1 = slice(v, start=(0, 0, 0, 1), stop=(b, s, 3, 4), step=(1, 1, 1, 1))\nreturn (w1,)",
        "v = reshape(r, shape=(b, s, 3, 4))\n"
        "w1 = slice(v, start=(0, 0, 0, 1), stop=(b, s, 3, 4), step=(1, 1, 1, 1))\nreturn (w1,)",
    ),
    "slice of everything": ("v = slice(x, start=(0, 0), stop=(n, m), step=(1, 1))\nreturn (v,)", "return (x,)"),
    "slice of slice": (
        "v = slice(x, start=(1, 0), stop=(n, m), step=(1, 1))\n"
        "w1 = slice(v, start=(1, 1), stop=(n - 1, m), step=(1, 2))\nreturn (w1,)",
        "v = slice(x, start=(2, 1), stop=(n, m), step=(1, 2))\nreturn (v,)",
    ),
    "slice of broadcast": (
        "v = broadcast(z, shape=(n, m), axes=(1,))\nw1 = slice(v, start=(1, 1), stop=(n, m), step=(1, 1))\n"
        "return (w1,)",
        "v = slice(z, start=(1,), stop=(m,), step=(1,))\nw1 = broadcast(v, shape=(n - 1, m - 1), axes=(1,))\n"
        "return (w1,)",
    ),
    "slice of a repeated axis": (
        "v = broadcast(z, shape=(n, m), axes=(1,))\nw1 = slice(v, start=(1, 0), stop=(2, m), step=(1, 1))\n"
        "return (w1,)",
        "v = reshape(z, shape=(1, m))\nreturn (v,)",
    ),
    "reverse twice": (
        "v = reverse(x, axes=(0, 1))\nw1 = reverse(v, axes=(1,))\nreturn (w1,)",
        "v = reverse(x, axes=(0,))\nreturn (v,)",
    ),
    "reverse of what repeats": (
        "v = broadcast(z, shape=(n, m), axes=(1,))\nw1 = reverse(v, axes=(0,))\nreturn (w1,)",
        "v = broadcast(z, shape=(n, m), axes=(1,))\nreturn (v,)",
    ),
    "pad by nothing": (
        "v = literal(value=0.0, dtype=f32)\nw1 = pad(x, v, low=(0, 0), high=(0, 0), interior=(0, 0))\nreturn (w1,)",
        "return (x,)",
    ),
    "concat of one": ("v = concat(x, axis=0)\nreturn (v,)", "return (x,)"),
}

SINK = {
    "below a prefix of permuted axes": (
        "v = transpose(x, axes=(1, 0))\nw1 = cumsum(v, axis=0, reverse=True)\nreturn (w1,)",
        "v = cumsum(x, axis=1, reverse=True)\nw1 = transpose(v, axes=(1, 0))\nreturn (w1,)",
    ),
    "below a prefix with a unit axis": (
        "v = cumsum(u, axis=0, reverse=False)\nreturn (v,)",
        "v = reshape(u, shape=(n,))\nv1 = cumsum(v, axis=0, reverse=False)\nv2 = reshape(v1, shape=(n, 1))\n"
        "return (v2,)",
    ),
    "broadcasts of one kind": (
        "v = broadcast(y, shape=(n, m), axes=(0,))\nw1 = exp(v)\nw2 = add(w1, v)\nreturn (w2,)",
        "v = exp(y)\nw1 = add(v, y)\nw2 = broadcast(w1, shape=(n, m), axes=(0,))\nreturn (w2,)",
    ),
    "broadcast and number": (
        "v = broadcast(y, shape=(n, m), axes=(0,))\nl = literal(value=2.0, dtype=f32)\n"
        "b1 = broadcast(l, shape=(n, m), axes=())\nw1 = mul(v, b1)\nreturn (w1,)",
        "l = literal(value=2.0, dtype=f32)\nb1 = broadcast(l, shape=(n,), axes=())\nw1 = mul(y, b1)\n"
        "w2 = broadcast(w1, shape=(n, m), axes=(0,))\nreturn (w2,)",
    ),
    "numbers only": (
        "l = literal(value=2.0, dtype=f32)\nb1 = broadcast(l, shape=(n, m), axes=())\nw1 = exp(b1)\nreturn (w1,)",
        "l = literal(value=2.0, dtype=f32)\nw1 = exp(l)\nb1 = broadcast(w1, shape=(n, m), axes=())\nreturn (b1,)",
    ),
    "broadcasts of several axes": (
        "v = broadcast(y, shape=(b, n, m), axes=(1,))\nw1 = broadcast(x, shape=(b, n, m), axes=(1, 2))\n"
        "w2 = add(v, w1)\nreturn (w2,)",
        "v = broadcast(y, shape=(n, m), axes=(0,))\nw2 = add(v, x)\n"
        "w1 = broadcast(w2, shape=(b, n, m), axes=(1, 2))\nreturn (w1,)",
    ),
    "outer sum stays": (
        "v = broadcast(y, shape=(n, m), axes=(0,))\nw1 = broadcast(z, shape=(n, m), axes=(1,))\n"
        "w2 = add(v, w1)\nreturn (w2,)",
        "v = broadcast(y, shape=(n, m), axes=(0,))\nw1 = broadcast(z, shape=(n, m), axes=(1,))\n"
        "w2 = add(v, w1)\nreturn (w2,)",
    ),
    "where and cast": (
        "v = broadcast(y, shape=(n, m), axes=(0,))\nc = gt(v, v)\ni = cast(v, dtype=i32)\nw1 = where(c, i, i)\n"
        "return (w1,)",
        "c = gt(y, y)\ni = cast(y, dtype=i32)\nw1 = where(c, i, i)\nw2 = broadcast(w1, shape=(n, m), axes=(0,))\n"
        "return (w2,)",
    ),
    "keepdims arithmetic": (
        "v = reshape(y, shape=(n, 1))\nw1 = exp(v)\nw2 = add(w1, v)\n"
        "w3 = broadcast(w2, shape=(n, m), axes=(0, 1))\nw4 = sub(x, w3)\nreturn (w4,)",
        "w1 = exp(y)\nw2 = add(w1, y)\nw3 = broadcast(w2, shape=(n, m), axes=(0,))\nw4 = sub(x, w3)\nreturn (w4,)",
    ),
    "keepdims with an input of that shape": (
        "v = reshape(y, shape=(n, 1))\nw1 = add(u, v)\nw2 = broadcast(w1, shape=(n, m), axes=(0, 1))\nreturn (w2,)",
        "v = reshape(u, shape=(n,))\nw1 = add(v, y)\nw2 = broadcast(w1, shape=(n, m), axes=(0,))\nreturn (w2,)",
    ),
    "one row of a product with a vector": (
        "r = reshape(z, shape=(1, m))\np = matmul(r, w)\nv = reshape(p, shape=(k,))\nw1 = mul(v, h)\n"
        "w2 = tanh(w1)\nreturn (w2,)",
        "r = reshape(z, shape=(1, m))\np = matmul(r, w)\nv = reshape(h, shape=(1, k))\nw1 = mul(p, v)\n"
        "w2 = tanh(w1)\nw3 = reshape(w2, shape=(k,))\nreturn (w3,)",
    ),
    "computed values meet on the smaller shape": (
        "e = exp(u)\nl = reduce_max(x, axes=(1,))\nv = reshape(l, shape=(n, 1))\nw1 = add(e, v)\n"
        "w2 = broadcast(w1, shape=(n, m), axes=(0, 1))\nreturn (w2,)",
        "e = exp(u)\nl = reduce_max(x, axes=(1,))\nv = reshape(e, shape=(n,))\nw1 = add(v, l)\n"
        "w2 = broadcast(w1, shape=(n, m), axes=(0,))\nreturn (w2,)",
    ),
    "reshape of an input stays": (
        "v = reshape(x, shape=(m, n))\nw1 = exp(v)\nreturn (w1,)",
        "v = reshape(x, shape=(m, n))\nw1 = exp(v)\nreturn (w1,)",
    ),
    "reshape of a result": (
        "e = exp(x)\nv = reshape(e, shape=(m, n))\nw1 = tanh(v)\nreturn (w1,)",
        "e = exp(x)\nw1 = tanh(e)\nv = reshape(w1, shape=(m, n))\nreturn (v,)",
    ),
    "transposes of one kind": (
        "v = transpose(x, axes=(1, 0))\nw1 = exp(v)\nw2 = mul(w1, v)\nreturn (w2,)",
        "w1 = exp(x)\nw2 = mul(w1, x)\nv = transpose(w2, axes=(1, 0))\nreturn (v,)",
    ),
    "transpose and broadcast": (
        "v = transpose(x, axes=(1, 0))\nw1 = broadcast(y, shape=(m, n), axes=(1,))\nw2 = add(v, w1)\nreturn (w2,)",
        "w1 = broadcast(y, shape=(n, m), axes=(0,))\nw2 = add(x, w1)\nv = transpose(w2, axes=(1, 0))\nreturn (v,)",
    ),
    "transpose with another array stays": (
        "v = transpose(x, axes=(1, 0))\nw1 = add(v, t)\nreturn (w1,)",
        "v = transpose(x, axes=(1, 0))\nw1 = add(v, t)\nreturn (w1,)",
    ),
    "reduction of transpose": (
        "v = transpose(q, axes=(2, 0, 1))\nw1 = reduce_max(v, axes=(2,))\nreturn (w1,)",
        "v = reduce_max(q, axes=(1,))\nw1 = transpose(v, axes=(1, 0))\nreturn (w1,)",
    ),
    "reduction of keepdims": (
        "e = exp(x)\nv = reshape(e, shape=(n, 1, m))\nw1 = reduce_max(v, axes=(2,))\nreturn (w1,)",
        "e = exp(x)\nv = reduce_max(e, axes=(1,))\nw1 = reshape(v, shape=(n, 1))\nreturn (w1,)",
    ),
    "reduction of a unit axis": (
        "w1 = reduce_sum(u, axes=(1,))\nreturn (w1,)",
        "w1 = reshape(u, shape=(n,))\nreturn (w1,)",
    ),
    "reduction of merged rows": (
        "e = exp(q)\nv = reshape(e, shape=(b*s, m))\nw1 = reduce_max(v, axes=(1,))\nreturn (w1,)",
        "e = exp(q)\nv = reduce_max(e, axes=(2,))\nw1 = reshape(v, shape=(b*s,))\nreturn (w1,)",
    ),
    "reduction of all that is mixed": (
        "e = exp(q)\nv = reshape(e, shape=(b*s, m))\nw1 = reduce_max(v, axes=(0,))\nreturn (w1,)",
        "e = exp(q)\nv = reduce_max(e, axes=(0, 1))\nreturn (v,)",
    ),
    "elementwise after an optimization barrier": (
        "e = exp(q)\nv = reshape(e, shape=(b*s, m))\nw1 = optimization_barrier(v)\nw2 = tanh(w1)\nreturn (w2,)",
        "e = exp(q)\nv = optimization_barrier(e)\nw1 = tanh(v)\nw2 = reshape(w1, shape=(b*s, m))\nreturn (w2,)",
    ),
    "products with one matrix": (
        "v = broadcast(w, shape=(b, m, k), axes=(1, 2))\nw1 = matmul(q, v)\nreturn (w1,)",
        "v = reshape(q, shape=(b*s, m))\nw1 = matmul(v, w)\nw2 = reshape(w1, shape=(b, s, k))\nreturn (w2,)",
    ),
    "what follows a product": (
        "v = broadcast(w, shape=(b, m, k), axes=(1, 2))\nw1 = matmul(q, v)\nw2 = tanh(w1)\nreturn (w2,)",
        "v = reshape(q, shape=(b*s, m))\nw1 = matmul(v, w)\nw2 = tanh(w1)\nw3 = reshape(w2, shape=(b, s, k))\n"
        "return (w3,)",
    ),
}


@pytest.mark.parametrize("name", CANCEL)
def test_cancelling(name):
    check(*CANCEL[name])


@pytest.mark.parametrize("name", SINK)
def test_sinking(name):
    check(*SINK[name])


def check(before, after):
    result = expect(movement, X, before, after)
    graph = program(X, before)
    assert_same_results(graph, result, SIZES)
    assert dce(movement(dce(result))) == dce(result)


def test_static_unit_rows_stay_rows():
    """A batch of 1 with static sizes takes the form of any other batch."""
    before = """
    v1 = reduce_sum(x, axes=(1,))
    v2 = reshape(v1, shape=(1, 1))
    v3 = exp(v2)
    v4 = broadcast(v3, shape=(1, 8), axes=(0, 1))
    v5 = sub(x, v4)
    return (v5,)"""
    after = """
    v1 = reduce_sum(x, axes=(1,))
    v3 = exp(v1)
    v4 = broadcast(v3, shape=(1, 8), axes=(0,))
    v5 = sub(x, v4)
    return (v5,)"""
    expect(movement, "x: f32[1, 8]", before, after)


def shape(text):
    """The shape of the first input of ``f(x: f32[text])``."""
    return program(f"x: f32[{text}]", "return (x,)").inputs[0].shape


def test_what_is_below_a_reshape_already_is_not_reshaped_back():
    before = program(X, "v = exp(x)\nw1 = reshape(v, shape=(n*m,))\nw2 = neg(w1)\nw3 = mul(w2, w1)\nreturn (w3,)")
    names = [node.primitive.name for _, node in movement(before).nodes() if node.primitive.name != "input"]
    assert names == ["exp", "reshape", "neg", "reshape", "mul", "reshape"]


def test_alignment_of_axes():
    found = align(shape("n, 1, b*s, m"), shape("n, b, s, 1, m"))
    assert (found.axes, found.old_rest, found.new_rest) == ({0: 0, 3: 4}, (2,), (1, 2))
    assert align(shape("4, 4"), shape("4, 2, 2")).axes == {0: 0}
    assert align(shape("n, m"), shape("m, n")).axes == {}
    assert align(shape("1, n"), shape("n")).axes == {1: 0}


def test_inserted_units():
    assert inserts_units(shape("n"), shape("n, 1")) and inserts_units(shape("1, n"), shape("1, 1, n"))
    assert not inserts_units(shape("n, 1"), shape("n")) and not inserts_units(shape("n"), shape("n"))
    assert not inserts_units(shape("n, m"), shape("n, 2, m"))
    assert subsequence(shape("n, m"), shape("1, n, 1, m")) == (1, 3)
    assert subsequence(shape("n, m"), shape("m, n")) is None


def test_borders_and_slices_move_before_a_transpose():
    signature = "x: f32[n, k, h, w, c]"
    transposed = "v1 = transpose(x, axes=(0, 1, 4, 2, 3))\nv2 = reshape(v1, shape=(n, c*k, h, w))\n"
    before = (
        transposed
        + """z = literal(value=0.0, dtype=f32)
v3 = pad(v2, z, low=(0, 0, 1, 2), high=(0, 0, 0, 1), interior=(0, 0, 0, 1))
v4 = slice(v3, start=(0, 0, 0, 1), stop=(n, c*k, h, 2), step=(1, 1, 2, 3))
return (v4,)"""
    )
    result = verify(movement(program(signature, before)))
    names = [node.primitive.name for _, node in dce(result).nodes()]
    assert names == ["input", "literal", "pad", "slice", "transpose", "reshape"]
    assert_same_results(program(signature, before), result, {"n": 2, "k": 2, "h": 3, "w": 4, "c": 5})


def test_a_border_of_neighbours_stays_after_a_transpose():
    body = ("v1 = transpose(x, axes=(1, 0))\nz = literal(value=0.0, dtype=f32)\n"
            "v2 = pad(v1, z, low=(1, 0), high=(0, 0), interior=(0, 0))\nreturn (v2,)")  # fmt: skip
    check(body, body)
