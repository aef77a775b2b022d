"""Programs whose arrays shrink and grow while they run: active points, frontiers, candidates, what has been found."""

import itertools

import numpy as np

from tests.plain.program import Program


def mandelbrot_active(xmin, xmax, ymin, ymax, xn, yn, limit, horizon=2.0):
    """The Mandelbrot set, where points that have left are no longer computed."""
    Xi, Yi = np.mgrid[0:xn, 0:yn]
    X = np.linspace(xmin, xmax, xn)[Xi]
    Y = np.linspace(ymin, ymax, yn)[Yi]
    C = X + Y * 1j
    turns = np.zeros(C.shape, dtype=np.int64)
    last = np.zeros(C.shape, dtype=np.complex128)
    Xi, Yi, C = Xi.ravel(), Yi.ravel(), C.ravel()
    Z = np.zeros(C.shape, np.complex128)
    for k in range(limit):
        if not len(Z):
            break
        np.multiply(Z, Z, Z)
        np.add(Z, C, Z)
        gone = abs(Z) > horizon
        turns[Xi[gone], Yi[gone]] = k + 1
        last[Xi[gone], Yi[gone]] = Z[gone]
        np.logical_not(gone, gone)
        Z = Z[gone]
        Xi, Yi = Xi[gone], Yi[gone]
        C = C[gone]
    return last.T, turns.T


def newton_fractal(z, steps, tol):
    """Roots of unity by Newton's method, until each point has converged."""
    turns = np.zeros(z.size, dtype=np.int64)
    active = np.arange(z.size)
    for k in range(steps):
        if active.size == 0:
            break
        w = z[active]
        w = w - (w**3 - 1) / (3 * w**2)
        z[active] = w
        done = np.abs(w**3 - 1) < tol
        turns[active[done]] = k
        active = active[~done]
    return turns


def frontiers(adjacent, start):
    """Distances in a graph, a frontier after the other."""
    distance = np.full(adjacent.shape[0], -1)
    distance[start] = 0
    frontier = np.array([start])
    level = 0
    while frontier.size > 0:
        level += 1
        reached = adjacent[frontier].any(axis=0)
        frontier = np.flatnonzero(reached & (distance < 0))
        distance[frontier] = level
    return distance


def quickselect(x, k):
    """The k-th smallest element, by the pivot in the middle."""
    while len(x) > 1:
        pivot = x[len(x) // 2]
        below = x[x < pivot]
        if k < len(below):
            x = below
        elif k < len(x) - np.count_nonzero(x > pivot):
            return pivot
        else:
            k -= len(x) - np.count_nonzero(x > pivot)
            x = x[x > pivot]
    return x[0]


def sigma_clipped(x, width):
    """Mean and deviation of what is not an outlier."""
    while True:
        mean, deviation = x.mean(), x.std()
        keep = np.abs(x - mean) <= width * deviation
        if keep.all():
            return mean, deviation, x
        x = x[keep]


def struck_out(n):
    """Primes below n, the multiples of each struck out of what is left."""
    left = np.arange(2, n)
    k = 0
    while k < len(left) and left[k] ** 2 < n:
        p = left[k]
        left = left[(left % p != 0) | (left == p)]
        k += 1
    return left


def crossings(t, x):
    """Where a signal changes its sign, between the samples."""
    found = np.array([])
    for k in range(len(x) - 1):
        if x[k] * x[k + 1] < 0:
            found = np.append(found, t[k] - x[k] * (t[k + 1] - t[k]) / (x[k + 1] - x[k]))
    return found


def escaping(x, v, steps, dt):
    """Particles in a well, of which those that leave are lost."""
    lost = 0
    for _ in range(steps):
        v = v - dt * np.sin(x)
        x = x + dt * v
        inside = np.abs(x) < np.pi
        lost += np.count_nonzero(~inside)
        x, v = x[inside], v[inside]
    return x, v, lost


def tree_sum(x):
    """The first half and the second one, the sums of these, and so on."""
    while len(x) > 1:
        half = len(x) // 2
        x = np.concatenate((x[:half] + x[half : 2 * half], x[2 * half :]))
    return x[0]


def pair_energy(r):
    """Lennard-Jones energy of all pairs."""
    i, j = np.triu_indices(len(r), k=1)
    d2 = ((r[i] - r[j]) ** 2).sum(axis=1)
    return np.sum(4 * (1 / d2**6 - 1 / d2**3))


def pair_forces(r):
    """Gravity, one pair after the other."""
    f = np.zeros_like(r)
    for i, j in itertools.combinations(range(len(r)), 2):
        d = r[j] - r[i]
        pull = d / (d @ d + 0.01) ** 1.5
        f[i] += pull
        f[j] -= pull
    return f


def local_maxima(a):
    """The elements that are larger than all their neighbours."""
    n, m = a.shape
    found = np.zeros(a.shape, dtype=bool)
    for i, j in np.ndindex(n - 2, m - 2):
        around = a[i : i + 3, j : j + 3]
        found[i + 1, j + 1] = a[i + 1, j + 1] == around.max() and (around == a[i + 1, j + 1]).sum() == 1
    return found


def polynomial_fit(x, y):
    """A parabola by the normal equations, and its values between the samples."""
    A = np.c_[np.ones(len(x)), x, x**2]
    c = np.linalg.solve(A.T @ A, A.T @ y)
    at = np.r_[x[0], 0.5 * (x[1:] + x[:-1]), x[-1]]
    return np.c_[np.ones(len(at)), at, at**2] @ c


def rings(a):
    """Means of an image over rings around its centre."""
    n, m = a.shape
    y, x = np.ogrid[0:n, 0:m]
    r = np.hypot(y - (n - 1) / 2, x - (m - 1) / 2).astype(int)
    total = np.bincount(r.ravel(), weights=a.ravel(), minlength=n + m)
    count = np.bincount(r.ravel(), minlength=n + m)
    return total / np.maximum(count, 1)


def _graph(n, rng):
    return rng.random((n, n)) < 2.0 / n, 0


def _chain(n, rng):
    return np.arange(n)[:, None] * np.array([1.2, 0.0, 0.1]) + 0.1 * rng.random((n, 3))


def _line(n, rng):
    x = np.linspace(-1, 1, n)
    return x, 1 + x - 2 * x**2 + 0.1 * rng.standard_normal(n)


PROGRAMS = [
    Program(mandelbrot_active, lambda n, rng: (-1.75, 0.25, -1.0, 1.0, n, n + 3, 30), largest=512),
    Program(newton_fractal, lambda n, rng: (rng.normal(size=n) + 1j * rng.normal(size=n), 40, 1e-9)),
    Program(frontiers, _graph, largest=2048),
    Program(quickselect, lambda n, rng: (rng.random(n), n // 3)),
    Program(sigma_clipped, lambda n, rng: (rng.standard_normal(n) ** 3, 2.0), hangs=("numba parallel",)),
    Program(struck_out, lambda n, rng: (10 * n,), hangs=("numba parallel",)),
    Program(crossings, lambda n, rng: (np.linspace(0, 9, n), rng.standard_normal(n)), smooth=(1,), largest=4096),
    Program(escaping, lambda n, rng: (rng.normal(size=n), rng.normal(size=n), 50, 0.1), smooth=(0, 1)),
    Program(tree_sum, lambda n, rng: (rng.random(n),), hangs=("numba parallel",)),
    Program(pair_energy, lambda n, rng: (_chain(n, rng),), smooth=(0,), rtol=1e-8, largest=1024),
    Program(pair_forces, lambda n, rng: (rng.random((n, 3)),), smooth=(0,), largest=512),
    Program(local_maxima, lambda n, rng: (rng.integers(0, 20, (n, n + 1)) * 1.0,), largest=512),
    Program(polynomial_fit, _line, smooth=(0, 1), rtol=1e-8),
    Program(rings, lambda n, rng: (rng.random((n, n + 2)),), largest=1024),
]
