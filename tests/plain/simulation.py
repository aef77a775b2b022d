"""Bodies, differential equations, roots and integrals."""

import math

import numpy as np

from tests.plain.program import Program


def nbody_loops(pos, vel, mass, dt, steps):
    n = len(mass)
    for _ in range(steps):
        acc = np.zeros_like(pos)
        for i in range(n):
            for j in range(n):
                if i != j:
                    d = pos[j] - pos[i]
                    r2 = d @ d + 1e-3
                    acc[i] += mass[j] * d / (r2 * np.sqrt(r2))
        vel += dt * acc
        pos += dt * vel
    return pos, vel


def accelerations(pos, mass, G, softening):
    """All pairs at once."""
    x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inv_r3 = dx**2 + dy**2 + dz**2 + softening**2
    inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
    ax = G * (dx * inv_r3) @ mass
    ay = G * (dy * inv_r3) @ mass
    az = G * (dz * inv_r3) @ mass
    return np.hstack((ax, ay, az))


def nbody_masks(mass, pos, vel, N, Nt, dt, G, softening):
    """Leapfrog, and the kinetic energy of each step."""
    vel -= np.mean(mass * vel, axis=0) / np.mean(mass)
    acc = accelerations(pos, mass, G, softening)
    KE = np.ndarray(Nt + 1, dtype=np.float64)
    KE[0] = 0.5 * np.sum(mass * vel**2)
    for i in range(Nt):
        vel += acc * dt / 2.0
        pos += vel * dt
        acc = accelerations(pos, mass, G, softening)
        vel += acc * dt / 2.0
        KE[i + 1] = 0.5 * np.sum(mass * vel**2)
    return KE


def rk4(f, y, h, n):
    for _ in range(n):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def lorenz_rk4(y, h, n):
    def lorenz(y):
        return np.array([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])

    return rk4(lorenz, y, h, n)


def pendulum(theta, omega, dt, steps):
    trajectory = np.zeros((steps, 2))
    for i in range(steps):
        omega = omega - 9.81 * math.sin(theta) * dt
        theta = theta + omega * dt
        trajectory[i, 0] = theta
        trajectory[i, 1] = omega
    return trajectory


def lotka_volterra(x, y, dt, steps):
    xs, ys = np.empty(steps + 1), np.empty(steps + 1)
    xs[0], ys[0] = x, y
    for k in range(steps):
        xs[k + 1] = xs[k] + dt * (1.1 * xs[k] - 0.4 * xs[k] * ys[k])
        ys[k + 1] = ys[k] + dt * (0.1 * xs[k] * ys[k] - 0.4 * ys[k])
    return xs, ys


def spring_chain(x, v, k, dt, steps):
    """A chain of masses between two walls."""
    f = np.zeros_like(x)
    for _ in range(steps):
        f[0] = k * (x[1] - 2 * x[0])
        f[-1] = k * (x[-2] - 2 * x[-1])
        for i in range(1, len(x) - 1):
            f[i] = k * (x[i + 1] - 2 * x[i] + x[i - 1])
        v += dt * f
        x += dt * v


def bisection(lo, hi, tol):
    def f(x):
        return x**3 - 2 * x - 5

    while hi - lo > tol:
        mid = (lo + hi) / 2
        if f(lo) * f(mid) <= 0:
            hi = mid
        else:
            lo = mid
    return (lo + hi) / 2


def newton_line_search(x0, tol):
    """The minimum of Rosenbrock's function by damped Newton steps."""

    def f(x):
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    x = x0.copy()
    for it in range(100):
        g = np.array([-2 * (1 - x[0]) - 400 * x[0] * (x[1] - x[0] ** 2), 200 * (x[1] - x[0] ** 2)])
        if np.sqrt(g @ g) < tol:
            break
        a = 2 - 400 * x[1] + 1200 * x[0] ** 2
        b = -400 * x[0]
        d = 200.0
        det = a * d - b * b
        p = -np.array([d * g[0] - b * g[1], a * g[1] - b * g[0]]) / det
        t = 1.0
        while f(x + t * p) > f(x) + 1e-4 * t * (g @ p) and t > 1e-8:
            t *= 0.5
        x = x + t * p
    return x, it


def newton_sqrt(a):
    x = a
    for i in range(50):
        x = 0.5 * (x + a / x)
    return x


def secant(x0, x1):
    f0 = math.cos(x0) - x0
    for _ in range(30):
        f1 = math.cos(x1) - x1
        if f1 == f0:
            break
        x0, x1, f0 = x1, x1 - f1 * (x1 - x0) / (f1 - f0), f1
    return x1


def simpson(a, b, n):
    f = lambda x: math.exp(-x * x)
    h = (b - a) / n
    s = f(a) + f(b)
    for i in range(1, n):
        s += (4 if i % 2 else 2) * f(a + i * h)
    return s * h / 3


def romberg(a, b, levels):
    R = np.zeros((levels, levels))
    h = b - a
    R[0, 0] = 0.5 * h * (math.sin(a) + math.sin(b))
    points = 1
    for i in range(1, levels):
        h = h / 2
        s = 0.0
        for k in range(points):
            s += math.sin(a + (2 * k + 1) * h)
        points *= 2
        R[i, 0] = 0.5 * R[i - 1, 0] + h * s
        for j in range(1, i + 1):
            R[i, j] = R[i, j - 1] + (R[i, j - 1] - R[i - 1, j - 1]) / (4**j - 1)
    return R[levels - 1, levels - 1]


def gradient_descent(x, rate, tol):
    steps = 0
    while True:
        g = 2 * (x - 1.5) + np.sin(x)
        if np.max(np.abs(g)) < tol:
            break
        x = x - rate * g
        steps += 1
        if steps > 500:
            break
    return x, steps


def ising(spins, uniforms, beta):
    """Metropolis sweeps of the Ising model; uniforms are random numbers."""
    n, m = spins.shape
    for t in range(uniforms.shape[0]):
        for i in range(n):
            for j in range(m):
                s = spins[i, j]
                around = spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % m] + spins[i, j - 1]
                dE = 2 * s * around
                if dE <= 0 or uniforms[t, i, j] < math.exp(-beta * dE):
                    spins[i, j] = -s
    return spins.sum()


def random_walk(seed, n):
    """A linear congruential generator."""
    x = seed
    position = 0
    farthest = 0
    for _ in range(n):
        x = (1103515245 * x + 12345) % 2147483648
        position += 1 if x > 1073741824 else -1
        farthest = max(farthest, abs(position))
    return position, farthest


def lennard_jones(pos):
    n = pos.shape[0]
    energy = 0.0
    force = np.zeros(pos.shape)
    for i in range(n):
        for j in range(i + 1, n):
            d = pos[i] - pos[j]
            r2 = np.dot(d, d)
            if r2 > 6.25:
                continue
            s6 = 1.0 / r2**3
            energy += 4 * (s6 * s6 - s6)
            f = 24 * (2 * s6 * s6 - s6) / r2
            force[i] += f * d
            force[j] -= f * d
    return energy, force


def polynomial(coefficients, x):
    """Horner's rule over points."""
    y = np.zeros_like(x)
    for i in range(len(x)):
        p = 0.0
        for c in coefficients[::-1]:
            p = p * x[i] + c
        y[i] = p
    return y


class Oscillator:
    """A driven oscillator; its parameters are attributes."""

    def __init__(self, k, damping):
        self.k = k
        self.__damping = damping

    def force(self, x, v, t):
        return -self.k * x - self.__damping * v + math.cos(t)

    def run(self, x, v, dt, n):
        t = 0.0
        for _ in range(n):
            v += dt * self.force(x, v, t)
            x += dt * v
            t += dt
        return x, v


def oscillator(x, v, n):
    return Oscillator(2.0, 0.1).run(x, v, 0.01, n)


def _bodies(n, rng):
    return rng.random((n, 3)), rng.random((n, 3)), rng.random(n), 0.01, 3


def _apart(n, rng):
    """Particles that are near no other one."""
    side = max(3, int(np.ceil(np.cbrt(n))))
    grid = np.stack(np.meshgrid(*[np.arange(float(side))] * 3), -1).reshape(-1, 3)
    return (1.2 * grid[:n] + 0.1 * rng.random((n, 3)),)


PROGRAMS = [
    Program(nbody_loops, _bodies, smooth=(0, 1, 2)),
    Program(nbody_masks, lambda n, rng: (rng.random((n, 1)), rng.random((n, 3)), rng.random((n, 3)), n, 4, 0.01, 1.0,
                                         0.1), smooth=(1, 2)),
    Program(lorenz_rk4, lambda n, rng: (rng.random(3), 0.01, n), smooth=(0, 1), largest=1024),  # chaotic
    Program(pendulum, lambda n, rng: (0.5, 0.0, 0.01, n), smooth=(0, 1)),
    Program(lotka_volterra, lambda n, rng: (10.0, 5.0, 0.01, n), smooth=(0, 1)),
    Program(spring_chain, lambda n, rng: (rng.random(n), rng.random(n), 2.0, 0.01, n), smooth=(0, 1, 2)),
    Program(bisection, lambda n, rng: (0.0, float(n), 1e-9)),
    Program(newton_line_search, lambda n, rng: (np.array([-1.2, 0.1 * n]), 1e-9), rtol=1e-7),
    Program(newton_sqrt, lambda n, rng: (float(n),), smooth=(0,)),
    Program(secant, lambda n, rng: (0.0, 0.1 * n)),
    Program(simpson, lambda n, rng: (0.0, 1.0, 2 * n), smooth=(0, 1)),
    Program(romberg, lambda n, rng: (0.0, 1.0, n), (3, 5, 9), largest=15),
    Program(gradient_descent, lambda n, rng: (rng.random(n), 0.1, 1e-8)),
    Program(ising, lambda n, rng: (rng.choice([-1, 1], (n, n + 1)), rng.random((3, n, n + 1)), 0.4)),
    Program(random_walk, lambda n, rng: (n, 5 * n)),
    Program(lennard_jones, _apart, smooth=(0,)),
    Program(polynomial, lambda n, rng: (rng.random(n), rng.random(n + 1)), smooth=(0, 1)),
    Program(oscillator, lambda n, rng: (1.0, 0.0, n), smooth=(0, 1)),
]  # fmt: skip
