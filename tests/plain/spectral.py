"""Steps in time and iterations that call NumPy's solvers and Fourier transforms in each turn."""

import numpy as np

from tests.plain.program import Program


def split_step(u, dt, steps):
    """The nonlinear Schrödinger equation by Strang splitting."""
    k = 2 * np.pi * np.fft.fftfreq(u.shape[0], 0.1)
    half = np.exp(-0.25j * k**2 * dt)
    for _ in range(steps):
        u = np.fft.ifft(half * np.fft.fft(u))
        u = u * np.exp(1j * np.abs(u) ** 2 * dt)
        u = np.fft.ifft(half * np.fft.fft(u))
    return u


def burgers_spectral(u, nu, dt, steps):
    """Burgers' equation, pseudo-spectral in space, Heun's method in time."""
    n = len(u)
    k = np.arange(n // 2 + 1)

    def slope(u):
        v = np.fft.rfft(u)
        return np.fft.irfft(-nu * k**2 * v, n) - u * np.fft.irfft(1j * k * v, n)

    for _ in range(steps):
        first = slope(u)
        second = slope(u + dt * first)
        u = u + dt / 2 * (first + second)
    return u


def vorticity(w, nu, dt, steps):
    """Navier-Stokes in a periodic square, by the vorticity's stream function."""
    n = w.shape[0]
    k = np.fft.fftfreq(n, 1.0 / n)
    kx, ky = k[:, None], k[None, :]
    k2 = kx**2 + ky**2
    inverse = np.where(k2 == 0, 0.0, 1.0 / np.where(k2 == 0, 1.0, k2))
    for _ in range(steps):
        wh = np.fft.fft2(w)
        psi = wh * inverse
        u, v = np.fft.ifft2(1j * ky * psi).real, np.fft.ifft2(-1j * kx * psi).real
        wx, wy = np.fft.ifft2(1j * kx * wh).real, np.fft.ifft2(1j * ky * wh).real
        w = w + dt * (np.fft.ifft2(-nu * k2 * wh).real - u * wx - v * wy)
    return w


def newton_system(x, tol):
    """Newton's method for a system of equations, until it has converged."""
    n = x.shape[0]
    turns = 0
    while True:
        r = x + 0.1 * x**3 + 0.1 * np.roll(x, 1) - np.cos(np.arange(n))
        if np.abs(r).max() < tol or turns == 50:
            break
        J = np.diag(1 + 0.3 * x**2) + 0.1 * np.roll(np.eye(n), 1, axis=0)
        x = x - np.linalg.solve(J, r)
        turns += 1
    return x, turns


def tracking(z, F, H, Q, R, x, P):
    """A Kalman filter of any number of states and measurements, and its log-likelihood."""
    found = np.zeros((z.shape[0], x.shape[0]))
    loglik = 0.0
    for t in range(z.shape[0]):
        x, P = F @ x, F @ P @ F.T + Q
        S = H @ P @ H.T + R
        e = z[t] - H @ x
        K = np.linalg.solve(S, H @ P).T
        x, P = x + K @ e, P - K @ H @ P
        loglik -= 0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(S)[1])
        found[t] = x
    return found, loglik


def levenberg_marquardt(t, y, p, steps):
    """A sum of two exponentials fitted to data, with the damping that each step asks for."""
    damping = 1e-2
    error = np.sum((p[0] * np.exp(-p[1] * t) + p[2] * np.exp(-p[3] * t) - y) ** 2)
    for _ in range(steps):
        first, second = np.exp(-p[1] * t), np.exp(-p[3] * t)
        r = y - p[0] * first - p[2] * second
        J = np.stack([first, -p[0] * t * first, second, -p[2] * t * second], axis=1)
        A = J.T @ J
        step = np.linalg.solve(A + damping * np.diag(np.diag(A)), J.T @ r)
        q = p + step
        new = np.sum((q[0] * np.exp(-q[1] * t) + q[2] * np.exp(-q[3] * t) - y) ** 2)
        if new < error:
            p, error, damping = q, new, damping / 3
        else:
            damping *= 2
    return p, error


def whitened(X, steps):
    """Samples multiplied by the inverse root of their covariance, again and again with a shift."""
    for _ in range(steps):
        X = X - X.mean(axis=0)
        values, vectors = np.linalg.eigh(X.T @ X / X.shape[0])
        X = X @ (vectors / np.sqrt(values + 1e-3)) @ vectors.T
        X = np.tanh(X)
    return X


def _tracks(n, rng):
    states, seen = 6, 5
    F = 0.9 * np.eye(states) + 0.1 * np.eye(states, k=1)
    return (rng.standard_normal((n, seen)), F, rng.standard_normal((seen, states)), 0.01 * np.eye(states),
            0.1 * np.eye(seen), np.zeros(states), np.eye(states))  # fmt: skip


def _decay(n, rng):
    t = np.linspace(0, 4, n)
    y = 2 * np.exp(-0.5 * t) + np.exp(-3 * t) + 0.01 * rng.standard_normal(n)
    return t, y, np.array([1.5, 0.3, 1.2, 2.0]), 6


def _wave(n):
    return np.exp(-(np.linspace(-3, 3, n) ** 2))


PROGRAMS = [
    Program(split_step, lambda n, rng: (_wave(n) * (1 + 0.5j), 1e-3, 20)),
    Program(burgers_spectral, lambda n, rng: (np.sin(np.arange(n) * 2 * np.pi / n), 0.1, 1 / n**2, 20), smooth=(0,)),
    Program(vorticity, lambda n, rng: (rng.standard_normal((n, n)), 0.01, 1e-3, 5), smooth=(0,), largest=512),
    Program(newton_system, lambda n, rng: (rng.random(n), 1e-9), largest=512),
    Program(tracking, _tracks, smooth=(0, 1)),
    Program(levenberg_marquardt, _decay, sizes=(20, 31, 47), rtol=1e-6, smooth=(1,)),
    Program(whitened, lambda n, rng: (rng.standard_normal((n, 5)), 4), smooth=(0,), rtol=1e-8),
]
