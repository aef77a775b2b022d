"""The programs whose CUDA kernels are tested: one for each kind of kernel, fused and lowered as a compilation would."""

from tests.backends.running import plan_of
from tests.passes.compare import program
from zenith.backends.cuda.target import cuda_target
from zenith.backends.steps import LaunchStep, walk

PROGRAMS = {
    # gelu by erf, tanh, exp and sigmoid, with a bias along the last axis
    "chain": (
        "x: f32[n, m], bias: f32[m]",
        """
        b = broadcast(bias, shape=(n, m), axes=(1,))
        v1 = add(x, b)
        half = literal(value=0.5, dtype=f32)
        h = broadcast(half, shape=(n, m), axes=())
        root = literal(value=0.7071067811865476, dtype=f32)
        r = broadcast(root, shape=(n, m), axes=())
        v2 = mul(v1, r)
        v3 = erf(v2)
        v4 = mul(v1, h)
        v5 = mul(v4, v3)
        v6 = add(v4, v5)
        v7 = tanh(v6)
        v8 = exp(v7)
        v9 = sigmoid(v8)
        return (v9,)
        """,
    ),
    # the same index everywhere: one loop; one float32 function of each kind that NVVM treats in its own way
    "scalars": (
        "x: f32[n], y: f32[n]",
        """
        v1 = maximum(x, y)
        v2 = minimum(x, y)
        v3 = floor_divide(v1, y)
        v4 = remainder(v2, x)
        v5 = add(v3, v4)
        v6 = sin(v5)
        v7 = abs(v6)
        v8 = log(v7)
        v9 = trunc(v8)
        v10 = round(v9)
        v11 = power(v7, v10)
        v12 = lt(v11, x)
        v13 = where(v12, v11, y)
        return (v13, v12)
        """,
    ),
    # positions before the start of an axis
    "padded": (
        "x: f32[n, m], flags: bool[n, m]",
        """
        zero = literal(value=0.0, dtype=f32)
        v1 = where(flags, x, x)
        v2 = pad(v1, zero, low=(1, 2), high=(0, 3), interior=(0, 0))
        v3 = transpose(v2, axes=(1, 0))
        return (v3,)
        """,
    ),
    # bytes alone: sixteen at a time
    "bytes": (
        "x: u8[n, m], y: u8[n, m]",
        """
        v1 = add(x, y)
        v2 = floor_divide(v1, y)
        v3 = bit_count(v2)
        v4 = maximum(v3, x)
        v5 = shift_right(v4, y)
        v6 = lt(v5, x)
        return (v5, v6)
        """,
    ),
    # integers of all widths, and joins of each
    "widths": (
        "x: i8[n, m], y: u16[n, m], z: u64[n, m]",
        """
        v1 = cast(x, dtype=i16)
        v2 = cast(y, dtype=i16)
        v3 = remainder(v1, v2)
        v4 = cast(v3, dtype=f32)
        v5 = sqrt(v4)
        v6 = cast(v5, dtype=u64)
        v7 = mul(v6, z)
        v8 = reduce_sum(v7, axes=(1,))
        v9 = reduce_max(x, axes=(1,))
        v10 = reduce_min(v2, axes=(1,))
        return (v8, v9, v10)
        """,
    ),
    "softmax": (
        "x: f32[n, m]",
        """
        v1 = reduce_max(x, axes=(1,))
        v2 = broadcast(v1, shape=(n, m), axes=(0,))
        v3 = sub(x, v2)
        v4 = exp(v3)
        v5 = reduce_sum(v4, axes=(1,))
        v6 = broadcast(v5, shape=(n, m), axes=(0,))
        v7 = div(v4, v6)
        return (v7, v5)
        """,
    ),
    # register-resident rows of known length
    "normalized": (
        "x: f32[n, 96], scale: f32[96]",
        """
        v1 = reduce_sum(x, axes=(1,))
        size = literal(value=0.010416666666666666, dtype=f32)
        sizes = broadcast(size, shape=(n,), axes=())
        v2 = mul(v1, sizes)
        v3 = broadcast(v2, shape=(n, 96), axes=(0,))
        v4 = sub(x, v3)
        v5 = mul(v4, v4)
        v6 = reduce_sum(v5, axes=(1,))
        v7 = mul(v6, sizes)
        v8 = sqrt(v7)
        v9 = broadcast(v8, shape=(n, 96), axes=(0,))
        v10 = div(v4, v9)
        v11 = broadcast(scale, shape=(n, 96), axes=(1,))
        v12 = mul(v10, v11)
        return (v12,)
        """,
    ),
    "taken": (
        "x: f32[n, m], index: i64[k]",
        """
        v1 = take(x, index, axis=0)
        v2 = exp(v1)
        return (v2,)
        """,
    ),
    # random words of counters, and their halves
    "words": (
        "key: i64[n, m]",
        """
        v1 = counter(shape=(n, m))
        v2 = threefry2x32(key, v1)
        v3 = cast(v2, dtype=u32)
        return (v3,)
        """,
    ),
    # a row in the order of its one digit, in memory that a block shares
    "sorted": (
        "x: bool[40]",
        """
        v1, v2 = sort(x, descending=False)
        return (v1, v2)
        """,
    ),
    # tiles by a block of threads, with an epilogue
    "product": (
        "x: f32[n, m], y: f32[m, k], bias: f32[k]",
        """
        v1 = matmul(x, y)
        b = broadcast(bias, shape=(n, k), axes=(1,))
        v2 = add(v1, b)
        v3 = tanh(v2)
        return (v3,)
        """,
    ),
    "attended": (
        "q: f32[n, 16], k: f32[m, 16], v: f32[m, 16]",
        """
        v1, l = attention(q, k, v, scale=0.25, causal=True, mask='none', empty=0.0)
        return (v1,)
        """,
    ),
    "attended backward": (
        "q: f32[n, 16], k: f32[m, 16], v: f32[m, 16], ct: f32[n, 16], l: f32[n], mean: f32[n]",
        """
        dq, dk, dv = attention_vjp(q, k, v, ct, l, mean, scale=0.25, causal=True, mask='none')
        return (dq, dk, dv)
        """,
    ),
    # prefixes of rows, with a prologue and an epilogue; with factors, from the end; of columns, split
    "running rows": (
        "x: f32[n, m]",
        """
        v1 = exp(x)
        v2 = cumsum(v1, axis=1, reverse=False)
        v3 = tanh(v2)
        return (v3,)
        """,
    ),
    "recurrence": (
        "x: f32[n, m], y: f32[n, m]",
        """
        v1 = recurrence(x, y, axis=1, reverse=True)
        return (v1,)
        """,
    ),
    "running columns": (
        "x: f32[n, m]",
        """
        v1 = cumlogsumexp(x, axis=0, reverse=True)
        v2 = tanh(v1)
        return (v2,)
        """,
    ),
    "columns": (
        "x: i32[n, m]",
        """
        v1 = reduce_sum(x, axes=(0,))
        return (v1,)
        """,
    ),
}


def graph(name):
    """The graph of a program."""
    return program(*PROGRAMS[name])


def plan_of_program(name):
    """The plan of a program for a GPU."""
    return plan_of(graph(name), cuda_target())


def kernels(name):
    """The kernels of a program, in order of execution."""
    return [s.kernel for s in walk(plan_of_program(name).steps) if isinstance(s, LaunchStep)]
