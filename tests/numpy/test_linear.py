"""Products against NumPy: every combination of ranks, element types, empty inner sizes, einsum."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.numpy.comparison import DTYPES, check, run_traced, traced, values
from zenith.errors import DTypeError, ShapeError, UnsupportedError

F8 = np.dtype("f8")
LEFT = ((4,), (3, 4), (2, 3, 4), (1, 3, 4), (5, 2, 3, 4))
RIGHT = ((4,), (4, 5), (2, 4, 5), (1, 4, 5), (5, 1, 4, 5))


@pytest.mark.parametrize(("left", "right"), list(itertools.product(LEFT, RIGHT)), ids=str)
def test_matmul_of_all_ranks(left, right):
    x, y = values(F8, left, 1), values(F8, right, 2)
    check(lambda xp, a, b: xp.matmul(a, b), x, y, ulps=64)
    check(lambda xp, a, b: a @ b, x, y, ulps=64)


@pytest.mark.parametrize(("left", "right"), list(itertools.product(DTYPES[1:], DTYPES[1:])), ids=str)
def test_matmul_of_all_types(left, right):
    check(lambda xp, a, b: a @ b, values(left, (3, 4), 1), values(right, (4, 2), 2), ulps=64)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("keyword", ["dtype", "preferred_element_type"])
def test_matmul_gives_the_type_that_is_asked_for(keyword, dtype):
    """Products of halves are exact in float32, which two halves of a large number show."""
    x, y = np.full((2, 3), 300, dtype), np.full((3, 2), 301, dtype)
    wanted = x.astype(np.float32) @ y.astype(np.float32)
    for matmul in (znp.matmul, zenith.jit(znp.matmul, static_argnames=(keyword,))):
        found = matmul(x, y, **{keyword: np.float32})
        assert found.dtype == np.float32 and np.array_equal(found, wanted)
    assert np.array_equal(zenith.jit(lambda a, b: np.matmul(a, b, dtype=np.float32))(x, y), wanted)


def test_a_type_that_matmul_cannot_give():
    x = np.ones((2, 2), np.float32)
    with pytest.raises(DTypeError, match="matmul: float32 cannot be cast to int32"):
        znp.matmul(x, x, dtype=np.int32)
    with pytest.raises(DTypeError, match="for float64 by dtype= and for float32 by preferred_element_type="):
        znp.matmul(x, x, dtype=np.float64, preferred_element_type=np.float32)
    with pytest.raises(UnsupportedError, match="matmul: the options axes are not supported"):
        znp.matmul(x, x, axes=[(0, 1), (0, 1), (0, 1)])


def test_matmul_of_nothing():
    check(lambda xp, a, b: a @ b, np.zeros((3, 0)), np.zeros((0, 2)))
    check(lambda xp, a, b: a @ b, np.zeros((0, 3)), np.ones((3, 2)))


@pytest.mark.parametrize(
    ("left", "right"),
    [((), (3,)), ((4,), (4,)), ((3, 4), (4,)), ((3, 4), (4, 2)), ((2, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3))],
    ids=str,
)
def test_dot(left, right):
    check(lambda xp, a, b: (xp.dot(a, b), a.dot(b)), values(F8, left, 1), values(F8, right, 2), ulps=64)


def test_other_products():
    x, y, m = values(F8, (3, 4), 1), values(F8, (3, 4), 2), values(F8, (2, 4, 4), 3)
    check(
        lambda xp, a, b: (xp.inner(a, b), xp.outer(a, b), xp.vdot(a, b), xp.vecdot(a, b), xp.vecdot(a, b, axis=0)),
        x,
        y,
        ulps=64,
    )
    check(
        lambda xp, a, b: (xp.tensordot(a, b), xp.tensordot(a, b, ((1,), (1,))), xp.tensordot(a, b, axes=0)),
        x,
        y,
        ulps=64,
    )
    check(lambda xp, a, b: (xp.matvec(b, a[0]), xp.vecmat(a[0], b)), x, m, ulps=64)


def test_diagonals_and_norms():
    x = values(F8, (3, 4), 1)
    check(lambda xp, a: [xp.diagonal(a, k) for k in range(-3, 5)], x)
    check(lambda xp, a: (xp.trace(a), a.trace(1), xp.diag(a), xp.diag(a[0]), xp.diag(a[1], 2), xp.diag(a[1], -1)), x)
    norms = ((None, None), (None, 0), (1, 1), (np.inf, 0), (-np.inf, 1), ("fro", (0, 1)), (2, 1))
    for order, axis in norms:
        actual = run_traced(lambda a, o=order, ax=axis: np.linalg.norm(a, o, ax), x)[0]
        np.testing.assert_allclose(actual, np.linalg.norm(x, order, axis), rtol=1e-14)


EINSUMS = (
    ("ij,jk->ik", (3, 4), (4, 2)),
    ("ij,jk", (3, 4), (4, 2)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("i,i->", (4,), (4,)),
    ("ij->ji", (3, 4)),
    ("ij->", (3, 4)),
    ("ij->j", (3, 4)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)),
    ("i,j->ij", (3,), (4,)),
    ("ij,j,jk->ik", (3, 4), (4,), (4, 2)),
    ("ij,kj->", (3, 4), (2, 4)),
    ("bi,bi->b", (3, 4), (3, 4)),
    ("...i,i", (2, 3), (3,)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("...ii->...i", (2, 3, 3)),
    ("iii", (2, 2, 2)),
    ("ijij->ji", (2, 3, 2, 3)),
    ("bii,bi->b", (2, 3, 3), (2, 3)),
    ("...ij,...jk->...ik", (1, 3, 4), (5, 4, 2)),
    ("ij,j", (3, 4), (1,)),
    ("ij,ij->ij", (1, 4), (3, 1)),
)


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: c[0])
def test_einsum(case):
    text, *shapes = case
    arrays = [values(F8, s, i) for i, s in enumerate(shapes)]
    check(lambda xp, *xs: xp.einsum(text, *xs), *arrays, ulps=64)
    check(lambda xp, *xs: xp.einsum(text, *(x > 0 for x in xs)), *arrays)


def test_einsum_of_lists_and_types():
    x, y = values(F8, (3, 4), 1), values(F8, (4, 2), 2)
    check(lambda xp, a, b: (xp.einsum(a, [0, 1], b, [1, 2], [0, 2]), xp.einsum(a, [7, 2])), x, y, ulps=64)
    check(lambda xp, a, b: (xp.einsum(a, [..., 0], [...]), xp.einsum(a, [0, 1], b, [1, 2])), x, y, ulps=64)
    check(lambda xp, a, b: xp.einsum("ij,jk", a, b, dtype="f8"), x.astype("f4"), y.astype("f4"))


def test_products_of_truths():
    x, y = values(np.dtype("?"), (5, 3, 4), 1), values(np.dtype("?"), (4, 3), 2)
    check(lambda xp, a, b: (a @ b, xp.dot(a, b), xp.tensordot(a, b, 1), xp.inner(a, b.T), xp.vecdot(a, b.T)), x, y)
    check(
        lambda xp, a, b: (xp.vdot(b, b), xp.outer(b, b), xp.vecmat(b[0], b.T), xp.linalg.matrix_power(b[:3], 3)), x, y
    )


def test_inner_sizes_that_are_not_fixed_are_required_equal():
    found = traced(lambda a, b: a @ b, np.zeros((3, 4)), np.zeros((4, 5)))
    (guard,) = found.guards
    assert (guard.kind, str(guard)) == ("require", "require(s0_1 == s1_0)")
    assert "the inner sizes of (s0_0, s0_1) and (s1_0, s1_1) must be equal" in guard.reason
    assert guard.line is not None
    assert found.graph.guards == ()
    assert str(found.graph.outputs[0].type) == "f64[s0_0, s1_1]"


def test_one_weight_matrix_is_not_repeated():
    graph = traced(lambda a, b: a @ b, np.zeros((2, 3, 4)), np.zeros((4, 5)), symbolic=False).graph
    assert [node.primitive.name for _, node in graph.nodes()] == ["input", "input", "reshape", "matmul", "reshape"]


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (
            lambda a: a @ a,
            ShapeError,
            r"matmul: the inner sizes of \(3, 4\) and \(3, 4\) must be equal: 4 == 3 does not hold",
        ),
        (lambda a: a @ 2, ShapeError, "matmul needs arrays with axes"),
        (lambda a: np.einsum("ij,jk", a), ShapeError, "2 terms for 1 operands"),
        (lambda a: np.einsum("ii", a), ShapeError, "einsum: the sizes of axis 'i' must be equal"),
        (lambda a: np.einsum("ij", a, order="C"), UnsupportedError, "einsum: the options order are not supported"),
        (lambda a: np.einsum("ij->ik", a), ShapeError, "the result 'ik' does not follow"),
        (lambda a: np.einsum("i->i", a), ShapeError, "the term 'i' does not fit an operand of 2 axes"),
        (lambda a: np.einsum(a, a), UnsupportedError, "einsum takes a text and operands, or operands with a list"),
        (lambda a: np.tensordot(a, a, ((0, 1), (0,))), ShapeError, "as many axes"),
    ],
)
def test_products_that_do_not_fit(function, error, text):
    with pytest.raises(error, match=text):
        run_traced(function, np.zeros((3, 4)), symbolic=False)


def test_einsum_takes_python_numbers_as_arrays():
    x = values(np.dtype("f4"), (3,))
    check(lambda xp, a: (xp.einsum(",i->i", 2.0, a), xp.einsum("i,", a, 2)), x)
