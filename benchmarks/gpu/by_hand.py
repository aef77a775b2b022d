"""The workloads that have kernels written by hand, in CUDA C and in Triton, for the comparison."""

from __future__ import annotations

NAMES = ("gpu_chain", "gpu_layernorm_softmax", "gpu_softmax", "gpu_layernorm", "gpu_gelu")
EPSILON = 1e-5
