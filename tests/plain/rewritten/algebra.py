"""Linear algebra, graphs and statistics of ``tests/plain``, rewritten for JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


def cholesky(A: Array) -> Array:
    n = A.shape[0]

    def column(j: Array, L: Array) -> Array:
        s = A[:, j] - L @ L[j]
        pivot = jnp.sqrt(s[j])
        return L.at[:, j].set(jnp.where(jnp.arange(n) > j, s / pivot, jnp.where(jnp.arange(n) == j, pivot, 0.0)))

    return lax.fori_loop(0, n, column, jnp.zeros((n, n)))


def lu(A: Array) -> Array:
    n = A.shape[0]

    def step(k: Array, A: Array) -> Array:
        below, right = jnp.arange(n)[:, None] > k, jnp.arange(n) > k
        factors = jnp.where(below[:, 0], A[:, k] / A[k, k], A[:, k])
        A = A.at[:, k].set(factors)
        return A - jnp.where(below & right, jnp.outer(factors, A[k]), 0.0)

    return lax.fori_loop(0, n, step, A)


def gram_schmidt(A: Array) -> tuple[Array, Array]:
    m, n = A.shape

    def column(j: Array, QR: tuple[Array, Array]) -> tuple[Array, Array]:
        Q, R = QR
        r = Q.T @ A[:, j]
        v = A[:, j] - Q @ r
        norm = jnp.linalg.norm(v)
        return Q.at[:, j].set(v / norm), R.at[:, j].set(r.at[j].set(norm))

    return lax.fori_loop(0, n, column, (jnp.zeros((m, n)), jnp.zeros((n, n))))


def forward_substitution(L: Array, b: Array) -> Array:
    def row(i: Array, x: Array) -> Array:
        return x.at[i].set((b[i] - L[i] @ x) / L[i, i])

    return lax.fori_loop(0, L.shape[0], row, jnp.zeros_like(b))


def gaussian_elimination(A: Array, b: Array) -> Array:
    n = len(b)
    rows = jnp.arange(n)

    def step(k: Array, Ab: tuple[Array, Array]) -> tuple[Array, Array]:
        A, b = Ab
        p = jnp.argmax(jnp.where(rows >= k, jnp.abs(A[:, k]), -1.0))
        A, b = A.at[k].set(A[p]).at[p].set(A[k]), b.at[k].set(b[p]).at[p].set(b[k])
        f = jnp.where(rows > k, A[:, k] / A[k, k], 0.0)
        return A - jnp.outer(f, A[k]), b - f * b[k]

    A, b = lax.fori_loop(0, n, step, (A, b))

    def back(t: Array, x: Array) -> Array:
        i = n - 1 - t
        return x.at[i].set((b[i] - A[i] @ x) / A[i, i])

    return lax.fori_loop(0, n, back, jnp.zeros(n))


def conjugate_gradients(A: Array, b: Array) -> Array:
    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        i, x, r, p, rs = state
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x, r = x + alpha * p, r - alpha * Ap
        new = r @ r
        return i + 1, x, r, r + (new / rs) * p, new

    def goes_on(state: tuple[Any, ...]) -> Array:
        return (state[0] < len(b)) & (jnp.sqrt(state[-1]) >= 1e-10)

    return lax.while_loop(goes_on, step, (0, jnp.zeros_like(b), b, b, b @ b))[1]


def power_iteration(A: Array, tol: float) -> tuple[Array, Array]:
    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        it, b, lam, _ = state
        v = A @ b
        new = jnp.linalg.norm(v)
        return it + 1, v / new, new, jnp.abs(new - lam)

    start = (0, jnp.ones(A.shape[0]), jnp.float64(0.0), jnp.float64(jnp.inf))
    _, b, lam, _ = lax.while_loop(lambda state: (state[0] < 1000) & (state[3] >= tol), step, start)
    return lam, b


def floyd_warshall(d: Array) -> tuple[Array]:
    return (lax.fori_loop(0, d.shape[0], lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k]), d),)


def floyd_warshall_outer(path: Array) -> tuple[Array]:
    return (lax.fori_loop(0, path.shape[0], lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k]), path),)


def pagerank(M: Array, damping: float, tol: float) -> tuple[Array, Array]:
    n = M.shape[0]

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        r, _, turns = state
        new = damping * M @ r + (1 - damping) / n
        return new, jnp.abs(new - r).sum(), turns + 1

    start = (jnp.ones(n) / n, jnp.float64(1.0), jnp.int64(0))
    r, _, turns = lax.while_loop(lambda state: state[1] > tol, step, start)
    return r, turns


def components(adj: Array) -> Array:
    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        labels, _ = state
        new = jnp.where(adj, labels[None, :], labels[:, None]).min(axis=1)
        new = jnp.minimum(new, labels)
        return new, (new != labels).any()

    return lax.while_loop(lambda state: state[1], step, (jnp.arange(adj.shape[0]), jnp.bool_(True)))[0]


def kmeans_masks(X: Array, k: int, iterations: int) -> Array:
    def step(_: Any, C: Array) -> Array:
        labels = ((X[:, None, :] - C[None]) ** 2).sum(-1).argmin(1)
        members = labels[:, None] == jnp.arange(C.shape[0])
        counts = members.sum(0)
        means = members.T.astype(X.dtype) @ X / counts[:, None]
        return jnp.where((counts > 0)[:, None], means, C)

    return lax.fori_loop(0, iterations, step, X[:k])


def linear_regression(X: Array, y: Array, rate: float, steps: int) -> tuple[Array, Array]:
    n = len(y)

    def step(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        w, b = state
        error = X @ w + b - y
        return w - rate * (X.T @ error) / n, b - rate * error.sum() / n

    return lax.fori_loop(0, steps, step, (jnp.zeros(X.shape[1]), jnp.float64(0.0)))


def gaussian_mixture(x: Array, mu: Array, sigma: Array, w: Array, iterations: int) -> tuple[Array, Array, Array]:
    def step(_: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        mu, sigma, w = state
        d = (x[:, None] - mu) / sigma
        p = w * jnp.exp(-0.5 * d * d) / sigma
        p /= p.sum(axis=1, keepdims=True)
        N = p.sum(axis=0)
        mu = (p * x[:, None]).sum(axis=0) / N
        return mu, jnp.sqrt((p * (x[:, None] - mu) ** 2).sum(axis=0) / N), N / len(x)

    return lax.fori_loop(0, iterations, step, (mu, sigma, w))


def correlation(data: Array) -> Array:
    stddev = jnp.std(data, axis=0)
    data = (data - jnp.mean(data, axis=0)) / (jnp.sqrt(data.shape[0]) * jnp.where(stddev <= 0.1, 1.0, stddev))
    n = data.shape[1]
    return jnp.where(jnp.eye(n, dtype=bool), 1.0, data.T @ data)


def nbody_masks(mass: Array, pos: Array, vel: Array, N: int, Nt: int, dt: float, G: float, softening: float) -> Array:
    def accelerations(pos: Array) -> Array:
        d = pos[None, :, :] - pos[:, None, :]
        r2 = (d**2).sum(-1) + softening**2
        inverse = jnp.where(r2 > 0, r2 ** (-1.5), r2)
        return G * jnp.einsum("ijk,ij,j->ik", d, inverse, mass[:, 0])

    def energy(vel: Array) -> Array:
        return 0.5 * jnp.sum(mass * vel**2)

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], Array]:
        pos, vel, acc = state
        vel = vel + acc * dt / 2.0
        pos = pos + vel * dt
        acc = accelerations(pos)
        vel = vel + acc * dt / 2.0
        return (pos, vel, acc), energy(vel)

    vel = vel - jnp.mean(mass * vel, axis=0) / jnp.mean(mass)
    _, energies = lax.scan(step, (pos, vel, accelerations(pos)), None, Nt)
    return jnp.concatenate([energy(vel)[None], energies])


REWRITTEN: Sequence[Callable[..., Any]] = (
    *(jax.jit(f) for f in (cholesky, lu, gram_schmidt, forward_substitution, gaussian_elimination, conjugate_gradients,
                   power_iteration, floyd_warshall, floyd_warshall_outer, pagerank, components, linear_regression,
                   gaussian_mixture, correlation)),
    partial(jax.jit, static_argnames="k")(kmeans_masks),
    partial(jax.jit, static_argnames="Nt")(nbody_masks),
)  # fmt: skip
