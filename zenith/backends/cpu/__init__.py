"""The CPU backend: Numba kernels over pointers and ranges, run by one team of threads."""
