"""Updates of views become updates of the arrays that they show."""

import pytest

from tests.passes.compare import expect
from zenith.passes.updates import updates

X = "x: f32[n, 5], u: f32[2, n], w: f32[2, 1], v: f32[n, 2]"


def test_of_a_transpose():
    expect(
        updates, X,
        "t = transpose(x, axes=(1, 0))\ny = update_slice(t, u, start=(1, 0), stop=(5, n), step=(2, 1))\nreturn (y,)",
        "a = transpose(u, axes=(1, 0))\nb = update_slice(x, a, start=(0, 1), stop=(n, 5), step=(1, 2))\n"
        "y = transpose(b, axes=(1, 0))\nreturn (y,)",
    )  # fmt: skip


def test_of_a_reverse():
    expect(
        updates, X,
        "t = reverse(x, axes=(1,))\ny = update_slice(t, v, start=(0, 1), stop=(n, 3), step=(1, 1))\nreturn (y,)",
        "a = reverse(v, axes=(1,))\nb = update_slice(x, a, start=(0, 2), stop=(n, 4), step=(1, 1))\n"
        "y = reverse(b, axes=(1,))\nreturn (y,)",
    )  # fmt: skip


def test_a_reverse_in_steps_stays():
    before = "t = reverse(x, axes=(1,))\ny = update_slice(t, v, start=(0, 1), stop=(n, 4), step=(1, 2))\nreturn (y,)"
    expect(updates, X, before, before)


def test_of_a_slice():
    expect(
        updates, "x: f32[6, n], u: f32[2, n]",
        "t = slice(x, start=(1, 0), stop=(6, n), step=(1, 1))\n"
        "p = update_slice(t, u, start=(0, 0), stop=(4, n), step=(2, 1))\n"
        "y = update_slice(x, p, start=(1, 0), stop=(6, n), step=(1, 1))\nreturn (y,)",
        "y = update_slice(x, u, start=(1, 0), stop=(5, n), step=(2, 1))\nreturn (y,)",
    )  # fmt: skip


SAME = "start=(0, 1), stop=(n, 3), step=(1, 1)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t = slice(x, {0})\ny = update_slice(x, t, {0})", ""),
        ("t = neg(x)\ny = update_slice(x, t, start=(0, 0), stop=(n, 5), step=(1, 1))", "y = neg(x)"),
    ],
    ids=["what is there", "all of it"],
)
def test_what_is_not_to_be_written(before, after):
    result = "y" if after else "x"
    expect(updates, X, before.format(SAME) + "\nreturn (y,)", after.format(SAME) + f"\nreturn ({result},)")


def test_other_positions_stay():
    before = (
        f"a = update_slice(x, v, {SAME})\nt = slice(a, start=(0, 0), stop=(n, 2), step=(1, 1))\n"
        f"y = update_slice(a, t, {SAME})\nreturn (y,)"
    )
    expect(updates, X, before, before)


def test_of_joined_arrays_in_memory_without_contents():
    expect(
        updates, "u: f32[2, n], w: f32[3, n]",
        "t = empty(dtype=f32, shape=(9, n))\nc = concat(u, w, axis=0)\n"
        "y = update_slice(t, c, start=(1, 0), stop=(6, n), step=(1, 1))\nreturn (y,)",
        "t = empty(dtype=f32, shape=(9, n))\na = update_slice(t, u, start=(1, 0), stop=(3, n), step=(1, 1))\n"
        "y = update_slice(a, w, start=(3, 0), stop=(6, n), step=(1, 1))\nreturn (y,)",
    )  # fmt: skip
