"""Calls inside of a user's capture, on a driver that forbids what CUDA forbids: captured calls, refusals, memory."""

import ctypes
import gc

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_graphs import CaptureFailed
from zenith.backends.cuda.capture import CaptureError
from zenith.backends.cuda.memory import pool
from zenith.errors import OutOfBoundsError

STREAM = 9
W = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def deep(x):
    for _ in range(4):
        x = np.tanh(x) @ W
    return x


@pytest.fixture
def stream(gpu):
    """A stream that is CuPy's current one."""
    gpu.on_stream(STREAM)
    return STREAM


def warm(step, *given):
    """A program that was compiled and called before."""
    for _ in range(3):
        step(*given)
    return step


def overwrite(array, values):
    """Other elements in an array's memory, as before each launch of a captured graph."""
    memory = (ctypes.c_char * array.nbytes).from_address(array.data.ptr)
    np.frombuffer(memory, array.dtype).reshape(array.shape)[...] = values


def test_a_captured_call_runs_when_the_graph_is_launched(gpu, stream, rng):
    x = on_device(rng.standard_normal((5, 8), dtype=np.float32))
    step = warm(zenith.jit(deep), x)
    gpu.calls.clear()
    gpu.launches.clear()
    with gpu.graphs.capture(stream) as graph:
        found = step(x)
    assert not gpu.launches and "graph launches" not in gpu.calls and len(graph.steps) >= 4
    for _ in range(3):
        values = rng.standard_normal((5, 8), dtype=np.float32)
        overwrite(x, values)
        graph.replay(STREAM)
        np.testing.assert_allclose(on_host(found), deep(values), rtol=1e-5, atol=1e-6)


def test_later_calls_do_not_touch_what_the_graph_uses(gpu, stream, rng):
    x, y = (on_device(rng.standard_normal((5, 8), dtype=np.float32)) for _ in range(2))
    step = warm(zenith.jit(deep), x)
    with gpu.graphs.capture(stream) as graph:
        found = step(x)
    graph.replay(STREAM)
    first = on_host(found)
    captured = {address for step in graph.steps for address in step[1][-1]}
    gpu.launches.clear()
    for _ in range(3):
        step(y)  # on the same stream, by a lease of its own
    written = {launch.buffers[0] for launch in gpu.launches}
    assert written and not written & captured
    assert on_host(found).tobytes() == first.tobytes()


def test_calls_of_one_capture_share_a_lease_and_a_growing_arena_is_retained(gpu, stream, rng):
    xs = [on_device(rng.standard_normal((n, 8), dtype=np.float32)) for n in (3, 300, 5, 3)]
    step = zenith.jit(deep)
    for x in xs:
        warm(step, x)
    with gpu.graphs.capture(stream) as graph:
        found = [step(x) for x in xs]
        doubled = step(found[0])  # a call on a result of the capture
    assert len(graph.retained) == 1
    for _ in range(2):
        graph.replay(STREAM)
        for x, f in zip(xs, found, strict=True):
            np.testing.assert_allclose(on_host(f), deep(on_host(x)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(on_host(doubled), deep(deep(on_host(xs[0]))), rtol=1e-5, atol=1e-6)


def test_the_graph_outlives_the_program_and_gives_everything_back(gpu, stream, rng):
    x = on_device(rng.standard_normal((5, 8), dtype=np.float32))
    step = warm(zenith.jit(deep), x)
    before = pool().stats().by_purpose["arenas"]
    with gpu.graphs.capture(stream) as graph:
        step(x)  # nobody stores the result
    del step
    gc.collect()
    assert gpu.modules and pool().stats().by_purpose["constants and weights"] > 0
    for _ in range(2):
        graph.replay(STREAM)  # every buffer is in memory that is there, or the driver would say so
    graph.destroy()
    zenith.synchronize()
    gc.collect()
    assert not gpu.graphs.retained and not gpu.modules
    after = pool().stats()
    assert after.by_purpose["arenas"] < before + 1 and after.by_purpose["constants and weights"] == 0


def test_a_graph_that_is_gone_is_forgotten_by_the_next_call(gpu, stream, rng):
    x = on_device(rng.standard_normal((5, 8), dtype=np.float32))
    step = warm(zenith.jit(deep), x)
    for _ in range(5):
        with gpu.graphs.capture(stream) as graph:
            step(x)
        graph.destroy()
        assert len(gpu.graphs.retained) == 1
        in_use = pool().stats().bytes_in_use
        step(x)
        assert not gpu.graphs.retained and pool().stats().bytes_in_use < in_use


def test_numbers_of_the_host_stay_what_they_are(gpu, stream):
    x = on_device(np.arange(4, dtype=np.float32))
    step = zenith.jit(lambda x, s: x * s)
    step(x, 2.0)
    with gpu.graphs.capture(stream) as graph:
        found = [step(x, s) for s in (3.0, 5.0)]
    gc.collect()
    for _ in range(2):
        graph.replay(STREAM)
        assert [on_host(f).tolist() for f in found] == [[0, 3, 6, 9], [0, 5, 10, 15]]


def test_an_index_outside_is_reported_by_the_next_call_or_by_synchronize(gpu, stream):
    x, index = on_device(np.arange(4, dtype=np.float32)), on_device(np.array([1, 2]))
    step = warm(zenith.jit(lambda x, i: np.take(x, i)), x, index)
    with gpu.graphs.capture(stream) as graph:
        found = step(x, index)
    graph.replay(STREAM)
    assert on_host(found).tolist() == [1, 2]
    for ask in (lambda: step(x, index), zenith.synchronize):
        overwrite(index, [1, 7])
        graph.replay(STREAM)
        overwrite(index, [1, 2])
        with pytest.raises(OutOfBoundsError, match=r"test_capture\.py"):
            ask()
        ask()


def test_counted_loops_are_captured(gpu, stream):
    x = on_device(np.linspace(0, 1, 7, dtype=np.float32))
    step = warm(zenith.jit(lambda x: zenith.fori_loop(0, 6, lambda i, y: np.sin(y) + x, x)), x)
    wanted = on_host(step(x))
    with gpu.graphs.capture(stream) as graph:
        found = step(x)
    graph.replay(STREAM)
    assert on_host(found).tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda x: zenith.while_loop(lambda y: y.sum() < 50, lambda y: y + 1, x), "whether to go on"),
        (lambda x: zenith.cond(x.sum() > 0, np.sin, np.cos, x), "which way to go"),
        (lambda x: np.sin(zenith.pure_callback(lambda a: a + 1, x, x)), "calls the Python function"),
    ],
)
def test_waiting_for_the_device_is_refused_and_the_capture_goes_on(gpu, stream, program, reason):
    x = on_device(np.linspace(0, 1, 7, dtype=np.float32))
    step, other = warm(zenith.jit(program), x), warm(zenith.jit(np.sin), x)
    with gpu.graphs.capture(stream) as graph:
        with pytest.raises(CaptureError, match=rf"cannot be captured[\s\S]*{reason}[\s\S]*test_capture\.py"):
            step(x)
        other(x)
    assert len(graph.steps) == 1 and not graph.failed


def test_a_program_has_to_be_compiled_before(gpu, stream, rng):
    x = on_device(rng.standard_normal((5, 8), dtype=np.float32))
    step = zenith.jit(deep)
    refused = pytest.raises(CaptureError, match=r"compiling deep cannot be captured[\s\S]*call the function once")
    with gpu.graphs.capture(stream) as graph, refused:
        step(x)
    assert not graph.failed
    step(x)


def test_arrays_of_another_stream_are_refused(gpu, cuda_tensors, rng):
    torch = pytest.importorskip("torch")
    x, y = torch.ones(4, 8), on_device(np.ones((4, 8), np.float32))
    step = zenith.jit(lambda x, y: x + y)
    step(x, y)  # torch's stream is 77, CuPy's is the legacy one
    with gpu.graphs.capture(77) as graph, pytest.raises(CaptureError, match="no part of the capture"):
        gpu.on_stream(5)
        step(x, y)
    assert not graph.failed and not graph.steps


def test_tensors_are_captured_on_the_stream_of_torch(gpu, cuda_tensors, rng):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()
    x = torch.from_numpy(rng.standard_normal((3, 8), dtype=np.float32))
    fast = zenith.from_torch(module, (x,))
    with torch.no_grad():
        for _ in range(3):
            fast(x)
        with gpu.graphs.capture(77) as graph:
            found = fast(x)
        for _ in range(2):
            x.copy_(torch.from_numpy(rng.standard_normal((3, 8), dtype=np.float32)))
            graph.replay(77)
            torch.testing.assert_close(found, module(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "ask",
    [
        lambda gpu: gpu.synchronize(STREAM),
        lambda gpu: gpu.synchronize_device(),
        lambda gpu: gpu.is_done(gpu.record(STREAM)),
        lambda gpu: gpu.wait(STREAM, gpu.record(5)),
        lambda gpu: gpu.copy(0, 0, 1, 0),
        lambda gpu: gpu.piece(100),
        lambda gpu: gpu.pinned(8),
        lambda gpu: gpu.graphs.is_capturing(0),
    ],
)
def test_the_driver_forbids_what_cuda_forbids(gpu, ask):
    failed = pytest.raises(AssertionError, match="ends with an error")
    with failed, gpu.graphs.capture(STREAM), pytest.raises(CaptureFailed):
        ask(gpu)
