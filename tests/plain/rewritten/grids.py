"""Finite differences of ``tests/plain/stencils.py``, rewritten for JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


def heat_1d(u: Array, alpha: float, steps: int) -> Array:
    def step(_: Any, u: Array) -> Array:
        return u.at[1:-1].set(u[1:-1] + alpha * (u[2:] - 2 * u[1:-1] + u[:-2]))

    return lax.fori_loop(0, steps, step, u)


def heat_2d(u: Array, steps: int) -> tuple[Array]:
    def step(_: Any, u: Array) -> Array:
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        return u.at[1:-1, 1:-1].set(u[1:-1, 1:-1] + 0.1 * (around - 4 * u[1:-1, 1:-1]))

    return (lax.fori_loop(0, steps, step, u),)


def heat_3d(tsteps: int, A: Array, B: Array) -> tuple[Array, Array]:
    def half(to: Array, c: Array) -> Array:
        inner = c[1:-1, 1:-1, 1:-1]
        return to.at[1:-1, 1:-1, 1:-1].set(
            0.125 * (c[2:, 1:-1, 1:-1] - 2.0 * inner + c[:-2, 1:-1, 1:-1])
            + 0.125 * (c[1:-1, 2:, 1:-1] - 2.0 * inner + c[1:-1, :-2, 1:-1])
            + 0.125 * (c[1:-1, 1:-1, 2:] - 2.0 * inner + c[1:-1, 1:-1, :-2])
            + inner
        )

    def step(_: Any, both: tuple[Array, Array]) -> tuple[Array, Array]:
        A, B = both
        B = half(B, A)
        return half(A, B), B

    return lax.fori_loop(1, tsteps, step, (A, B))


def jacobi_1d(steps: int, A: Array, B: Array) -> tuple[Array, Array]:
    def step(_: Any, both: tuple[Array, Array]) -> tuple[Array, Array]:
        A, B = both
        B = B.at[1:-1].set((A[:-2] + A[1:-1] + A[2:]) / 3)
        return A.at[1:-1].set((B[:-2] + B[1:-1] + B[2:]) / 3), B

    return lax.fori_loop(0, steps, step, (A, B))


def gauss_seidel(A: Array, steps: int) -> tuple[Array]:
    n, m = A.shape

    def cell(k: Array, A: Array) -> Array:
        i, j = 1 + k // (m - 2), 1 + k % (m - 2)
        return A.at[i, j].set((A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1] + A[i, j]) / 5.0)

    return (lax.fori_loop(0, steps, lambda _, A: lax.fori_loop(0, (n - 2) * (m - 2), cell, A), A),)


def laplace_until(p: Array, target: float) -> Array:
    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        pn = state[0]
        p = pn.at[1:-1, 1:-1].set(0.25 * (pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1]))
        p = p.at[:, 0].set(0)
        p = p.at[0, :].set(p[1, :])
        p = p.at[-1, :].set(p[-2, :])
        return p, jnp.sum(jnp.abs(p - pn)) / jnp.sum(jnp.abs(pn))

    return lax.while_loop(lambda state: state[1] > target, step, (p, jnp.float64(1.0)))[0]


def wave_1d(u0: Array, c: float, steps: int) -> Array:
    def step(_: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        prev, cur, nxt = state
        nxt = nxt.at[1:-1].set(2 * cur[1:-1] - prev[1:-1] + c * c * (cur[2:] - 2 * cur[1:-1] + cur[:-2]))
        return cur, nxt, prev

    return lax.fori_loop(0, steps, step, (u0, u0, jnp.zeros_like(u0)))[1]


def burgers(u: Array, nu: float, dx: float, dt: float, nt: int) -> Array:
    def flow(here: Array, left: Array, right: Array) -> Array:
        return here - here * dt / dx * (here - left) + nu * dt / dx**2 * (right - 2 * here + left)

    def step(_: Any, un: Array) -> Array:
        u = un.at[1:-1].set(flow(un[1:-1], un[:-2], un[2:]))
        u = u.at[0].set(flow(un[0], un[-2], un[1]))
        return u.at[-1].set(u[0])

    return lax.fori_loop(0, nt, step, u)


def cavity_flow(
    nx: int, ny: int, nt: int, nit: int, u: Array, v: Array, dt: float, dx: float, dy: float, p: Array, rho: float,
    nu: float,
) -> tuple[Array, Array, Array]:  # fmt: skip
    def sources(u: Array, v: Array) -> Array:
        ux, uy = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx), (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy)
        vx, vy = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
        return rho * (1 / dt * (ux + vy) - ux**2 - 2 * (uy * vx) - vy**2)

    def relax(b: Array, pn: Array) -> Array:
        around = (pn[1:-1, 2:] + pn[1:-1, :-2]) * dy**2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx**2
        p = pn.at[1:-1, 1:-1].set(around / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b)
        p = p.at[:, -1].set(p[:, -2])
        p = p.at[0, :].set(p[1, :])
        p = p.at[:, 0].set(p[:, 1])
        return p.at[-1, :].set(0)

    def move(f: Array, u: Array, v: Array, slope: Array) -> Array:
        inner = f[1:-1, 1:-1]
        return (
            inner
            - u[1:-1, 1:-1] * dt / dx * (inner - f[1:-1, :-2])
            - v[1:-1, 1:-1] * dt / dy * (inner - f[:-2, 1:-1])
            - slope
            + nu
            * (
                dt / dx**2 * (f[1:-1, 2:] - 2 * inner + f[1:-1, :-2])
                + dt / dy**2 * (f[2:, 1:-1] - 2 * inner + f[:-2, 1:-1])
            )
        )

    def step(_: Any, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        un, vn, p = state
        b = sources(un, vn)
        p = lax.fori_loop(0, nit, lambda _, p: relax(b, p), p)
        u = un.at[1:-1, 1:-1].set(move(un, un, vn, dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, :-2])))
        v = vn.at[1:-1, 1:-1].set(move(vn, un, vn, dt / (2 * rho * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])))
        u = u.at[0, :].set(0).at[:, 0].set(0).at[:, -1].set(0).at[-1, :].set(1)
        return u, v.at[0, :].set(0).at[-1, :].set(0).at[:, 0].set(0).at[:, -1].set(0), p

    return lax.fori_loop(0, nt, step, (u, v, p))


def horizontal_diffusion(in_field: Array, out_field: Array, coeff: Array) -> tuple[Array]:
    I, J = out_field.shape[0], out_field.shape[1]
    lap = 4.0 * in_field[1 : I + 3, 1 : J + 3] - (
        in_field[2 : I + 4, 1 : J + 3]
        + in_field[0 : I + 2, 1 : J + 3]
        + in_field[1 : I + 3, 2 : J + 4]
        + in_field[1 : I + 3, 0 : J + 2]
    )
    res = lap[1:, 1 : J + 1] - lap[:-1, 1 : J + 1]
    flx = jnp.where((res * (in_field[2 : I + 3, 2 : J + 2] - in_field[1 : I + 2, 2 : J + 2])) > 0, 0, res)
    res = lap[1 : I + 1, 1:] - lap[1 : I + 1, :-1]
    fly = jnp.where((res * (in_field[2 : I + 2, 2 : J + 3] - in_field[2 : I + 2, 1 : J + 2])) > 0, 0, res)
    return (in_field[2 : I + 2, 2 : J + 2] - coeff * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1]),)


def gray_scott(U: Array, V: Array, Du: float, Dv: float, F: float, k: float, steps: int) -> Array:
    def laplacian(a: Array) -> Array:
        return a[:-2, 1:-1] + a[1:-1, :-2] - 4 * a[1:-1, 1:-1] + a[1:-1, 2:] + a[2:, 1:-1]

    def step(_: Any, both: tuple[Array, Array]) -> tuple[Array, Array]:
        U, V = both
        u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
        uvv = u * v * v
        new = u + Du * laplacian(U) - uvv + F * (1 - u)
        return U.at[1:-1, 1:-1].set(new), V.at[1:-1, 1:-1].set(v + Dv * laplacian(V) + uvv - (F + k) * v)

    return lax.fori_loop(0, steps, step, (U, V))[1]


def fdtd_2d(ex: Array, ey: Array, hz: Array, fict: Array) -> tuple[Array, Array, Array]:
    def step(t: Array, fields: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        ex, ey, hz = fields
        ey = ey.at[0, :].set(fict[t]).at[1:, :].add(-0.5 * (hz[1:, :] - hz[:-1, :]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return ex, ey, hz.at[:-1, :-1].add(-0.7 * curl)

    return lax.fori_loop(0, fict.shape[0], step, (ex, ey, hz))


def life_slices(Z: Array, steps: int) -> Array:
    def step(_: Any, Z: Array) -> Array:
        N = Z[:-2, :-2] + Z[:-2, 1:-1] + Z[:-2, 2:] + Z[1:-1, :-2] + Z[1:-1, 2:] + Z[2:, :-2] + Z[2:, 1:-1] + Z[2:, 2:]
        alive = Z[1:-1, 1:-1] == 1
        lives = ((N == 3) & ~alive) | (((N == 2) | (N == 3)) & alive)
        return jnp.zeros_like(Z).at[1:-1, 1:-1].set(lives.astype(Z.dtype))

    return lax.fori_loop(0, steps, step, Z)


def life_rolls(g: Array, steps: int) -> Array:
    def step(_: Any, g: Array) -> Array:
        n = sum(jnp.roll(jnp.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        return ((n == 3) | ((g == 1) & (n == 2))).astype(g.dtype)

    return lax.fori_loop(0, steps, step, g)


REWRITTEN: Sequence[Callable[..., Any]] = [jax.jit(f) for f in (
    heat_1d, heat_2d, heat_3d, jacobi_1d, gauss_seidel, laplace_until, wave_1d, burgers, cavity_flow,
    horizontal_diffusion, gray_scott, fdtd_2d, life_slices, life_rolls,
)]  # fmt: skip
