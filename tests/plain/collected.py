"""Programs that collect what they find in lists: histories, events, windows, rows."""

import numpy as np

from tests.plain.program import Program


def peaks(x, least):
    """Where a signal has a maximum above a threshold, and how high they are."""
    at, heights = [], []
    for i in range(1, len(x) - 1):
        if x[i - 1] < x[i] > x[i + 1] and x[i] > least:
            at.append(i)
            heights.append(x[i])
    return np.array(at), np.array(heights)


def moving_statistics(x, width):
    """Mean and spread of each window."""
    means = np.array([x[i : i + width].mean() for i in range(len(x) - width + 1)])
    spreads = [np.sqrt(((x[i : i + width] - means[i]) ** 2).mean()) for i in range(len(x) - width + 1)]
    return means, np.array(spreads)


def lorenz_path(state, dt, steps):
    """The path of the Lorenz system by the midpoint method."""

    def slope(s):
        return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])

    path = [state]
    for _ in range(steps):
        middle = state + 0.5 * dt * slope(state)
        state = state + dt * slope(middle)
        path.append(state)
    return np.array(path)


def runs(x):
    """The values of runs of equal elements, and the lengths of the runs."""
    values, lengths = [], []
    begin = 0
    for i in range(1, len(x) + 1):
        if i == len(x) or x[i] != x[begin]:
            values.append(x[begin])
            lengths.append(i - begin)
            begin = i
    return np.array(values), np.array(lengths)


def primes_by_division(n):
    """Prime numbers by trial divisions with those found so far."""
    found = [2]
    for k in range(3, n, 2):
        is_prime = True
        for p in found:
            if p * p > k:
                break
            if k % p == 0:
                is_prime = False
                break
        if is_prime:
            found.append(k)
    return np.array(found)


def jacobi_history(A, b, tol, most):
    """A linear system by Jacobi's method, with the residual of each step."""
    x = np.zeros(len(b))
    d = np.diag(A)
    history = []
    step = 0
    while step < most:
        r = b - A @ x
        size = np.sqrt(r @ r)
        history.append(size)
        if size < tol:
            break
        x = x + r / d
        step += 1
    return x, np.array(history)


def gram(X, gamma):
    """A kernel's matrix, entry by entry."""
    return np.array([[np.exp(-gamma * ((a - b) ** 2).sum()) for b in X] for a in X])


def crossing_events(t, x, level):
    """When a signal crosses a level, and in which direction."""
    events = []
    for i in range(1, len(x)):
        before, after = x[i - 1] - level, x[i] - level
        if before * after < 0:
            at = t[i - 1] - before * (t[i] - t[i - 1]) / (after - before)
            events.append((at, 1.0 if after > before else -1.0))
    return np.array(events)


def _diagonal(n, rng):
    A = rng.random((n, n)) / n
    return A + np.diag(2 + rng.random(n)), rng.random(n), 1e-9, 200


PROGRAMS = [
    Program(peaks, lambda n, rng: (rng.standard_normal(n), 0.2), hangs=("numba parallel",)),
    Program(moving_statistics, lambda n, rng: (rng.standard_normal(n), 5), smooth=(0,)),
    Program(lorenz_path, lambda n, rng: (np.array([1.0, 1.5, 20.0]), 0.002, n), smooth=(0,), rtol=1e-6, largest=8192),
    Program(runs, lambda n, rng: (rng.integers(0, 3, n),)),
    Program(primes_by_division, lambda n, rng: (10 * n,)),
    Program(jacobi_history, _diagonal, rtol=1e-7, largest=1024),
    Program(gram, lambda n, rng: (rng.random((n, 3)), 0.5), smooth=(0,), largest=1024),
    Program(crossing_events, lambda n, rng: (np.linspace(0, 9, n), rng.standard_normal(n), 0.1), smooth=(1,)),
]
