"""Linear algebra as textbooks write it."""

import math

import numpy as np

from tests.plain.program import Program


def cholesky(A):
    n = A.shape[0]
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += L[i, k] * L[j, k]
            if i == j:
                L[i, j] = math.sqrt(A[i, i] - s)
            else:
                L[i, j] = (A[i, j] - s) / L[j, j]
    return L


def cholesky_rows(A):
    """Cholesky in place, with dot products of rows up to the diagonal."""
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, A.shape[0]):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])


def lu(A):
    A = A.copy()
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= A[i, k] * A[k, j]
    return A


def lu_slices(A):
    A = A.copy()
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            A[i, k + 1 :] -= A[i, k] * A[k, k + 1 :]
    return A


def gram_schmidt(A):
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            R[i, j] = Q[:, i] @ A[:, j]
            v -= R[i, j] * Q[:, i]
        R[j, j] = np.linalg.norm(v)
        Q[:, j] = v / R[j, j]
    return Q, R


def householder(A):
    """QR by reflections of the columns below the diagonal."""
    m, n = A.shape
    R = A.copy()
    Q = np.eye(m)
    for k in range(n):
        x = R[k:, k]
        e = np.zeros_like(x)
        e[0] = np.copysign(np.linalg.norm(x), x[0])
        v = x + e
        v = v / np.linalg.norm(v)
        R[k:, k:] -= 2.0 * np.outer(v, v @ R[k:, k:])
        Q[:, k:] -= 2.0 * np.outer(Q[:, k:] @ v, v)
    return Q, R


def forward_substitution(L, b):
    n = L.shape[0]
    x = np.zeros(n)
    for i in range(n):
        s = b[i]
        for j in range(i):
            s -= L[i, j] * x[j]
        x[i] = s / L[i, i]
    return x


def back_substitution(U, b):
    n = len(b)
    x = np.zeros_like(b)
    for i in reversed(range(n)):
        x[i] = (b[i] - np.sum(U[i] * x)) / U[i, i]
    return x


def triangular_solve_slices(L, x, b):
    for i in range(L.shape[0]):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]


def levinson_durbin(r):
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def gaussian_elimination(A, b):
    """With partial pivoting; A and b are destroyed."""
    n = len(b)
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[p, k]):
                p = i
        if p != k:
            for j in range(n):
                t = A[k, j]
                A[k, j] = A[p, j]
                A[p, j] = t
            b[k], b[p] = b[p], b[k]
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            A[i] -= f * A[k]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - A[i] @ x) / A[i, i]
    return x


def conjugate_gradients(A, b):
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    for i in range(len(b)):
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        if np.sqrt(new) < 1e-10:
            break
        p = r + (new / rs) * p
        rs = new
    return x


def power_iteration(A, tol=1e-9, maxit=1000):
    n = A.shape[0]
    b = np.ones(n)
    lam = 0.0
    for it in range(maxit):
        v = A @ b
        new = np.linalg.norm(v)
        b = v / new
        if abs(new - lam) < tol:
            break
        lam = new
    return new, b


def matmul_loops(A, B):
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
    return C


def jacobi_eigenvalues(A, sweeps):
    """The eigenvalues of a symmetric matrix by rotations."""
    A = A.copy()
    n = A.shape[0]
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(A[p, q]) < 1e-14:
                    continue
                theta = (A[q, q] - A[p, p]) / (2.0 * A[p, q])
                t = np.sign(theta) / (abs(theta) + np.sqrt(theta * theta + 1.0)) if theta != 0 else 1.0
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for k in range(n):
                    akp = A[k, p]
                    akq = A[k, q]
                    A[k, p] = c * akp - s * akq
                    A[k, q] = s * akp + c * akq
                for k in range(n):
                    apk = A[p, k]
                    aqk = A[q, k]
                    A[p, k] = c * apk - s * aqk
                    A[q, k] = s * apk + c * aqk
    return np.sort(np.diag(A))


def spmv(data, indices, indptr, x):
    n = indptr.shape[0] - 1
    y = np.zeros(n)
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            y[i] += data[k] * x[indices[k]]
    return y


def spmv_slices(data, indices, indptr, x):
    y = np.empty(indptr.size - 1)
    for i in range(indptr.size - 1):
        cols = indices[indptr[i] : indptr[i + 1]]
        y[i] = data[indptr[i] : indptr[i + 1]] @ x[cols]
    return y


def syrk(alpha, beta, C, A):
    """A rank-k update of the lower triangle, row by row."""
    for i in range(A.shape[0]):
        for j in range(i + 1):
            C[i, j] *= beta
        for k in range(A.shape[1]):
            for j in range(i + 1):
                C[i, j] += alpha * A[i, k] * A[j, k]


def determinant(A):
    """By elimination; 0 for a singular matrix."""
    A = A.copy()
    n = len(A)
    det = 1.0
    for k in range(n):
        if A[k, k] == 0.0:
            return 0.0
        det *= A[k, k]
        for i in range(k + 1, n):
            A[i] = A[i] - A[k] * (A[i, k] / A[k, k])
    return det


def _positive(n, rng):
    B = rng.random((n, n))
    return B @ B.T + n * np.eye(n)


def _csr(n, rng):
    dense = rng.random((n, n)) * (rng.random((n, n)) < 0.4)
    rows = [np.flatnonzero(row) for row in dense]
    indptr = np.cumsum([0, *map(len, rows)])
    return dense[dense != 0], np.concatenate(rows), indptr, rng.random(n)


PROGRAMS = [
    Program(cholesky, lambda n, rng: (_positive(n, rng),), smooth=(0,)),
    Program(cholesky_rows, lambda n, rng: (_positive(n, rng),), smooth=(0,)),
    Program(lu, lambda n, rng: (_positive(n, rng),), smooth=(0,)),
    Program(lu_slices, lambda n, rng: (_positive(n, rng),), smooth=(0,)),
    Program(gram_schmidt, lambda n, rng: (rng.random((n + 2, n)),), smooth=(0,)),
    Program(householder, lambda n, rng: (rng.random((n + 1, n)),), smooth=(0,)),
    Program(forward_substitution, lambda n, rng: (np.tril(_positive(n, rng)), rng.random(n)), smooth=(0, 1)),
    Program(back_substitution, lambda n, rng: (np.triu(_positive(n, rng)), rng.random(n)), smooth=(0, 1)),
    Program(triangular_solve_slices, lambda n, rng: (np.tril(_positive(n, rng)), np.zeros(n), rng.random(n)),
            smooth=(0, 2)),
    Program(levinson_durbin, lambda n, rng: (0.1 * rng.random(n),), smooth=(0,), largest=1024),  # ill-conditioned
    Program(gaussian_elimination, lambda n, rng: (rng.random((n, n)), rng.random(n)), rtol=1e-7),
    Program(conjugate_gradients, lambda n, rng: (_positive(n, rng), rng.random(n)), rtol=1e-7),
    Program(power_iteration, lambda n, rng: (_positive(n, rng), 1e-9 * n**2), rtol=1e-6),
    Program(matmul_loops, lambda n, rng: (rng.random((n, n + 1)), rng.random((n + 1, n + 2))), smooth=(0, 1)),
    Program(jacobi_eigenvalues, lambda n, rng: (_positive(n, rng), 6), rtol=1e-7),
    Program(spmv, _csr, smooth=(0, 3), irreversible="values of an array count the turns of a loop"),
    Program(spmv_slices, _csr, smooth=(0, 3)),
    Program(syrk, lambda n, rng: (1.5, 1.2, rng.random((n, n)), rng.random((n, n + 1))), smooth=(2, 3)),
    Program(determinant, lambda n, rng: (rng.random((n, n)) + np.eye(n),), rtol=1e-7),
]  # fmt: skip
