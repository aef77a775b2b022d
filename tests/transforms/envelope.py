"""How far float32 training may be from float64: as far as PyTorch's own is, begun a unit in the last place off."""

import numpy as np

RUNS = 8


def nudged(array, seed):
    """Every element moved by one unit in its last place, up or down."""
    up = np.random.default_rng(seed).integers(0, 2, array.shape).astype(bool)
    return np.nextafter(array, np.where(up, np.inf, -np.inf).astype(array.dtype))


def require_inside(curve, exact, runs):
    """At every step at most twice the largest distance so far of any run, and 2**-20 of the value itself."""
    apart = np.max([np.abs(run - exact) for run in runs], axis=0)
    envelope = 2 * np.maximum.accumulate(apart, axis=0) + 2.0**-20 * np.abs(exact)
    outside = np.abs(curve - exact) > envelope
    assert np.isfinite(curve).all()
    assert not outside.any(), f"first at step {np.argwhere(outside)[0]}"
