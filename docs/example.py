"""The program that ARCHITECTURE.md follows: the last layer of a classifier, as anyone would write it in NumPy."""

import numpy as np

w = ((np.arange(640) % 7 - 3) / 8).astype(np.float32).reshape(64, 10)
b = (np.arange(10) / 16).astype(np.float32)


def classify(x):
    """Probabilities (n, 10) of float32 features (n, 64)."""
    scores = (x @ w + b) / 2
    shifted = scores - np.max(scores, axis=-1, keepdims=True)
    return np.exp(shifted) / np.sum(np.exp(shifted), axis=-1, keepdims=True)
