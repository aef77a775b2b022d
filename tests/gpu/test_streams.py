"""Programs run on the stream that is the caller's current one, in the order of its other work, and wait for nothing."""

import numpy as np
import pytest

import zenith
from tests.threads import in_threads

WORK, SIZE = 40, 2048


def step(x):
    return np.tanh(x) * 2 + 1


def busy(xp, x):
    """Work that lasts some milliseconds, and whose end the next operation has to wait for."""
    for _ in range(WORK):
        x = xp.matmul(x, x)
        x = x / (1 + abs(x).max())
    return x


@pytest.mark.parametrize("non_blocking", [False, True])
def test_a_stream_of_cupy(real, non_blocking):
    run = zenith.jit(step)
    start = real.random.default_rng(0).standard_normal((SIZE, SIZE), dtype=np.float32)
    run(start)
    real.cuda.Device().synchronize()
    with real.cuda.Stream(non_blocking=non_blocking) as stream:
        x = busy(real, start)
        found = run(x)
        wanted = real.tanh(x) * 2 + 1
        stream.synchronize()
    real.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_call_does_not_wait_for_the_device(real):
    """The event after a call of a busy stream has not happened when the call returns."""
    run = zenith.jit(step)
    start = real.random.default_rng(0).standard_normal((2 * SIZE, 2 * SIZE), dtype=np.float32)
    run(start)
    busy(real, start)
    real.cuda.Device().synchronize()
    with real.cuda.Stream(non_blocking=True) as stream:
        x = busy(real, start)
        run(x)
        assert not stream.done
        stream.synchronize()


def test_the_stream_of_each_thread(real):
    run = zenith.jit(step)
    start = real.random.default_rng(0).standard_normal((512, 512), dtype=np.float32)
    run(start)
    real.cuda.Device().synchronize()
    failures = []

    def work(number):
        with real.cuda.Stream.ptds:
            for _ in range(20):
                x = start * number
                if not real.allclose(run(x), real.tanh(x) * 2 + 1, rtol=1e-5, atol=1e-5):
                    failures.append(number)

    in_threads(6, work)
    assert not failures and run.cache_info().misses == 1


def test_a_stream_of_torch(cuda_torch):
    torch, run = cuda_torch, zenith.jit(step)
    start = torch.randn(SIZE, SIZE, device="cuda")
    run(start)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = busy(torch, start)
        found = run(x)
        wanted = torch.tanh(x) * 2 + 1
    stream.synchronize()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_one_program_on_streams_in_turn(real):
    """An arena is one stream's at a time: what one stream computes is not overwritten by another."""

    def several(x):
        y = np.cumsum(np.tanh(x), axis=1)
        return np.sort(y, axis=1) + y.sum(axis=1, keepdims=True)

    run = zenith.jit(several)
    xs = [real.random.default_rng(n).standard_normal((256, 256), dtype=np.float32) for n in range(8)]
    wanted = [several(real.asnumpy(x).astype(np.float64)) for x in xs]
    run(xs[0])
    real.cuda.Device().synchronize()
    streams, found = [real.cuda.Stream(non_blocking=True) for _ in xs], []
    for stream, x in zip(streams, xs, strict=True):
        with stream:
            found.append(run(x))
    for stream in streams:
        stream.synchronize()
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(real.asnumpy(f), w, rtol=1e-4, atol=1e-3)
