"""Finite differences on grids in one to three dimensions, and cellular automata."""

import numpy as np

from tests.plain.program import Program


def heat_1d(u, alpha, steps):
    un = np.empty_like(u)
    for _ in range(steps):
        un[:] = u
        u[1:-1] = un[1:-1] + alpha * (un[2:] - 2 * un[1:-1] + un[:-2])
    return u


def heat_2d(u, steps):
    for _ in range(steps):
        un = u.copy()
        u[1:-1, 1:-1] = un[1:-1, 1:-1] + 0.1 * (
            un[2:, 1:-1] + un[:-2, 1:-1] + un[1:-1, 2:] + un[1:-1, :-2] - 4 * un[1:-1, 1:-1]
        )


def heat_3d(tsteps, A, B):
    for t in range(1, tsteps):
        B[1:-1, 1:-1, 1:-1] = (
            0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
            + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
            + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, 0:-2])
            + A[1:-1, 1:-1, 1:-1]
        )
        A[1:-1, 1:-1, 1:-1] = (
            0.125 * (B[2:, 1:-1, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[:-2, 1:-1, 1:-1])
            + 0.125 * (B[1:-1, 2:, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, :-2, 1:-1])
            + 0.125 * (B[1:-1, 1:-1, 2:] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, 1:-1, 0:-2])
            + B[1:-1, 1:-1, 1:-1]
        )


def jacobi_1d(steps, A, B):
    for t in range(steps):
        for i in range(1, A.shape[0] - 1):
            B[i] = (A[i - 1] + A[i] + A[i + 1]) / 3
        for i in range(1, A.shape[0] - 1):
            A[i] = (B[i - 1] + B[i] + B[i + 1]) / 3


def gauss_seidel(A, steps):
    n, m = A.shape
    for t in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                A[i, j] = (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1] + A[i, j]) / 5.0


def sor(u, f, omega, tol):
    """Successive over-relaxation until the largest change is small; the number of sweeps."""
    sweeps = 0
    change = tol + 1.0
    while change > tol and sweeps < 200:
        change = 0.0
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                r = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j]) - u[i, j]
                u[i, j] += omega * r
                change = max(change, abs(r))
        sweeps += 1
    return sweeps


def laplace_until(p, target):
    """Relaxation of the Laplace equation until the relative change is below a bound."""
    norm = 1.0
    pn = np.empty_like(p)
    while norm > target:
        pn = p.copy()
        p[1:-1, 1:-1] = 0.25 * (pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1])
        p[:, 0] = 0
        p[0, :] = p[1, :]
        p[-1, :] = p[-2, :]
        norm = np.sum(np.abs(p[:] - pn[:])) / np.sum(np.abs(pn[:]))
    return p


def wave_1d(u0, c, steps):
    """The wave equation with three buffers that change places."""
    prev = u0.copy()
    cur = u0.copy()
    nxt = np.zeros_like(u0)
    for _ in range(steps):
        nxt[1:-1] = 2 * cur[1:-1] - prev[1:-1] + c * c * (cur[2:] - 2 * cur[1:-1] + cur[:-2])
        prev, cur, nxt = cur, nxt, prev
    return cur


def burgers(u, nu, dx, dt, nt):
    for n in range(nt):
        un = u.copy()
        for i in range(1, len(u) - 1):
            u[i] = un[i] - un[i] * dt / dx * (un[i] - un[i - 1]) + nu * dt / dx**2 * (un[i + 1] - 2 * un[i] + un[i - 1])
        u[0] = un[0] - un[0] * dt / dx * (un[0] - un[-2]) + nu * dt / dx**2 * (un[1] - 2 * un[0] + un[-2])
        u[-1] = u[0]
    return u


def build_up_b(b, rho, dt, u, v, dx, dy):
    b[1:-1, 1:-1] = rho * (
        1 / dt * ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx) + (v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy))
        - ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx)) ** 2
        - 2 * ((u[2:, 1:-1] - u[0:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, 0:-2]) / (2 * dx))
        - ((v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy)) ** 2
    )


def pressure_poisson(p, dx, dy, b, nit):
    pn = np.empty_like(p)
    for q in range(nit):
        pn = p.copy()
        p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, 0:-2]) * dy**2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * dx**2) / (
            2 * (dx**2 + dy**2)
        ) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def cavity_flow(nx, ny, nt, nit, u, v, dt, dx, dy, p, rho, nu):
    """The lid-driven cavity of Barba's "CFD Python"."""
    b = np.zeros((ny, nx))
    for n in range(nt):
        un = u.copy()
        vn = v.copy()
        build_up_b(b, rho, dt, u, v, dx, dy)
        pressure_poisson(p, dx, dy, b, nit)
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
            - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[0:-2, 1:-1])
            - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
            + nu
            * (
                dt / dx**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, 0:-2])
                + dt / dy**2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[0:-2, 1:-1])
            )
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, 0:-2])
            - vn[1:-1, 1:-1] * dt / dy * (vn[1:-1, 1:-1] - vn[0:-2, 1:-1])
            - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1])
            + nu
            * (
                dt / dx**2 * (vn[1:-1, 2:] - 2 * vn[1:-1, 1:-1] + vn[1:-1, 0:-2])
                + dt / dy**2 * (vn[2:, 1:-1] - 2 * vn[1:-1, 1:-1] + vn[0:-2, 1:-1])
            )
        )
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = 0
        v[-1, :] = 0
        v[:, 0] = 0
        v[:, -1] = 0


def horizontal_diffusion(in_field, out_field, coeff):
    I, J = out_field.shape[0], out_field.shape[1]
    lap_field = 4.0 * in_field[1 : I + 3, 1 : J + 3] - (
        in_field[2 : I + 4, 1 : J + 3]
        + in_field[0 : I + 2, 1 : J + 3]
        + in_field[1 : I + 3, 2 : J + 4]
        + in_field[1 : I + 3, 0 : J + 2]
    )
    res = lap_field[1:, 1 : J + 1] - lap_field[:-1, 1 : J + 1]
    flx_field = np.where((res * (in_field[2 : I + 3, 2 : J + 2] - in_field[1 : I + 2, 2 : J + 2])) > 0, 0, res)
    res = lap_field[1 : I + 1, 1:] - lap_field[1 : I + 1, :-1]
    fly_field = np.where((res * (in_field[2 : I + 2, 2 : J + 3] - in_field[2 : I + 2, 1 : J + 2])) > 0, 0, res)
    out_field[:, :] = in_field[2 : I + 2, 2 : J + 2] - coeff[:, :] * (
        flx_field[1:, :] - flx_field[:-1, :] + fly_field[:, 1:] - fly_field[:, :-1]
    )


def gray_scott(U, V, Du, Dv, F, k, steps):
    for i in range(steps):
        Lu = U[0:-2, 1:-1] + U[1:-1, 0:-2] - 4 * U[1:-1, 1:-1] + U[1:-1, 2:] + U[2:, 1:-1]
        Lv = V[0:-2, 1:-1] + V[1:-1, 0:-2] - 4 * V[1:-1, 1:-1] + V[1:-1, 2:] + V[2:, 1:-1]
        u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
        uvv = u * v * v
        u += Du * Lu - uvv + F * (1 - u)
        v += Dv * Lv + uvv - (F + k) * v
    return V


def fdtd_2d(ex, ey, hz, fict):
    """Finite differences in the time domain: every time step has another value at the boundary."""
    for t in range(fict.shape[0]):
        ey[0, :] = fict[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def thomas(a, b, c, d):
    n = len(d)
    cp = np.zeros(n)
    dp = np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x = np.zeros(n)
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


def adi(u, lam, steps):
    """Alternating directions: implicit along the rows, then along the columns."""
    n, m = u.shape
    for _ in range(steps):
        half = u.copy()
        for j in range(1, m - 1):
            rhs = u[:, j] + lam * (u[:, j - 1] - 2 * u[:, j] + u[:, j + 1])
            half[:, j] = thomas(-lam * np.ones(n), (1 + 2 * lam) * np.ones(n), -lam * np.ones(n), rhs)
        for i in range(1, n - 1):
            rhs = half[i] + lam * (half[i - 1] - 2 * half[i] + half[i + 1])
            u[i, :] = thomas(-lam * np.ones(m), (1 + 2 * lam) * np.ones(m), -lam * np.ones(m), rhs)
    return u


def life_slices(Z, steps):
    """The game of life with neighbours by slices."""
    for _ in range(steps):
        N = (
            Z[0:-2, 0:-2] + Z[0:-2, 1:-1] + Z[0:-2, 2:] + Z[1:-1, 0:-2]
            + Z[1:-1, 2:] + Z[2:, 0:-2] + Z[2:, 1:-1] + Z[2:, 2:]
        )  # fmt: skip
        birth = (N == 3) & (Z[1:-1, 1:-1] == 0)
        survive = ((N == 2) | (N == 3)) & (Z[1:-1, 1:-1] == 1)
        Z[...] = 0
        Z[1:-1, 1:-1][birth | survive] = 1
    return Z


def life_loops(grid):
    """One generation of the game of life on a torus, cell by cell."""
    n, m = grid.shape
    new = np.zeros((n, m), dtype=grid.dtype)
    for i in range(n):
        for j in range(m):
            alive = 0
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    if di == 0 and dj == 0:
                        continue
                    alive += grid[(i + di) % n, (j + dj) % m]
            if grid[i, j] == 1 and (alive == 2 or alive == 3):
                new[i, j] = 1
            elif grid[i, j] == 0 and alive == 3:
                new[i, j] = 1
    return new


def life_rolls(g, steps):
    g = g.copy()
    for _ in range(steps):
        n = sum(np.roll(np.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        g = ((n == 3) | ((g == 1) & (n == 2))).astype(g.dtype)
    return g


def sandpile(grid):
    """Sand topples until no cell has four grains; how often."""
    toppled = 0
    unstable = True
    while unstable:
        unstable = False
        for i in range(1, grid.shape[0] - 1):
            for j in range(1, grid.shape[1] - 1):
                if grid[i, j] >= 4:
                    grid[i, j] -= 4
                    grid[i - 1, j] += 1
                    grid[i + 1, j] += 1
                    grid[i, j - 1] += 1
                    grid[i, j + 1] += 1
                    toppled += 1
                    unstable = True
    return toppled


def _cavity(n, rng):
    u, v, p = (0.1 * rng.random((n, n + 2)) for _ in range(3))
    return n + 2, n, 4, 5, u, v, 0.001, 0.1, 0.1, p, 1.0, 0.1


PROGRAMS = [
    Program(heat_1d, lambda n, rng: (rng.random(n), 0.2, n + 3), smooth=(0, 1)),
    Program(heat_2d, lambda n, rng: (rng.random((n, n + 1)), n), smooth=(0,)),
    Program(heat_3d, lambda n, rng: (n // 2, rng.random((n, n, n)), rng.random((n, n, n))), (5, 6, 8)),
    Program(jacobi_1d, lambda n, rng: (n, rng.random(n), rng.random(n)), smooth=(1, 2)),
    Program(gauss_seidel, lambda n, rng: (rng.random((n, n + 1)), 3), smooth=(0,)),
    Program(sor, lambda n, rng: (rng.random((n, n)), rng.random((n, n)), 1.5, 1e-6), (9, 10, 12)),
    Program(laplace_until, lambda n, rng: (rng.random((n, n + 2)), 1e-2)),
    Program(wave_1d, lambda n, rng: (rng.random(n), 0.4, n), smooth=(0, 1)),
    Program(burgers, lambda n, rng: (1 + rng.random(n), 0.07, 0.1, 0.01, n), smooth=(0, 1)),
    Program(cavity_flow, _cavity, smooth=(4, 5)),
    Program(
        horizontal_diffusion,
        lambda n, rng: (rng.random((n + 4, n + 5, 3)), np.zeros((n, n + 1, 3)), rng.random((n, n + 1, 3))),
    ),
    Program(gray_scott, lambda n, rng: (rng.random((n, n)), rng.random((n, n)), 0.16, 0.08, 0.035, 0.065, n),
            smooth=(0, 1)),
    Program(fdtd_2d, lambda n, rng: (*(rng.random((n, n + 1)) for _ in range(3)), rng.random(n)), smooth=(0, 2, 3)),
    Program(adi, lambda n, rng: (rng.random((n, n + 2)), 0.3, 3), smooth=(0,)),
    Program(life_slices, lambda n, rng: ((rng.random((n, n)) < 0.4).astype(int), n)),
    Program(life_loops, lambda n, rng: ((rng.random((n, n + 1)) < 0.4).astype(int),)),
    Program(life_rolls, lambda n, rng: ((rng.random((n, n + 1)) < 0.4).astype(int), n)),
    Program(sandpile, lambda n, rng: (rng.integers(0, 6, (n, n)),)),
]  # fmt: skip
