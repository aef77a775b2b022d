"""Comparisons of positions and sizes with numbers are decided when the program is compiled."""

import pytest

from tests.passes.compare import expect
from zenith.passes.fold import fold

BEFORE = """v1 = iota(size=n, dtype=i64)
v2 = literal(value={number}, dtype=i64)
v3 = broadcast(v2, shape=(n,), axes=())
v4 = {comparison}
return (v4,)"""
KNOWN = {"lt(v1, v3)": False, "ge(v1, v3)": True, "gt(v3, v1)": False, "le(v3, v1)": True}


@pytest.mark.parametrize("comparison", KNOWN)
@pytest.mark.parametrize("number", [0, -3])
def test_positions_are_not_negative(comparison, number):
    after = f"""v1 = literal(value={KNOWN[comparison]}, dtype=bool)
v2 = broadcast(v1, shape=(n,), axes=())
return (v2,)"""
    expect(fold, "x: f32[n]", BEFORE.format(number=number, comparison=comparison), after)


@pytest.mark.parametrize("comparison", [*KNOWN, "gt(v1, v3)", "lt(v3, v1)", "eq(v1, v3)"])
def test_what_depends_on_the_position_stays(comparison):
    before = BEFORE.format(number=1, comparison=comparison)
    expect(fold, "x: f32[n]", before, before)


@pytest.mark.parametrize(("dtype", "size", "known"), [("i8", "n", False), ("i8", "128", True), ("i8", "129", False),
                                                      ("u8", "n", True), ("i32", "n", True)])  # fmt: skip
def test_positions_that_may_wrap_are_not_trusted(dtype, size, known):
    before = f"""v1 = iota(size={size}, dtype={dtype})
v2 = literal(value=0, dtype={dtype})
v3 = broadcast(v2, shape=({size},), axes=())
v4 = lt(v1, v3)
return (v4,)"""
    after = f"v1 = literal(value=False, dtype=bool)\nv2 = broadcast(v1, shape=({size},), axes=())\nreturn (v2,)"
    expect(fold, "x: f32[n]", before, after if known else before)


def test_unsigned_numbers_are_not_negative():
    before = """v1 = literal(value=0, dtype=u16)
v2 = broadcast(v1, shape=(n,), axes=())
v3 = lt(x, v2)
return (v3,)"""
    after = "v1 = literal(value=False, dtype=bool)\nv2 = broadcast(v1, shape=(n,), axes=())\nreturn (v2,)"
    expect(fold, "x: u16[n]", before, after)


@pytest.mark.parametrize("size", ["n - 5", "m - n", "((n - 5)//2)"])
def test_differences_of_sizes_may_be_negative(size):
    before = f"""v2 = size(value={size})
v3 = literal(value=0, dtype=i64)
v4 = lt(v2, v3)
return (v4,)"""
    expect(fold, "x: f32[n], y: f32[m]", before, before)


def test_through_moves():
    before = """v1 = size(value=n)
v2 = broadcast(v1, shape=(2, n), axes=())
v3 = transpose(v2, axes=(1, 0))
v4 = literal(value=0, dtype=i64)
v5 = broadcast(v4, shape=(n, 2), axes=())
v6 = lt(v3, v5)
return (v6,)"""
    after = "v1 = literal(value=False, dtype=bool)\nv2 = broadcast(v1, shape=(n, 2), axes=())\nreturn (v2,)"
    expect(fold, "x: f32[n]", before, after)


def test_positions_from_the_start_are_no_positions_from_the_end():
    before = """v1 = iota(size=n, dtype=i32)
v2 = broadcast(v1, shape=(2, n), axes=(1,))
v3 = wrapped(v2, size=m)
return (v3,)"""
    after = """v1 = iota(size=n, dtype=i32)
v2 = broadcast(v1, shape=(2, n), axes=(1,))
v3 = cast(v2, dtype=i64)
return (v3,)"""
    expect(fold, "x: f32[n, m]", before, after)
    unknown = "v1 = wrapped(x, size=4)\nreturn (v1,)"
    expect(fold, "x: i64[n]", unknown, unknown)
