"""CUDA graphs on a device: calls that Zenith replays itself, and calls that are captured by torch and by CuPy."""

import gc

import numpy as np
import pytest

import zenith
from zenith.config import config
from zenith.errors import OutOfBoundsError

W = np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64) / 8


def deep(x):
    for _ in range(6):
        x = np.tanh(x) @ W
    return x


def scan(xs):
    def step(carry, x):
        carry = np.tanh(carry * 0.5 + x)
        return carry, carry * 2

    return zenith.scan(step, xs[0] * 0, xs)


def replayed(step):
    """How many calls were replayed."""
    return sum(int(row[1]) for row in step._specializer.latest.executable.graphs())


@pytest.mark.parametrize("program", [deep, scan])
def test_replays_have_the_bits_of_launches(real, monkeypatch, program):
    step, plain = zenith.jit(program), zenith.jit(program)
    for seed in range(6):
        x = real.random.default_rng(seed).standard_normal((24, 64), dtype=np.float32)
        found = step(x)
        with monkeypatch.context() as m:
            m.setattr(config, "graphs", False)
            wanted = plain(x)
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        for f, w in pairs:
            assert real.asnumpy(f).tobytes() == real.asnumpy(w).tobytes()
    assert replayed(step) == 5


def test_replays_in_flight_keep_their_addresses(real):
    step = zenith.jit(deep)
    xs = [real.random.default_rng(n).standard_normal((2048, 64), dtype=np.float32) for n in range(40)]
    found = [step(x) for x in xs]
    zenith.synchronize()
    for f, x in zip(found, xs, strict=True):
        real.testing.assert_allclose(f, deep_of(real, x), rtol=1e-3, atol=1e-3)
    assert replayed(step) == 39


def deep_of(xp, x):
    for _ in range(6):
        x = xp.tanh(x) @ xp.asarray(W)
    return x


def test_graphs_of_changing_sizes_leave_no_memory_behind(real):
    step = zenith.jit(deep)
    xs = [real.ones((n, 64), np.float32) for n in range(1, 100)]
    for _ in range(3):
        for x in xs:
            step(x)
            step(x)
    zenith.synchronize()
    gc.collect()
    before = real.cuda.runtime.memGetInfo()[0]
    for _ in range(10):
        for x in xs:
            step(x)
            step(x)
    zenith.synchronize()
    assert before - real.cuda.runtime.memGetInfo()[0] < 64 << 20


def test_a_call_inside_torch_cuda_graph(cuda_torch):
    torch = cuda_torch
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 8)).cuda().eval()
    x = torch.randn(16, 64, device="cuda")
    fast = zenith.from_torch(module, (x,))
    with torch.no_grad():
        for _ in range(3):
            fast(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = fast(x)
            z = fast(x * 2) + y
        for _ in range(3):
            x.normal_()
            graph.replay()
            fast(torch.randn_like(x))  # a call of its own disturbs nothing
            torch.testing.assert_close(y, module(x), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(z, module(x * 2) + module(x), rtol=1e-4, atol=1e-5)
    del fast
    gc.collect()
    with torch.no_grad():
        graph.replay()  # the graph keeps what it uses
        torch.testing.assert_close(y, module(x), rtol=1e-4, atol=1e-5)
    graph.reset()
    zenith.synchronize()


def test_a_call_inside_a_capture_of_cupy(real):
    step = zenith.jit(deep)
    with real.cuda.Stream(non_blocking=True) as stream:
        x = real.random.default_rng(0).standard_normal((16, 64), dtype=np.float32)
        for _ in range(3):
            step(x)
        stream.synchronize()
        stream.begin_capture()
        found = step(x)
        graph = stream.end_capture()
        for seed in range(3):
            x[...] = real.random.default_rng(seed).standard_normal((16, 64), dtype=np.float32)
            graph.launch(stream)
            stream.synchronize()
            real.testing.assert_allclose(found, deep_of(real, x), rtol=1e-3, atol=1e-3)


def test_an_index_outside_in_a_captured_graph(cuda_torch):
    torch = cuda_torch
    x, index = torch.arange(4.0, device="cuda"), torch.tensor([1, 2], device="cuda")
    step = zenith.jit(lambda x, i: np.take(x, i))
    for _ in range(2):
        step(x, index)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(x, index)
    index[1] = 9
    graph.replay()
    with pytest.raises(OutOfBoundsError):
        zenith.synchronize()
    graph.reset()


def test_what_waits_for_the_device_is_refused_and_the_capture_goes_on(cuda_torch):
    from zenith.backends.cuda.capture import CaptureError

    torch, x = cuda_torch, cuda_torch.linspace(0, 1, 7, device="cuda")
    loop, plain = (
        zenith.jit(lambda x: zenith.while_loop(lambda y: y.sum() < 50, lambda y: y + 1, x)),
        zenith.jit(np.sin),
    )
    for _ in range(2):
        loop(x), plain(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(CaptureError, match="cannot be captured"):
            loop(x)
        y = plain(x)
    graph.replay()
    torch.testing.assert_close(y, x.sin())
