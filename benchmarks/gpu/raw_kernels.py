"""Kernels in CUDA C for ``cupy.RawKernel``, as somebody writes them who wants one workload fast.

Elementwise ones take four floats at once. Those on rows have a block for each row and keep it in registers, four floats
a thread; sums go through shuffles of a warp, then through shared memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.workloads import Program, Workload

THREADS = 256

SOURCE = r"""
__device__ __forceinline__ float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}
__device__ __forceinline__ float chain(float x) {
    return 1.0f / (1.0f + expf(-expf(tanhf(gelu(x)))));
}

#define ELEMENTWISE(NAME, FUNCTION)                                                              \
extern "C" __global__ void NAME(const float4* x, float4* y, unsigned count) {                    \
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
    if (i < count) {                                                                             \
        float4 v = x[i];                                                                         \
        y[i] = make_float4(FUNCTION(v.x), FUNCTION(v.y), FUNCTION(v.z), FUNCTION(v.w));          \
    }                                                                                            \
}
ELEMENTWISE(gpu_gelu, gelu)
ELEMENTWISE(gpu_chain, chain)

template <bool MAX>
__device__ float join(float value) {
    __shared__ float parts[32];
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = MAX ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (unsigned w = 1; w < blockDim.x / 32; w++) value = MAX ? fmaxf(value, parts[w]) : value + parts[w];
    return value;
}
__device__ __forceinline__ float4 layernorm(float4 v, const float4* scale, const float4* shift) {
    float n = 4.0f * blockDim.x;
    float mean = join<false>(v.x + v.y + v.z + v.w) / n;
    v = make_float4(v.x - mean, v.y - mean, v.z - mean, v.w - mean);
    float square = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    float r = rsqrtf(join<false>(square) / n + EPSILON);
    float4 a = scale[threadIdx.x], b = shift[threadIdx.x];
    return make_float4(v.x * r * a.x + b.x, v.y * r * a.y + b.y, v.z * r * a.z + b.z, v.w * r * a.w + b.w);
}
__device__ __forceinline__ float4 softmax(float4 v) {
    float top = join<true>(fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    v = make_float4(expf(v.x - top), expf(v.y - top), expf(v.z - top), expf(v.w - top));
    float r = 1.0f / join<false>(v.x + v.y + v.z + v.w);
    return make_float4(v.x * r, v.y * r, v.z * r, v.w * r);
}
extern "C" __global__ void gpu_softmax(const float4* x, float4* y) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = softmax(x[at]);
}
extern "C" __global__ void gpu_layernorm(const float4* x, float4* y, const float4* scale, const float4* shift) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = layernorm(x[at], scale, shift);
}
extern "C" __global__ void gpu_layernorm_softmax(const float4* x, float4* y, const float4* scale, const float4* shift) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = softmax(layernorm(x[at], scale, shift));
}
"""


def source() -> str:
    """The source with its numbers."""
    from benchmarks.gpu.by_hand import EPSILON

    return SOURCE.replace("EPSILON", f"{EPSILON}f")


def program(workload: Workload) -> Program:
    """The kernel of a workload as a function of CuPy's arrays."""
    import cupy
    import numpy as np

    kernel = cupy.RawModule(code=source()).get_function(workload.name)
    weights = tuple(map(cupy.asarray, workload.weights()))

    def elementwise(x: Any) -> Any:
        y, count = cupy.empty_like(x), x.size // 4
        kernel((-(-count // THREADS),), (THREADS,), (x, y, np.uint32(count)))
        return y

    def rows(x: Any) -> Any:
        y = cupy.empty_like(x)
        kernel((x.shape[0],), (x.shape[1] // 4,), (x, y, *weights))
        return y

    return elementwise if workload.expression else rows
