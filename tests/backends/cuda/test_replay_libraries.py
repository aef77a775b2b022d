"""Graphs with calls of libraries in them, on a driver without a device: copied arguments, the same bits."""

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_cublaslt import fake_cublaslt
from zenith.backends.cuda import replay
from zenith.config import config
from zenith.errors import DeviceError

W = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def deep(x):
    """Products of the library, and a kernel of Zenith after each."""
    for _ in range(4):
        x = np.sort(x @ W, axis=1)
    return x


@pytest.fixture
def lt(gpu, monkeypatch):
    monkeypatch.setattr(config, "engines", ("cublaslt",))
    with fake_cublaslt(gpu) as found:
        yield found


def inputs(rng):
    while True:
        yield on_device(rng.standard_normal((6, 8), dtype=np.float32))


def test_a_library_is_called_with_copies_by_a_graph(lt, gpu, rng, monkeypatch):
    step, plain = zenith.jit(deep), zenith.jit(deep)
    alive = []
    for number, x in zip(range(5), inputs(rng), strict=False):
        gpu.calls.clear(), gpu.copies.clear(), lt.matmuls.clear()
        found = step(x)
        alive.append((x, found))
        assert gpu.calls["graph launches"] == (number > 0) and len(lt.matmuls) == 4
        assert number == 0 or [length for _, _, length, _ in gpu.copies] == [6 * 8 * 4]  # the argument, and no result
        addresses = [matmul.addresses for matmul in lt.matmuls]
        assert number == 0 or x.data.ptr not in addresses[0]
        with monkeypatch.context() as m:
            m.setattr(config, "graphs", False)
            assert on_host(found).tobytes() == on_host(plain(x)).tobytes()


def test_large_arrays_are_not_copied_for_a_library(lt, gpu, rng, monkeypatch):
    monkeypatch.setattr(replay, "COPIED_BYTES", 6 * 8 * 4 - 1)
    step = zenith.jit(deep)
    for _, x in zip(range(3), inputs(rng), strict=False):
        step(x)
    assert gpu.calls["graph launches"] == 0
    (row,) = step._specializer.latest.executable.graphs()
    assert row[-1].startswith("a library's call uses an argument or a result of 192 bytes")


def test_a_call_that_cannot_be_captured_is_made_each_time(lt, gpu, rng, monkeypatch):
    """No graph is left, and explain() says why there is none."""

    def refuse(graph, after, work):
        raise DeviceError("cuBLASLt refused a product that it had an algorithm for")

    monkeypatch.setattr(gpu.graphs, "add_captured", refuse)
    step, x = zenith.jit(deep), next(inputs(rng))
    first, *others = (on_host(step(x)) for _ in range(3))
    assert not gpu.graphs.live
    (row,) = step._specializer.latest.executable.graphs()
    assert row[-1].startswith("a library's call cannot be captured: ")
    for found in others:
        np.testing.assert_array_equal(found, first)
