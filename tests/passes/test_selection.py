"""Selection: sorts whose results are read at a few places alone."""

import pytest

from tests.passes.compare import assert_same_results, expect, program
from zenith.passes import selection as module
from zenith.passes.selection import selection

INPUTS = "x: f32[n, m], i: i64, w: i32[2, 1]"
SIZES = {"n": 3, "m": 3000}
FIRST = "v1_0, v1_1 = sort(x, descending=False)\n"

STAYING = {
    "few elements, in descending order": "v1_0, v1_1 = sort(x, descending=True)\n"
    "v2 = slice(v1_0, start=(0, 1), stop=(n, 2), step=(1, 1))\nreturn (v2,)",
    "a reader of all": FIRST + "v2 = slice(v1_0, start=(0, 1), stop=(n, 2), step=(1, 1))\nv3 = neg(v1_0)\n"
    "return (v2, v3)",
    "a result": FIRST + "v2 = slice(v1_0, start=(0, 1), stop=(n, 2), step=(1, 1))\nreturn (v2, v1_0)",
    "indices": FIRST + "v2 = slice(v1_1, start=(0, 1), stop=(n, 2), step=(1, 1))\nreturn (v2,)",
    "many elements": FIRST + "v2 = slice(v1_0, start=(0, 1), stop=(n, 18), step=(1, 1))\nreturn (v2,)",
    "an unknown number of elements": FIRST + "v2 = slice(v1_0, start=(0, 1), stop=(n, m), step=(1, 1))\nreturn (v2,)",
    "some rows": FIRST + "v2 = slice(v1_0, start=(1, 1), stop=(n, 2), step=(1, 1))\nreturn (v2,)",
    "rows that are taken": FIRST + "v2 = take(v1_0, i, axis=0)\nreturn (v2,)",
}


def test_one_selection_for_all_readers() -> None:
    """The indices that a later reader takes are computed in front of the selection."""
    before = (
        FIRST + "v2 = slice(v1_0, start=(0, m - 3), stop=(n, m), step=(1, 2))\nv3 = add(i, i)\n"
        "v4 = take(v1_0, v3, axis=1)\nv5 = take(v1_0, w, axis=1)\nreturn (v2, v4, v5)"
    )
    result = selection(program(INPUTS, before))
    (node,) = [node for _, node in result.nodes() if node.primitive.name == "order_statistics"]
    assert node.types[0].shape[1] == 5
    assert_same_results(program(INPUTS, before), result, SIZES)


@pytest.mark.parametrize("case", STAYING)
def test_what_is_sorted_stays(case: str) -> None:
    expect(selection, INPUTS, STAYING[case], STAYING[case])


def test_short_rows_stay() -> None:
    body = FIRST + "v2 = slice(v1_0, start=(0, 1), stop=(n, 2), step=(1, 1))\nreturn (v2,)"
    expect(selection, f"x: f32[n, {module.LEAST}]", body, body)


def test_an_index_that_follows_from_the_sorted_row_stays() -> None:
    body = FIRST + (
        "v2 = slice(v1_1, start=(0, 1), stop=(n, 2), step=(1, 1))\nv3 = reshape(v2, shape=(n,))\n"
        "v4 = take(v1_0, v3, axis=1)\nreturn (v4,)"
    )
    expect(selection, INPUTS, body, body)
