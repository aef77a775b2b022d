"""Estimation, filters of states, prices, clustering, random numbers from keys."""

import math

import numpy as np

import zenith
from tests.plain.program import Program


def kmeans(X, centres, iterations):
    """Lloyd's algorithm with sums over all points."""
    k = centres.shape[0]
    labels = np.zeros(X.shape[0], dtype=int)
    for _ in range(iterations):
        for i in range(X.shape[0]):
            best = np.inf
            for c in range(k):
                d = np.sum((X[i] - centres[c]) ** 2)
                if d < best:
                    best = d
                    labels[i] = c
        sums = np.zeros_like(centres)
        counts = np.zeros(k)
        for i in range(X.shape[0]):
            sums[labels[i]] += X[i]
            counts[labels[i]] += 1
        for c in range(k):
            if counts[c] > 0:
                centres[c] = sums[c] / counts[c]
    return labels


def kmeans_masks(X, k, iterations):
    C = X[:k].copy()
    for _ in range(iterations):
        d = ((X[:, None, :] - C[None]) ** 2).sum(-1)
        labels = d.argmin(1)
        for j in range(k):
            m = labels == j
            if m.any():
                C[j] = X[m].mean(axis=0)
    return C


def kalman(z, F, H, Q, R, x, P):
    """The filtered states of a linear model."""
    out = np.zeros((len(z), len(x)))
    I = np.eye(len(x))
    for t in range(len(z)):
        x = F @ x
        P = F @ P @ F.T + Q
        y = z[t] - H @ x
        S = H @ P @ H.T + R
        K = P @ H.T / S[0, 0]
        x = x + K @ y
        P = (I - K @ H) @ P
        out[t] = x
    return out


def hmm_forward(pi, A, B, obs):
    """The logarithm of the likelihood, with scaling."""
    alpha = pi * B[:, obs[0]]
    loglik = 0.0
    for t in range(1, len(obs)):
        c = alpha.sum()
        loglik += np.log(c)
        alpha = (alpha / c) @ A * B[:, obs[t]]
    return loglik + np.log(alpha.sum())


def viterbi(pi, A, B, obs):
    T = len(obs)
    N = len(pi)
    delta = np.zeros((T, N))
    psi = np.zeros((T, N), dtype=int)
    delta[0] = np.log(pi) + np.log(B[:, obs[0]])
    for t in range(1, T):
        for j in range(N):
            s = delta[t - 1] + np.log(A[:, j])
            psi[t, j] = np.argmax(s)
            delta[t, j] = s[psi[t, j]] + np.log(B[j, obs[t]])
    path = np.zeros(T, dtype=int)
    path[-1] = np.argmax(delta[-1])
    for t in range(T - 2, -1, -1):
        path[t] = psi[t + 1, path[t + 1]]
    return path


def normal_cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def black_scholes(S, K, T, r, sigma):
    call = np.empty_like(S)
    for i in range(len(S)):
        d1 = (math.log(S[i] / K[i]) + (r + 0.5 * sigma**2) * T[i]) / (sigma * math.sqrt(T[i]))
        d2 = d1 - sigma * math.sqrt(T[i])
        call[i] = S[i] * normal_cdf(d1) - K[i] * math.exp(-r * T[i]) * normal_cdf(d2)
    return call


def binomial_option(S, K, T, r, sigma, n):
    """An American put on a tree of prices."""
    dt = T / n
    u = np.exp(sigma * np.sqrt(dt))
    d = 1 / u
    p = (np.exp(r * dt) - d) / (u - d)
    disc = np.exp(-r * dt)
    values = np.zeros(n + 1)
    for j in range(n + 1):
        values[j] = max(K - S * u**j * d ** (n - j), 0.0)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1):
            hold = disc * (p * values[j + 1] + (1 - p) * values[j])
            values[j] = max(hold, K - S * u**j * d ** (i - j))
    return values[0]


def monte_carlo_pi(seed, n):
    key = zenith.random.key(seed)
    inside = 0
    for i in range(n):
        x, y = zenith.random.uniform(zenith.random.fold_in(key, i), (2,))
        if x * x + y * y < 1:
            inside += 1
    return 4.0 * inside / n


def linear_regression(X, y, rate, steps):
    w = np.zeros(X.shape[1])
    b = 0.0
    n = len(y)
    for _ in range(steps):
        error = X @ w + b - y
        w -= rate * (X.T @ error) / n
        b -= rate * error.sum() / n
    return w, b


def logistic_sgd(X, y, rate, epochs):
    """Stochastic gradient descent, one example after the other."""
    w = np.zeros(X.shape[1])
    for _ in range(epochs):
        for xi, yi in zip(X, y):
            p = 1.0 / (1.0 + np.exp(-(xi @ w)))
            w += rate * (yi - p) * xi
    return w


def perceptron(X, y, epochs):
    w = np.zeros(X.shape[1])
    errors = 0
    for epoch in range(epochs):
        errors = 0
        for i in range(X.shape[0]):
            if y[i] * np.dot(w, X[i]) <= 0:
                w += y[i] * X[i]
                errors += 1
        if errors == 0:
            break
    return w, errors


def welford(x):
    mean = 0.0
    m2 = 0.0
    n = 0
    for v in x:
        n += 1
        delta = v - mean
        mean += delta / n
        m2 += delta * (v - mean)
    return mean, m2 / (n - 1)


def gaussian_mixture(x, mu, sigma, w, iterations):
    """Expectation maximisation in one dimension."""
    for _ in range(iterations):
        d = (x[:, None] - mu) / sigma
        p = w * np.exp(-0.5 * d * d) / sigma
        p /= p.sum(axis=1, keepdims=True)
        N = p.sum(axis=0)
        mu = (p * x[:, None]).sum(axis=0) / N
        sigma = np.sqrt((p * (x[:, None] - mu) ** 2).sum(axis=0) / N)
        w = N / len(x)
    return mu, sigma, w


def autocorrelation(x, lags):
    out = np.zeros(lags)
    m = x.mean()
    n = len(x)
    for lag in range(lags):
        s = 0.0
        for t in range(n - lag):
            s += (x[t] - m) * (x[t + lag] - m)
        out[lag] = s / n
    return out


def correlation(data):
    """The correlation of columns."""
    mean = np.mean(data, axis=0)
    stddev = np.std(data, axis=0)
    stddev[stddev <= 0.1] = 1.0
    data -= mean
    data /= np.sqrt(data.shape[0]) * stddev
    n = data.shape[1]
    corr = np.eye(n)
    for i in range(n):
        for j in range(i + 1, n):
            corr[i, j] = corr[j, i] = data[:, i] @ data[:, j]
    return corr


def ewma(x, alpha):
    out = x.copy()
    for i in range(1, x.size):
        out[i] = alpha * x[i] + (1 - alpha) * out[i - 1]
    return out


def garch(r, omega, alpha, beta):
    """The negative logarithm of the likelihood."""
    var = np.mean(r**2)
    total = 0.0
    for x in r:
        total += 0.5 * (math.log(2 * math.pi) + math.log(var) + x * x / var)
        var = omega + alpha * x**2 + beta * var
    return total


def metropolis(steps, uniforms, width):
    """A chain for the normal distribution, with random numbers as arguments."""
    x = 0.0
    accepted = 0
    chain = np.empty(steps)
    for t in range(steps):
        new = x + width * (uniforms[t, 0] - 0.5)
        if uniforms[t, 1] < math.exp(0.5 * (x * x - new * new)):
            x = new
            accepted += 1
        chain[t] = x
    return chain, accepted / steps


def _kalman(n, rng):
    F = np.array([[1.0, 0.1], [0.0, 1.0]])
    return rng.random((n, 1)), F, np.array([[1.0, 0.0]]), 0.01 * np.eye(2), np.array([[0.1]]), np.zeros(2), np.eye(2)


def _chain(n, rng):
    A, B = rng.random((4, 4)), rng.random((4, 5))
    return np.full(4, 0.25), A / A.sum(1, keepdims=True), B / B.sum(1, keepdims=True), rng.integers(0, 5, n)


def _classes(n, rng):
    X = rng.normal(size=(n, 3))
    return X, (X @ np.array([1.0, -2.0, 0.5]) > 0).astype(float)


PROGRAMS = [
    Program(kmeans, lambda n, rng: (rng.random((3 * n, 2)), rng.random((3, 2)), 4)),
    Program(kmeans_masks, lambda n, rng: (rng.random((3 * n, 2)), 3, 4)),
    Program(kalman, _kalman, smooth=(0, 5)),
    Program(hmm_forward, _chain, smooth=(0, 1, 2)),
    Program(viterbi, _chain),
    Program(black_scholes, lambda n, rng: (90 + 20 * rng.random(n), 90 + 20 * rng.random(n), 1 + rng.random(n), 0.02,
                                           0.2), smooth=(0, 2, 3)),
    Program(binomial_option, lambda n, rng: (100.0, 105.0, 1.0, 0.03, 0.2, n), smooth=(0, 3)),
    Program(monte_carlo_pi, lambda n, rng: (7, 10 * n)),
    Program(linear_regression, lambda n, rng: (rng.random((n, 3)), rng.random(n), 0.1, 20), smooth=(0, 1)),
    Program(logistic_sgd, lambda n, rng: (*_classes(n, rng), 0.1, 3), smooth=(0,)),
    Program(perceptron, lambda n, rng: (_classes(n, rng)[0], 2 * _classes(n, rng)[1] - 1, 9)),
    Program(welford, lambda n, rng: (rng.random(n),), smooth=(0,)),
    Program(gaussian_mixture, lambda n, rng: (rng.random(3 * n), np.array([0.2, 0.8]), np.ones(2), np.full(2, 0.5), 9),
            smooth=(0,)),
    Program(autocorrelation, lambda n, rng: (rng.random(2 * n), n), smooth=(0,)),
    Program(correlation, lambda n, rng: (rng.random((n + 2, n)),)),
    Program(ewma, lambda n, rng: (rng.random(n), 0.3), smooth=(0, 1)),
    Program(garch, lambda n, rng: (rng.normal(size=n), 0.1, 0.1, 0.8), smooth=(0, 1)),
    Program(metropolis, lambda n, rng: (n, rng.random((n, 2)), 3.0)),
]  # fmt: skip
