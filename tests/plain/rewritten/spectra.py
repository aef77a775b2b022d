"""Programs of ``tests/plain/spectral.py``, rewritten for JAX: transforms and solvers in loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


def split_step(u: Array, dt: float, steps: int) -> Array:
    half = jnp.exp(-0.25j * (2 * jnp.pi * jnp.fft.fftfreq(u.shape[0], 0.1)) ** 2 * dt)

    def step(_: Any, u: Array) -> Array:
        u = jnp.fft.ifft(half * jnp.fft.fft(u))
        u = u * jnp.exp(1j * jnp.abs(u) ** 2 * dt)
        return jnp.fft.ifft(half * jnp.fft.fft(u))

    return lax.fori_loop(0, steps, step, u)


def burgers_spectral(u: Array, nu: float, dt: float, steps: int) -> Array:
    n = len(u)
    k = jnp.arange(n // 2 + 1)

    def slope(u: Array) -> Array:
        v = jnp.fft.rfft(u)
        return jnp.fft.irfft(-nu * k**2 * v, n) - u * jnp.fft.irfft(1j * k * v, n)

    def step(_: Any, u: Array) -> Array:
        first = slope(u)
        return u + dt / 2 * (first + slope(u + dt * first))

    return lax.fori_loop(0, steps, step, u)


def vorticity(w: Array, nu: float, dt: float, steps: int) -> Array:
    n = w.shape[0]
    k = jnp.fft.fftfreq(n, 1.0 / n)
    kx, ky = k[:, None], k[None, :]
    k2 = kx**2 + ky**2
    inverse = jnp.where(k2 == 0, 0.0, 1.0 / jnp.where(k2 == 0, 1.0, k2))

    def step(_: Any, w: Array) -> Array:
        wh = jnp.fft.fft2(w)
        psi = wh * inverse
        u, v = jnp.fft.ifft2(1j * ky * psi).real, jnp.fft.ifft2(-1j * kx * psi).real
        wx, wy = jnp.fft.ifft2(1j * kx * wh).real, jnp.fft.ifft2(1j * ky * wh).real
        return w + dt * (jnp.fft.ifft2(-nu * k2 * wh).real - u * wx - v * wy)

    return lax.fori_loop(0, steps, step, w)


def newton_system(x: Array, tol: float) -> tuple[Array, Array]:
    n = x.shape[0]
    ones = 0.1 * jnp.roll(jnp.eye(n), 1, axis=0)

    def residual(x: Array) -> Array:
        return x + 0.1 * x**3 + 0.1 * jnp.roll(x, 1) - jnp.cos(jnp.arange(n))

    def going(state: tuple[Array, Array]) -> Array:
        return (jnp.abs(residual(state[0])).max() >= tol) & (state[1] < 50)

    def turn(state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, turns = state
        return x - jnp.linalg.solve(jnp.diag(1 + 0.3 * x**2) + ones, residual(x)), turns + 1

    return lax.while_loop(going, turn, (x, jnp.int64(0)))


def tracking(z: Array, F: Array, H: Array, Q: Array, R: Array, x: Array, P: Array) -> tuple[Array, Array]:
    def step(state: tuple[Array, Array, Array], z: Array) -> tuple[tuple[Array, Array, Array], Array]:
        x, P, loglik = state
        x, P = F @ x, F @ P @ F.T + Q
        S, e = H @ P @ H.T + R, z - H @ x
        K = jnp.linalg.solve(S, H @ P).T
        loglik -= 0.5 * (e @ jnp.linalg.solve(S, e) + jnp.linalg.slogdet(S)[1])
        x, P = x + K @ e, P - K @ H @ P
        return (x, P, loglik), x

    (_, _, loglik), found = lax.scan(step, (x, P, jnp.float64(0.0)), z)
    return found, loglik


def levenberg_marquardt(t: Array, y: Array, p: Array, steps: int) -> tuple[Array, Array]:
    def error_of(p: Array) -> Array:
        return jnp.sum((p[0] * jnp.exp(-p[1] * t) + p[2] * jnp.exp(-p[3] * t) - y) ** 2)

    def step(_: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        p, error, damping = state
        first, second = jnp.exp(-p[1] * t), jnp.exp(-p[3] * t)
        r = y - p[0] * first - p[2] * second
        J = jnp.stack([first, -p[0] * t * first, second, -p[2] * t * second], axis=1)
        A = J.T @ J
        q = p + jnp.linalg.solve(A + damping * jnp.diag(jnp.diag(A)), J.T @ r)
        new = error_of(q)
        better = new < error
        return jnp.where(better, q, p), jnp.where(better, new, error), jnp.where(better, damping / 3, damping * 2)

    p, error, _ = lax.fori_loop(0, steps, step, (p, error_of(p), jnp.float64(1e-2)))
    return p, error


def whitened(X: Array, steps: int) -> Array:
    def step(_: Any, X: Array) -> Array:
        X = X - X.mean(axis=0)
        values, vectors = jnp.linalg.eigh(X.T @ X / X.shape[0])
        return jnp.tanh(X @ (vectors / jnp.sqrt(values + 1e-3)) @ vectors.T)

    return lax.fori_loop(0, steps, step, X)


REWRITTEN: Sequence[Callable[..., Any]] = tuple(
    map(jax.jit, (split_step, burgers_spectral, vorticity, newton_system, tracking, levenberg_marquardt, whitened))
)
