"""Linear algebra against NumPy's, on stacks of matrices: values, derivatives that no phase changes, bad input."""

import itertools

import numpy as np
import pytest

import zenith
from tests.numpy.comparison import as_list, check, run_traced, traced
from tests.sampling import leave
from zenith.errors import ArgumentError, DTypeError, ShapeError, TraceError, UnsupportedError, ZenithError
from zenith.numpy import linalg

KINDS = [np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128)]
ULPS = 512.0  # conditions of the matrices here are below 100


def matrices(dtype, shape, seed=0):
    """Random matrices with a strong diagonal."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, shape) + (1j * rng.uniform(-1, 1, shape) if dtype.kind == "c" else 0)
    return (x + 3 * np.eye(*shape[-2:])).astype(dtype)


def definite(dtype, shape, seed=0):
    x = matrices(dtype, shape, seed)
    return x @ np.conj(np.swapaxes(x, -1, -2))


@pytest.mark.parametrize("size", [1, 3, 4, 6])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_equations(dtype, size):
    a, y = matrices(dtype, (2, 3, size, size)), matrices(dtype, (3, size, 2), 1)
    functions = [lambda xp, a, y: xp.linalg.solve(a, y), lambda xp, a, y: xp.linalg.solve(a, y[0, :, 0]),
                 lambda xp, a, y: [xp.linalg.inv(a), xp.linalg.det(a), *xp.linalg.slogdet(a)],
                 lambda xp, a, y: [xp.linalg.matrix_power(a, n) for n in (0, 1, 3, -2)]]  # fmt: skip
    for function in functions:
        check(function, a, y, ulps=ULPS)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_factors(dtype):
    a, h = matrices(dtype, (2, 5, 3)), definite(dtype, (2, 4, 4))
    check(lambda xp, h: [xp.linalg.cholesky(h), xp.linalg.cholesky(h, upper=True)], h, ulps=ULPS)
    check(lambda xp, h: [xp.linalg.eigvalsh(h), xp.linalg.eigvalsh(h, "U"), *xp.linalg.eigh(h)], h, ulps=ULPS)
    check(lambda xp, a: [*xp.linalg.qr(a), xp.linalg.qr(a, "r"), *xp.linalg.qr(a, "complete")], a, ulps=ULPS)
    check(lambda xp, a: [*xp.linalg.svd(a), *xp.linalg.svd(a, full_matrices=False), xp.linalg.svdvals(a),
                         xp.linalg.svd(a, compute_uv=False)], a, ulps=ULPS)  # fmt: skip


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_hermitian_matrices_of_which_one_triangle_is_read(dtype):
    h = definite(dtype, (2, 4, 4)) - 3 * np.eye(4, dtype=dtype)
    h[0, 0, 3] = 100
    check(lambda xp, h: [*xp.linalg.svd(h, hermitian=True), xp.linalg.svd(h, compute_uv=False, hermitian=True),
                         xp.linalg.pinv(h, hermitian=True)], h, ulps=ULPS)  # fmt: skip


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_wide_matrices(dtype):
    a = matrices(dtype, (2, 3, 5))
    for symbolic in (False, True):
        q, r = run_traced(lambda a: np.linalg.qr(a), a, symbolic=symbolic)
        assert q.shape == (2, 3, 3) and r.shape == (2, 3, 5) and (np.tril(r, -1) == 0).all()
        np.testing.assert_allclose(q @ r, a, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.conj(np.swapaxes(q, 1, 2)) @ q, np.broadcast_to(np.eye(3), q.shape), atol=1e-5)


VECTOR_ORDERS = [None, 0, 1, -1, 2, -2, 3, 0.5, np.inf, -np.inf]
MATRIX_ORDERS = [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [*KINDS, np.dtype(np.int32)], ids=str)
def test_norms(dtype):
    x = (matrices(np.dtype(np.float64), (3, 4, 5)) * 3).astype(dtype)
    check(lambda xp, x: [xp.linalg.norm(x, order, 1) for order in VECTOR_ORDERS], x, ulps=ULPS)
    check(lambda xp, x: [xp.linalg.norm(x, order, (2, 0)) for order in MATRIX_ORDERS], x, ulps=ULPS)
    check(lambda xp, x: [xp.linalg.norm(x), xp.linalg.norm(x[0], 1, keepdims=True)], x, ulps=ULPS)
    check(lambda xp, x: [xp.linalg.matrix_norm(x, ord=o, keepdims=True) for o in MATRIX_ORDERS], x, ulps=ULPS)
    check(lambda xp, x: [xp.linalg.vector_norm(x, ord=o, axis=(0, 2)) for o in (1, 2, np.inf)], x, ulps=ULPS)


@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_what_compares_singular_values(dtype):
    a = matrices(dtype, (2, 5, 3))
    check(lambda xp, a: [xp.linalg.pinv(a), xp.linalg.matrix_rank(a), xp.linalg.cond(a)], a, ulps=ULPS)
    check(lambda xp, a: [xp.linalg.pinv(a, rcond=0.3), xp.linalg.matrix_rank(a, 2.5)], a, ulps=ULPS)
    check(lambda xp, a: [xp.linalg.cond(a, p) for p in (2, -2, 1, "fro")], a[:, :3], ulps=ULPS)
    for y in (a[1, :, :2], a[1, :, 0]):
        check(lambda xp, a, y: xp.linalg.lstsq(a, y), a[0], y, ulps=ULPS)
    singular = np.outer(np.arange(1, 4), np.arange(1, 4)).astype(dtype)
    check(lambda xp, a: [xp.linalg.matrix_rank(a), xp.linalg.matrix_rank(a[0])], singular)


def test_products_of_several_axes():
    a = matrices(np.dtype(float), (6, 6)).reshape(2, 3, 6)
    check(lambda xp, a: xp.linalg.tensorsolve(a, a[:, :, 0] + 1), a, ulps=ULPS)
    check(lambda xp, a: [xp.linalg.tensorinv(a), xp.linalg.tensorinv(a.reshape(6, 3, 2), 1)], a, ulps=ULPS)
    x, y, z = (matrices(np.dtype(float), s) for s in ((2, 30), (30, 4), (4, 50)))
    check(lambda xp, x, y, z: [xp.linalg.multi_dot([x, y, z]), xp.linalg.multi_dot([x[0], y, z[:, 0]]),
                               xp.linalg.multi_dot([x, y, z[:, 0]]), xp.linalg.multi_dot([x[0], y])],
          x, y, z)  # fmt: skip
    check(lambda xp, a: [xp.linalg.diagonal(a, offset=1), xp.linalg.trace(a), xp.linalg.matrix_transpose(a),
                         xp.linalg.outer(a[0, 0], a[1, 0]), xp.linalg.cross(a[..., :3], a[..., 3:]),
                         xp.linalg.vecdot(a, a), xp.linalg.tensordot(a, a, axes=((0, 1), (0, 1)))], a)  # fmt: skip


def test_the_cheapest_order_of_products():
    x, y, z = (matrices(np.dtype(float), s) for s in ((2, 30), (30, 4), (4, 50)))
    graph = traced(lambda x, y, z: linalg.multi_dot([x, y, z]), x, y, z, symbolic=False).graph
    products = [n for _, n in graph.nodes() if n.primitive.name == "matmul"]
    assert [[d.static for d in n.types[0].shape] for n in products] == [[2, 4], [2, 50]]


def test_a_matrix_without_a_result_leaves_the_others_alone():
    a = np.stack([np.eye(5), -np.eye(5), np.zeros((5, 5))])
    with np.errstate(all="ignore"):
        factors, inverses = zenith.jit(lambda a: (np.linalg.cholesky(a), np.linalg.inv(a)))(a)
    np.testing.assert_array_equal(factors[0], np.eye(5))
    assert np.isnan(factors[1:]).all() and np.isnan(inverses[2]).all()
    np.testing.assert_array_equal(inverses[:2], a[:2])
    small = zenith.jit(np.linalg.inv)(a[:, :3, :3])
    np.testing.assert_array_equal(small[:2], a[:2, :3, :3])
    assert not np.isfinite(small[2]).any()


def test_small_matrices_are_kernels_and_large_ones_calls():
    @zenith.jit
    def both(a):
        return np.linalg.inv(a), np.linalg.det(a)

    def names(size):
        return {n.primitive.name for _, n in both.lower(np.ones((7, size, size))).graph.nodes()}

    assert not names(4) & {"solve", "det"} and names(5) >= {"solve", "det"}
    for size in (5, 9, 3, 12, 3):
        both(np.eye(size)[None])
    assert both.cache_info().misses == 2  # one program for all large sizes, one for each small one


def test_determinants_and_conditions_of_singular_matrices():
    for size in (1, 2, 3, 4, 5):
        a = np.stack([np.ones((size, size)), np.zeros((size, size)), np.diag(np.arange(size) * 1.0)])
        np.testing.assert_allclose(zenith.jit(np.linalg.det)(a), np.linalg.det(a), atol=1e-12)
        with np.errstate(all="ignore"):
            check(lambda xp, a: [xp.linalg.cond(a, p) for p in (None, -2, 1, "fro")], np.zeros((size, size)))


def test_types_that_meet():
    a, y = 3 * np.eye(5), np.ones(5)
    for left, right in ((np.float32, np.float64), (np.float32, np.int8), (np.int8, np.complex64)):
        check(
            lambda xp, a, y: [xp.linalg.solve(a, y), xp.linalg.lstsq(a, y)[0]],
            a.astype(left),
            y.astype(right),
            ulps=ULPS,
        )


def test_small_singular_values_of_least_squares():
    a = np.array([[1.0, 2], [2, 4], [3, 6]])
    check(lambda xp, a: [xp.linalg.lstsq(a, a[:, 0], rcond)[0] for rcond in (None, -1, 0.1)], a, ulps=ULPS)


def test_axes_of_equations():
    a, y = matrices(np.dtype(float), (24, 24)).reshape(4, 6, 8, 3), matrices(np.dtype(float), (8, 3))
    check(lambda xp, a, y: xp.linalg.tensorsolve(a, y, axes=(0, 1)), a, y, ulps=ULPS)


# --- derivatives ------------------------------------------------------------------------------------------------------


def _difference(function, x, direction, step=1e-6):
    return (function(x + step * direction) - function(x - step * direction)) / (2 * step)


FUNCTIONS = {
    "cholesky": lambda a: np.abs(np.linalg.cholesky(a @ np.conj(a.T))).sum(),
    "vectors of Hermitian matrices": lambda a: _of_eigh(a + np.conj(a.T)),
    "singular vectors": lambda a: _of_svd(a),
    "one column's singular vectors": lambda a: _of_svd(a[:, :2]),
    "Q": lambda a: np.real(np.linalg.qr(a[:, :2])[0][0]).sum(),
    "R": lambda a: np.real(np.linalg.qr(a)[1]).sum(),
    "inverse": lambda a: np.real(np.linalg.inv(a)).sum(),
    "determinant": lambda a: np.real(np.linalg.det(a) * (1 + 2j) if a.dtype.kind == "c" else np.linalg.det(a)),
    "its sign": lambda a: np.real(np.linalg.slogdet(a)[0] * (1 + 2j)) + np.linalg.slogdet(a)[1],
    "pseudoinverse": lambda a: np.abs(np.linalg.pinv(a[:, :3])).sum(),
    "nuclear norm": lambda a: np.linalg.norm(a, "nuc"),
}


def _of_eigh(a):
    values, vectors = np.linalg.eigh(a)
    return np.abs((vectors * np.exp(values / 9)) @ np.conj(vectors.T)).sum()


def _of_svd(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.real((u * np.sin(s)) @ vh).sum()


# Of what compiles longest, one type.
LONG = {
    "singular vectors": np.float64,
    "one column's singular vectors": np.float64,
    "vectors of Hermitian matrices": np.complex128,
    "pseudoinverse": np.float64,
}


@pytest.mark.parametrize(("name", "dtype"), leave(
    lambda case: case[1] != LONG.get(case[0], case[1]),
    itertools.product(FUNCTIONS, (np.dtype(np.float64), np.dtype(np.complex128))),
), ids=str)  # fmt: skip
def test_derivatives(name, dtype):
    function, a = FUNCTIONS[name], matrices(dtype, (5, 5), 3)
    direction = matrices(dtype, (5, 5), 4)
    expected = _difference(function, a, direction)
    gradient = zenith.jit(zenith.grad(function))(a)
    np.testing.assert_allclose(np.real((gradient * direction).sum()), expected, rtol=1e-6)
    _, moved = zenith.jvp(function, (a,), (direction,))
    np.testing.assert_allclose(moved, expected, rtol=1e-6)


def lacking(dtype, ranks):
    """A matrix of six rows that lacks so many ranks."""
    a = matrices(dtype, (6, 6), 5)
    a[:ranks] = matrices(dtype, (ranks, 6 - ranks), 6) @ a[ranks:] if ranks else a[:0]
    return a


@pytest.mark.parametrize("dtype", [np.dtype(np.float64), np.dtype(np.complex128)], ids=str)
def test_determinants_of_singular_matrices_have_derivatives(dtype):
    """Those of a polynomial: of rank n - 1 the first is there, of rank n - 2 the second, of others neither."""
    weight = 1 + 2j if dtype.kind == "c" else 1.0
    u, v = matrices(dtype, (6, 6), 7), matrices(dtype, (6, 6), 8)
    gradient = zenith.jit(zenith.grad(lambda a: np.real(np.linalg.det(a) * weight)))
    second = zenith.jit(lambda a, u, v: zenith.jvp(gradient, (a,), (v,))[1])
    for ranks in range(4):
        a = lacking(dtype, ranks)
        steps = 1e-2 * np.arange(-4, 5)
        fit = [np.polyfit(steps, [np.real(np.linalg.det(a + t * d) * weight) for t in steps], 6) for d in (u, v, u + v)]
        scale = np.abs(fit).max()
        np.testing.assert_allclose(np.real((gradient(a) * u).sum()), fit[0][-2], rtol=1e-7, atol=1e-9 * scale)
        mixed = fit[2][-3] - fit[0][-3] - fit[1][-3]
        np.testing.assert_allclose(np.real((second(a, u, v) * u).sum()), mixed, rtol=1e-5, atol=1e-7 * scale)
        assert (np.abs(gradient(a)).max() < 1e-9 * scale) == (ranks >= 2)
    stack = np.stack([lacking(dtype, ranks) for ranks in range(3)])
    both = zenith.jit(zenith.vmap(zenith.grad(lambda a: np.real(np.linalg.det(a) * weight))))(stack)
    for found, a in zip(both, stack, strict=True):
        np.testing.assert_allclose(found, gradient(a), rtol=1e-9, atol=1e-9 * np.abs(both).max())


def test_a_batch_of_right_sides_factors_the_matrix_once():
    a, y = matrices(np.dtype(float), (3, 5, 5), 0) + 6 * np.eye(5), matrices(np.dtype(float), (3, 7, 5, 2), 1)
    for x, right in ((a[0], y[0, :, :, 0]), (a[0], y[0]), (a, np.moveaxis(y, 1, 0))):
        solve = zenith.vmap(np.linalg.solve, in_axes=(None, 0))
        assert "solve(x, " in zenith.jit(solve).lower(x, right).as_text("graph").replace("solve(a, ", "solve(x, ")
        for run in (solve, zenith.jit(solve)):
            np.testing.assert_allclose(run(x, right), np.stack([np.linalg.solve(x, r) for r in right]), rtol=1e-12)


EQUAL = {
    "eigenvalues": (lambda a: np.linalg.eigvalsh(a).sum(), np.eye(2), np.eye(2)),
    "eigenvalues of both": (lambda a: np.linalg.eigh(a)[0].sum(), np.eye(2), np.eye(2)),
    "singular values": (lambda a: np.linalg.svdvals(a).sum(), 3 * np.eye(5), np.eye(5)),
    "spectral norm": (lambda a: np.linalg.norm(a, 2), np.diag([5.0, 3, 3]), np.diag([1.0, 0, 0])),
    "pseudoinverse": (lambda a: np.linalg.pinv(a).sum(), np.eye(3), -np.ones((3, 3))),
    "a square matrix of lower rank": (lambda a: np.linalg.svd(a, full_matrices=False)[0][0, 0], np.diag([3.0, 2, 1, 0]),
                                      np.zeros((4, 4))),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_derivatives_where_values_are_equal(name):
    """What needs no vectors asks for none of their derivatives."""
    function, a, expected = EQUAL[name]
    np.testing.assert_allclose(zenith.grad(function)(a), expected, atol=1e-12)


def test_least_squares_of_an_orthonormal_matrix_has_a_derivative():
    a, y, direction = np.eye(4, 2), np.arange(1.0, 5), matrices(np.dtype(float), (4, 2))
    function = lambda a: np.linalg.lstsq(a, y)[0].sum()  # noqa: E731
    expected = _difference(lambda a: np.linalg.lstsq(a, y, 1e-12)[0].sum(), a, direction)
    np.testing.assert_allclose((zenith.grad(function)(a) * direction).sum(), expected, rtol=1e-6)


def test_a_batch_is_a_stack():
    a = definite(np.dtype(float), (3, 5, 5))
    found = zenith.jit(zenith.vmap(lambda a: np.linalg.cholesky(a)))(a)
    np.testing.assert_allclose(found, np.linalg.cholesky(a), rtol=1e-12)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda a: np.linalg.inv(a[0]), ShapeError, "needs matrices"),
        (lambda a: np.linalg.cholesky(a), ShapeError, "cholesky needs square matrices"),
        (lambda a: np.linalg.solve(a[:, :2], a[0]), ShapeError, "the rows of"),
        (lambda a: np.linalg.svd(a.astype(np.float16)), DTypeError, "float32 or wider"),
        (lambda a: np.linalg.eig(a[:, :2]), TraceError, "real or complex by the matrix's values"),
        (lambda a: np.linalg.qr(a, "raw"), UnsupportedError, "mode 'raw'"),
        (lambda a: np.linalg.eigh(a[:, :2], "M"), ArgumentError, "UPLO"),
        (lambda a: np.linalg.norm(a, "other"), ArgumentError, "no norm of order 'other'"),
        (lambda a: np.linalg.norm(a, 1, (0, 1, 2)), ShapeError, "axis 2 is out of bounds"),
        (lambda a: linalg.outer(a, a), ShapeError, "takes vectors"),
        (lambda a: np.linalg.multi_dot([a, a[0, :], a]), ShapeError, "vectors at its ends"),
        (lambda a: np.linalg.svd(a, hermitian=True), ShapeError, "svd needs square matrices"),
        (lambda a: np.linalg.matrix_rank(a, 1.0, rtol=1.0), ArgumentError, "one of tol and rtol"),
        (lambda a: np.linalg.lstsq(a, a[0]), ShapeError, "as many rows"),
        (lambda a: zenith.grad(lambda a: np.linalg.svd(a)[0].sum())(a), ZenithError, "complete a basis"),
        (lambda a: zenith.fori_loop(0, 3, lambda i, x: np.linalg.qr(x.T, "complete")[0][0, 0] * x, a),
         UnsupportedError, "inside the body of a loop"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call, error, text):
    with pytest.raises(error, match=text) as caught:
        run_traced(lambda a: as_list(call(a)), np.ones((2, 3)), symbolic=False)
    assert "test_linalg.py" in str(caught.value)
