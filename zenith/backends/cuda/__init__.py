"""The CUDA target: kernels of the same kernel IR, printed for Numba-CUDA and compiled to PTX without a GPU."""
