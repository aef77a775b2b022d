"""The ``lanes`` backend: the CPU's kernels run as NumPy code, without compiling anything."""
