"""Derivatives of every function of linear algebra against JAX's: of symmetric matrices, of repeated eigenvalues, of
singular matrices.

Of what reads one triangle both libraries take the derivative within the Hermitian matrices, so that a gradient is
Hermitian. A function is in the table with the cases in which its result has a derivative.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import zenith
from tests.sampling import leave
from tests.transforms.compare import jax_and_numpy
from zenith.numpy import linalg

RNG = np.random.default_rng(0)
MATRIX = RNG.uniform(-1, 1, (5, 5)) + np.diag([2.0, 3, 4, 5, 6])
COMPLEX = MATRIX + 1j * RNG.uniform(-1, 1, (5, 5))
WEIGHTS, RIGHT = RNG.uniform(-1, 1, (5, 5)), RNG.uniform(-1, 1, (5, 2))

SYMMETRIC = {"definite": MATRIX @ MATRIX.T, "indefinite": MATRIX + MATRIX.T - 7 * np.eye(5)}
REPEATED = {"identity": np.eye(5), "repeated": np.diag([2.0, 1, 2, 3, 2]), "exchange": np.eye(5)[::-1].copy()}
SINGULAR = {"zeros": np.zeros((5, 5)), "of rank three": np.diag([0.0, 1, 0, 2, 3])}
LOPSIDED = {"general": MATRIX, "a column of zeros": MATRIX * [0, 1, 1, 1, 1], "equal rows": MATRIX[[0, 1, 2, 3, 0]]}
HERMITIAN = {"Hermitian": COMPLEX @ COMPLEX.conj().T, "complex identity": np.eye(5) + 0j}
CASES = SYMMETRIC | REPEATED | SINGULAR | LOPSIDED | HERMITIAN

EVERY = tuple(CASES)
REGULAR = (*SYMMETRIC, *REPEATED, "general", *HERMITIAN)
READ_BY_TRIANGLE = (*SYMMETRIC, *REPEATED, *SINGULAR, *HERMITIAN)
DEFINITE = ("definite", "identity", "repeated", *HERMITIAN)
DISTINCT = (*SYMMETRIC, "Hermitian")  # eigenvalues; so are the singular values
SMOOTH = (*SYMMETRIC, "general", "Hermitian")  # no element is 0, no two sums are equal


@dataclass(frozen=True)
class Case:
    """A function of NumPy's or JAX's module and a matrix, and the matrices where it has a derivative."""

    function: Callable[[Any, Any], Any]
    cases: tuple[str, ...]


def _adjoint(np, x):
    return np.conj(np.swapaxes(x, -1, -2))


def _of_vectors(np, values, left, right):
    return (left * np.sin(values)) @ right


def _by_eigh(np, a, uplo):
    values, vectors = np.linalg.eigh(a, UPLO=uplo)
    return _of_vectors(np, values, vectors, _adjoint(np, vectors))


def _by_svd(np, a, whole):
    u, s, vh = np.linalg.svd(a, full_matrices=whole)
    return _of_vectors(np, s, u, vh)


def _norms(name, orders, cases, **options):
    return {
        f"{name} {o}": Case(lambda np, a, o=o: getattr(np.linalg, name)(a, ord=o, **options), cases) for o in orders
    }


TABLE = {
    "cholesky": Case(lambda np, a: np.linalg.cholesky(a), DEFINITE),
    "cholesky upper": Case(lambda np, a: np.linalg.cholesky(a, upper=True), DEFINITE),
    "eigvalsh": Case(lambda np, a: np.sum(np.sin(np.linalg.eigvalsh(a))), READ_BY_TRIANGLE),
    "eigvalsh U": Case(lambda np, a: np.sum(np.sin(np.linalg.eigvalsh(a, UPLO="U"))), READ_BY_TRIANGLE),
    "eigh": Case(lambda np, a: _by_eigh(np, a, "L"), DISTINCT),
    "eigh U": Case(lambda np, a: _by_eigh(np, a, "U"), DISTINCT),
    "eigh values": Case(lambda np, a: np.sum(np.sin(np.linalg.eigh(a)[0])), READ_BY_TRIANGLE),
    "svd": Case(lambda np, a: _by_svd(np, a, False), (*DISTINCT, "general")),
    "svd complete": Case(lambda np, a: _by_svd(np, a, True), (*DISTINCT, "general")),
    "svd tall": Case(lambda np, a: _by_svd(np, a[:, :2], False), (*DISTINCT, "general")),
    "svdvals": Case(lambda np, a: np.sum(np.sin(np.linalg.svdvals(a))), REGULAR),
    "qr": Case(lambda np, a: np.linalg.qr(a)[0] + np.linalg.qr(a)[1], REGULAR),
    "qr tall": Case(lambda np, a: np.linalg.qr(a[:, :2])[0], REGULAR),
    "qr r": Case(lambda np, a: np.linalg.qr(a[:, :2], "r"), REGULAR),
    "inv": Case(lambda np, a: np.linalg.inv(a), REGULAR),
    "det": Case(lambda np, a: np.linalg.det(a), REGULAR),  # others: a test of their own, JAX has 0 there
    "slogdet": Case(lambda np, a: sum(np.linalg.slogdet(a)), REGULAR),
    "solve": Case(lambda np, a: np.linalg.solve(a, RIGHT), REGULAR),
    "solve both": Case(lambda np, a: np.linalg.solve(a, a @ a), REGULAR),
    "lstsq": Case(lambda np, a: np.linalg.lstsq(a[:, :2], RIGHT)[0], DISTINCT),
    "lstsq squares": Case(lambda np, a: np.linalg.lstsq(a[:, :2], RIGHT)[1], DISTINCT),
    "pinv": Case(lambda np, a: np.linalg.pinv(a), REGULAR),
    "pinv tall": Case(lambda np, a: np.linalg.pinv(a[:, :2]), REGULAR),
    "matrix_power": Case(lambda np, a: np.linalg.matrix_power(a, 3), EVERY),
    "matrix_power inverse": Case(lambda np, a: np.linalg.matrix_power(a, -2), REGULAR),
    "tensorinv": Case(lambda np, a: np.linalg.tensorinv(a, 1), REGULAR),
    "tensorsolve": Case(lambda np, a: np.linalg.tensorsolve(a, RIGHT[:, 0]), REGULAR),
    "multi_dot": Case(lambda np, a: np.linalg.multi_dot([a, a, a]), EVERY),
    "cross": Case(lambda np, a: np.linalg.cross(a[:, :3], a[::-1, :3]), EVERY),
    "outer": Case(lambda np, a: np.linalg.outer(a[0], a[1]), EVERY),
    "trace": Case(lambda np, a: np.linalg.trace(a), EVERY),
    "diagonal": Case(lambda np, a: np.linalg.diagonal(a, offset=1), EVERY),
    "vecdot": Case(lambda np, a: np.linalg.vecdot(a, a), EVERY),
    "tensordot": Case(lambda np, a: np.linalg.tensordot(a, a, axes=1), EVERY),
    "matmul": Case(lambda np, a: np.linalg.matmul(a, a), EVERY),
    "matrix_transpose": Case(lambda np, a: np.linalg.matrix_transpose(a), EVERY),
    "cond": Case(lambda np, a: np.linalg.cond(a), (*DISTINCT, "general")),
    "cond fro": Case(lambda np, a: np.linalg.cond(a, "fro"), REGULAR),
    **_norms("norm", ("fro", "nuc"), REGULAR),
    **_norms("matrix_norm", ("fro", "nuc"), REGULAR),
    **_norms("matrix_norm", (1, -1, 2, -2, np.inf), SMOOTH),
    **_norms("vector_norm", (2,), REGULAR, axis=0),
    **_norms("vector_norm", (1, -1, 3, np.inf, -np.inf), SMOOTH, axis=0),
}
WITHOUT = {"matrix_rank"}  # a number of things
SHARE = ("cholesky", "eigvalsh", "eigh U", "slogdet", "pinv")  # of `make test`


def _number(np, found):
    weights = WEIGHTS.ravel()[: found.size].reshape(found.shape)
    return np.sum(np.real(found) * weights) + (np.sum(np.imag(found) * weights**2) if np.iscomplexobj(found) else 0)


def test_every_function_is_compared():
    functions = {n for n in linalg.__all__ if callable(getattr(linalg, n)) and n.islower()}
    assert functions == {name.split()[0] for name in TABLE} | WITHOUT


@pytest.mark.parametrize("name", leave(lambda name: name not in SHARE, TABLE))
def test_gradients_are_those_of_jax(name):
    jax, jnp = jax_and_numpy()
    function = TABLE[name].function
    ours, theirs = (grad(lambda a, np=np: _number(np, function(np, a))) for grad, np in
                    ((zenith.grad, np), (jax.grad, jnp)))  # fmt: skip
    for kind in "fc":
        cases = [case for case in TABLE[name].cases if CASES[case].dtype.kind == kind]
        if cases:
            stack = np.stack([CASES[case] for case in cases])
            found, expected = zenith.vmap(ours)(stack), jax.jit(jax.vmap(theirs))(stack)
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9, err_msg=str(cases))


@pytest.mark.parametrize("name", leave(lambda name: "U" in name, ["cholesky upper", "eigh", "eigh U"]))
def test_a_direction_is_taken_by_its_hermitian_part(name):
    jax, jnp = jax_and_numpy()
    function = TABLE[name].function
    for a, direction in ((SYMMETRIC["definite"], MATRIX), (HERMITIAN["Hermitian"], COMPLEX)):
        _, expected = jax.jvp(lambda a: function(jnp, a), (a,), (direction,))
        for moved in (direction, (direction + direction.conj().T) / 2):
            _, found = zenith.jvp(lambda a: function(np, a), (a,), (moved,))
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["cholesky", "eigvalsh"])
def test_the_triangle_that_is_read_does_not_matter_to_derivatives(name):
    """The value depends on the triangle alone; the gradient is that of the Hermitian matrix with this triangle."""
    function, a = TABLE[name].function, SYMMETRIC["definite"]
    gradient = zenith.grad(lambda a: _number(np, function(np, a)))
    for scrambled in (a, np.tril(a), np.tril(a) + np.triu(MATRIX, 1)):
        np.testing.assert_allclose(function(zenith.numpy, scrambled), function(np, a), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(gradient(scrambled), gradient(a), rtol=1e-9, atol=1e-12)


def _adjugate(a):
    indices = range(len(a))
    minors = [[np.delete(np.delete(a, i, 0), j, 1) for j in indices] for i in indices]
    return np.array([[(-1) ** (i + j) * np.linalg.det(minors[i][j]) for j in indices] for i in indices])


@pytest.mark.parametrize("size", leave(lambda size: size != 3, [1, 2, 3, 4, 5]))
def test_determinants_of_any_rank_have_derivatives(size):
    """Also where a pivot of elimination is 0: a column of zeros, and rows that are equal."""
    gradient = zenith.jit(zenith.grad(lambda a: np.linalg.det(a)), backend="reference")
    hessian = zenith.jit(lambda a, v: zenith.jvp(gradient, (a,), (v,))[1], backend="reference")
    direction, step = WEIGHTS[:size, :size], 1e-5
    cases = [a[:size, :size] for n, a in CASES.items() if n not in HERMITIAN]
    for a in (*cases, np.diag(np.arange(1.0, size), 1)):
        np.testing.assert_allclose(gradient(a), _adjugate(a), rtol=1e-9, atol=1e-10)
        if size > 1:
            second = (_adjugate(a + step * direction) - _adjugate(a - step * direction)) / (2 * step)
            np.testing.assert_allclose(hessian(a, direction), second, rtol=1e-6, atol=1e-7)
