"""Whole programs in plain NumPy, unchanged, against NumPy, Numba and versions rewritten for JAX."""
