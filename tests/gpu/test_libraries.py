"""NVIDIA's libraries on the GPU: the values of every form that is called, and what a driver without one cannot show.

Where a library is not there the tests are skipped with the reason that ``explain()`` gives. With ``ZENITH_GPU=fake``
they run on stand-ins for the libraries.
"""

import math
from contextlib import ExitStack

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.backends.cuda.fake_cublaslt import fake_cublaslt
from tests.backends.cuda.fake_cudnn import fake_cudnn
from tests.gpu.device import FAKE, download, upload
from zenith.backends.cuda import cublaslt, cudnn
from zenith.backends.cuda.driver import driver
from zenith.config import config

BF16 = ml_dtypes.bfloat16
BOUNDS = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-12, np.dtype(np.float16): 4e-3, np.dtype(BF16): 3e-2}


@pytest.fixture
def forced(monkeypatch):
    """Libraries go first, whatever the sizes; on a driver without a device, their stand-ins."""
    monkeypatch.setattr(config, "engines", ("cublaslt", "cudnn"))
    with ExitStack() as stack:
        if FAKE:
            stack.enter_context(fake_cublaslt(driver()))
            stack.enter_context(fake_cudnn(driver()))
        elif why := cublaslt.DOOR.problem():
            pytest.skip(f"cuBLASLt cannot be called: {why}")
        yield


def random(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(function, *arrays, engine="cublaslt", by_library=True):
    """A library computes it, and as NumPy does in float64."""
    jitted = zenith.jit(function)
    results = jitted(*map(upload, arrays))
    zenith.synchronize()
    (program,) = jitted._specializer.specializations()
    assert engine in {group.choice.engine for group in program.origin.plan.groups}
    assert bool(program.executable.refused) != by_library, program.executable.refused
    wanted = function(*(a.astype(np.float64) for a in arrays))
    pairs = zip(results, wanted, strict=True) if isinstance(results, tuple) else [(results, wanted)]
    for found, want in pairs:
        found = download(found)
        bound = BOUNDS[found.dtype]
        np.testing.assert_allclose(found.astype(np.float64), want, bound, bound * np.abs(want).max(initial=1))


def tanh_gelu(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def tanh_gelu_slope(x):
    c, r = 0.044715, math.sqrt(2.0 / math.pi)
    t = np.tanh(r * (x + c * x * x * x))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * r * (1 + 3 * c * x * x)


LAYOUTS = {
    "plain": (lambda x, y: x @ y, lambda m, k, n: ((m, k), (k, n))),
    "right transposed": (lambda x, y: x @ y.T, lambda m, k, n: ((m, k), (n, k))),
    "left transposed": (lambda x, y: x.T @ y, lambda m, k, n: ((k, m), (k, n))),
    "both transposed": (lambda x, y: x.T @ y.T, lambda m, k, n: ((k, m), (n, k))),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16], ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("sizes", [(64, 48, 80), (1, 256, 512), (129, 65, 33)], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_products(forced, name, sizes, dtype):
    function, shapes = LAYOUTS[name]
    left, right = shapes(*sizes)
    check(function, random(left, dtype), random(right, dtype, 1))


def test_batches(forced):
    check(lambda x, y: x @ np.swapaxes(y, -1, -2), random((3, 4, 65, 32)), random((3, 4, 40, 32), seed=1))


EPILOGUES = {
    "bias": lambda x, y, b, r: x @ y + b,
    "relu": lambda x, y, b, r: np.maximum(x @ y, 0),
    "bias and relu": lambda x, y, b, r: np.maximum(x @ y + b, 0),
    "gelu": lambda x, y, b, r: tanh_gelu(x @ y),
    "bias and gelu": lambda x, y, b, r: tanh_gelu(x @ y + b),
    "bias and addend": lambda x, y, b, r: x @ y + b + r,
    "half, minus twice the addend": lambda x, y, b, r: (x @ y) * 0.5 - 2 * r,
    "a kernel after the product": lambda x, y, b, r: np.tanh(x @ y + b),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16], ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(forced, name, dtype):
    arrays = random((96, 64), dtype), random((64, 128), dtype, 1), random((128,), dtype, 2), random((96, 128), dtype, 3)
    check(EPILOGUES[name], *arrays)


def test_gelu_with_its_argument_and_its_derivative(forced):
    x, y, b, before = random((96, 64)), random((64, 128), seed=1), random((128,), seed=2), random((96, 128), seed=3)

    def both(x, y, b):
        argument = x @ y + b
        return argument, tanh_gelu(argument)

    check(both, x, y, b)
    check(lambda x, y, before: tanh_gelu_slope(before) * (x @ y), x, y, before)


@pytest.mark.parametrize("name", ["plain", "bias", "relu", "gelu"])
def test_nan_and_infinity_stay(forced, name):
    """The library's functions state their results for nan; one for which this fails must no longer be called for it."""
    function = {"plain": lambda x, y, b, r: x @ y, **EPILOGUES}[name]
    x, y, b, r = (random(s, seed=i) for i, s in enumerate([(64, 64), (64, 64), (64,), (64, 64)]))
    x[3, 5], x[7, 1] = np.nan, np.inf
    found = download(zenith.jit(function)(*map(upload, (x, y, b, r))))
    with np.errstate(invalid="ignore"):
        assert np.array_equal(np.isnan(found[3]), np.isnan(function(x, y, b, r)[3]))


def test_calls_repeat_bit_for_bit(forced):
    jitted, x, y = zenith.jit(lambda x, y: x @ y), upload(random((96, 4096))), upload(random((4096, 64), seed=1))
    first = download(jitted(x, y))
    assert all(np.array_equal(first, download(jitted(x, y))) for _ in range(20))


def test_streams_have_workspaces_of_their_own(forced, real):
    jitted, x, y = zenith.jit(lambda x, y: x @ y), upload(random((96, 4096))), upload(random((4096, 64), seed=1))
    wanted, found = download(jitted(x, y)), []
    streams = [real.cuda.Stream(non_blocking=True) for _ in range(4)]
    real.cuda.Device().synchronize()
    for stream in streams * 5:
        with stream:
            found.append(jitted(x, y))
    real.cuda.Device().synchronize()
    assert all(np.array_equal(wanted, download(f)) for f in found)


def test_calls_can_be_captured(forced, cuda_torch):
    torch = cuda_torch
    x, y = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    jitted = zenith.jit(lambda x, y: np.tanh(x @ y))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        jitted(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        captured = jitted(x, y)
    x.copy_(torch.randn(64, 64))
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_allclose(captured.cpu(), torch.tanh(x @ y).cpu(), 1e-4, 1e-4)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("size", [32, 64, 128])
def test_attention(forced, size, dtype, causal):
    why = cudnn.DOOR.problem()
    if why:
        pytest.skip(f"cuDNN cannot be called: {why}")
    q, k, v = (random((2, 3, 130, size), dtype, i) for i in range(3))
    jitted = zenith.jit(lambda q, k, v: zenith.numpy.attention(q, k, v, causal=causal))
    found = download(jitted(*map(upload, (q, k, v))))
    (program,) = jitted._specializer.specializations()
    (choice,) = [g.choice for g in program.origin.plan.groups if g.choice.kind == "attention"]
    if choice.engine != "cudnn":
        pytest.skip(f"cuDNN was not taken: {dict(choice.others)['cudnn']}")
    assert not program.executable.refused
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = wide[0] @ np.swapaxes(wide[1], -1, -2) / math.sqrt(size)
    scores = np.where(np.tri(130, dtype=bool), scores, -np.inf) if causal else scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found.astype(np.float64), weights / weights.sum(-1, keepdims=True) @ wide[2], 3e-2, 3e-2)
