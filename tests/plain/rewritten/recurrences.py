"""Recurrences of ``tests/plain``, rewritten for JAX: filters, tables, integrators, fractals, prices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


def edit_distance(a: Array, b: Array) -> Array:
    """A row of the table from the one above; along the row a minimum of what is left of it."""
    m = len(b)
    steps = jnp.arange(m + 1)

    def row(above: Array, letter: Array) -> tuple[Array, None]:
        entry = jnp.minimum(above[1:] + 1, above[:-1] + (letter != b))
        entry = jnp.concatenate([above[:1] + 1, entry])
        return lax.cummin(entry - steps) + steps, None

    return lax.scan(row, steps, a)[0][m]


def knapsack(weights: Array, values: Array, capacity: int) -> Array:
    at = jnp.arange(capacity + 1)

    def item(i: Array, best: Array) -> Array:
        taken = jnp.where(at >= weights[i], best[at - weights[i]] + values[i], 0.0)
        return jnp.maximum(best, taken)

    return lax.fori_loop(0, len(weights), item, jnp.zeros(capacity + 1))[capacity]


def crc32(data: Array) -> Array:
    def bit(_: Any, crc: Array) -> Array:
        return jnp.where(crc & 1, (crc >> 1) ^ 0xEDB88320, crc >> 1)

    start = jnp.int64(0xFFFFFFFF)
    crc = lax.fori_loop(0, len(data), lambda i, crc: lax.fori_loop(0, 8, bit, crc ^ data[i]), start)
    return crc ^ 0xFFFFFFFF


def collatz(limit: int) -> tuple[Array, Array]:
    def length_of(n: Array) -> Array:
        def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
            k, length = state
            return jnp.where(k % 2 == 0, k // 2, 3 * k + 1), length + 1

        return lax.while_loop(lambda state: state[0] != 1, step, (n, jnp.int64(1)))[1]

    def turn(n: Array, best: tuple[Array, Array]) -> tuple[Array, Array]:
        length = length_of(n)
        longer = length > best[1]
        return jnp.where(longer, n, best[0]), jnp.where(longer, length, best[1])

    return lax.fori_loop(jnp.int64(2), limit, turn, (jnp.int64(1), jnp.int64(1)))


def biquad(x: Array, b0: float, b1: float, b2: float, a1: float, a2: float) -> Array:
    def step(z: tuple[Array, Array], v: Array) -> tuple[tuple[Array, Array], Array]:
        y = b0 * v + z[0]
        return (b1 * v - a1 * y + z[1], b2 * v - a2 * y), y

    return lax.scan(step, (jnp.float64(0.0), jnp.float64(0.0)), x)[1]


def ewma(x: Array, alpha: float) -> Array:
    def step(last: Array, v: Array) -> tuple[Array, Array]:
        new = alpha * v + (1 - alpha) * last
        return new, new

    return jnp.concatenate([x[:1], lax.scan(step, x[0], x[1:])[1]])


def garch(r: Array, omega: float, alpha: float, beta: float) -> Array:
    def step(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], None]:
        var, total = state
        total = total + 0.5 * (jnp.log(2 * jnp.pi) + jnp.log(var) + x * x / var)
        return (omega + alpha * x**2 + beta * var, total), None

    return lax.scan(step, (jnp.mean(r**2), jnp.float64(0.0)), r)[0][1]


def metropolis(steps: int, uniforms: Array, width: float) -> tuple[Array, Array]:
    def step(state: tuple[Array, Array], u: Array) -> tuple[tuple[Array, Array], Array]:
        x, accepted = state
        new = x + width * (u[0] - 0.5)
        taken = u[1] < jnp.exp(0.5 * (x * x - new * new))
        x = jnp.where(taken, new, x)
        return (x, accepted + taken), x

    (_, accepted), chain = lax.scan(step, (jnp.float64(0.0), jnp.int64(0)), uniforms)
    return chain, accepted / steps


def kalman(z: Array, F: Array, H: Array, Q: Array, R: Array, x: Array, P: Array) -> Array:
    I = jnp.eye(len(x))

    def step(state: tuple[Array, Array], z: Array) -> tuple[tuple[Array, Array], Array]:
        x, P = state
        x, P = F @ x, F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T / S[0, 0]
        x = x + K @ (z - H @ x)
        return (x, (I - K @ H) @ P), x

    return lax.scan(step, (x, P), z)[1]


def hmm_forward(pi: Array, A: Array, B: Array, obs: Array) -> Array:
    def step(state: tuple[Array, Array], o: Array) -> tuple[tuple[Array, Array], None]:
        alpha, loglik = state
        c = alpha.sum()
        return ((alpha / c) @ A * B[:, o], loglik + jnp.log(c)), None

    alpha, loglik = lax.scan(step, (pi * B[:, obs[0]], jnp.float64(0.0)), obs[1:])[0]
    return loglik + jnp.log(alpha.sum())


def viterbi(pi: Array, A: Array, B: Array, obs: Array) -> Array:
    log_A, log_B = jnp.log(A), jnp.log(B)

    def forward(delta: Array, o: Array) -> tuple[Array, Array]:
        s = delta[:, None] + log_A
        return s.max(0) + log_B[:, o], s.argmax(0)

    def backward(state: Array, psi: Array) -> tuple[Array, Array]:
        return psi[state], psi[state]

    delta, psi = lax.scan(forward, jnp.log(pi) + log_B[:, obs[0]], obs[1:])
    last = jnp.argmax(delta)
    path = lax.scan(backward, last, psi, reverse=True)[1]
    return jnp.concatenate([path, last[None]])


def lorenz_rk4(y: Array, h: float, n: int) -> Array:
    def f(y: Array) -> Array:
        return jnp.array([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    def step(_: Any, y: Array) -> Array:
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return lax.fori_loop(0, n, step, y)


def pendulum(theta: float, omega: float, dt: float, steps: int) -> Array:
    def step(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        theta, omega = state
        omega = omega - 9.81 * jnp.sin(theta) * dt
        theta = theta + omega * dt
        return (theta, omega), jnp.stack([theta, omega])

    return lax.scan(step, (jnp.float64(theta), jnp.float64(omega)), None, steps)[1]


def black_scholes(S: Array, K: Array, T: Array, r: float, sigma: float) -> Array:
    def cdf(x: Array) -> Array:
        return 0.5 * (1.0 + lax.erf(x / jnp.sqrt(2.0)))

    d1 = (jnp.log(S / K) + (r + 0.5 * sigma**2) * T) / (sigma * jnp.sqrt(T))
    d2 = d1 - sigma * jnp.sqrt(T)
    return S * cdf(d1) - K * jnp.exp(-r * T) * cdf(d2)


def binomial_option(S: float, K: float, T: float, r: float, sigma: float, n: int) -> Array:
    dt = T / n
    u = jnp.exp(sigma * jnp.sqrt(dt))
    d = 1 / u
    p = (jnp.exp(r * dt) - d) / (u - d)
    disc = jnp.exp(-r * dt)
    j = jnp.arange(n + 1)

    def step(t: Array, values: Array) -> Array:
        i = n - 1 - t
        later = jnp.concatenate([values[1:], values[-1:]])
        hold = disc * (p * later + (1 - p) * values)
        return jnp.where(j <= i, jnp.maximum(hold, K - S * u**j * d ** (i - j)), values)

    values = jnp.maximum(K - S * u**j * d ** (n - j), 0.0)
    return lax.fori_loop(0, n, step, values)[0]


def mandelbrot_loops(xs: Array, ys: Array, limit: int) -> Array:
    c = xs + 1j * ys[:, None]

    def step(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        z, count = state
        inside = z.real * z.real + z.imag * z.imag <= 4.0
        return jnp.where(inside, z * z + c, z), count + inside

    return lax.fori_loop(0, limit, step, (jnp.zeros_like(c), jnp.zeros(c.shape, jnp.int64)))[1]


def julia(n: int, c: complex) -> Array:
    grid = -1.5 + 3.0 * jnp.arange(n) / n
    z = grid[:, None] + 1j * grid

    def step(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        z, count = state
        inside = jnp.abs(z) < 2
        return jnp.where(inside, z * z + c, z), count + inside

    return lax.fori_loop(0, 30, step, (z, jnp.zeros((n, n))))[1]


def polynomial(coefficients: Array, x: Array) -> Array:
    last = len(coefficients) - 1
    return lax.fori_loop(0, last + 1, lambda k, p: p * x + coefficients[last - k], jnp.zeros_like(x))


def convolve_2d(image: Array, kernel: Array) -> Array:
    return lax.conv_general_dilated(image[None, None], kernel[None, None], (1, 1), "VALID")[0, 0]


REWRITTEN: Sequence[Callable[..., Any]] = (
    *(jax.jit(f) for f in (edit_distance, crc32, collatz, biquad, ewma, garch, metropolis, kalman, hmm_forward, viterbi,
                   lorenz_rk4, black_scholes, mandelbrot_loops, polynomial, convolve_2d)),
    partial(jax.jit, static_argnames="capacity")(knapsack),
    partial(jax.jit, static_argnames="steps")(pendulum),
    partial(jax.jit, static_argnames="n")(binomial_option),
    partial(jax.jit, static_argnames="n")(julia),
)  # fmt: skip
