"""Calls replayed as CUDA graphs, on a driver without a device: when, the same bits, patched addresses, nothing left."""

import ctypes
import gc
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from zenith.backends.cuda import graph_driver, replay
from zenith.backends.cuda.lease import CACHED_SETUPS
from zenith.backends.cuda.memory import pool
from zenith.config import config
from zenith.errors import DeviceError, OutOfBoundsError

LAYERS = 4
W = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def deep(x):
    """At least as many launches as layers: the first reads the argument, the last writes the result."""
    for _ in range(LAYERS):
        x = np.tanh(x) @ W
    return x


def scan(xs):
    def step(carry, x):
        carry = np.tanh(carry * 0.5 + x)
        return carry, carry * 2

    return zenith.scan(step, xs[0] * 0, xs)


def executable(step):
    return step._specializer.latest.executable


def counted(gpu, step, *given):
    """The results of a call on the host, and what it asked of the driver."""
    gpu.calls.clear()
    found = step(*given)
    found = found if isinstance(found, tuple) else (found,)
    return [on_host(f) for f in found], dict(gpu.calls)


@pytest.fixture
def one_by_one(monkeypatch):
    """The results of a call without graphs."""

    def run(step, *given):
        with monkeypatch.context() as m:
            m.setattr(config, "graphs", False)
            found = zenith.jit(step)(*given)
        return [on_host(f) for f in (found if isinstance(found, tuple) else (found,))]

    return run


def test_the_second_call_of_sizes_makes_a_graph_and_later_ones_replay_it(gpu, rng):
    step, x = zenith.jit(deep), on_device(rng.standard_normal((5, 8), dtype=np.float32))
    first, calls = counted(gpu, step, x)
    launches = [launch.name for launch in gpu.launches]
    assert "graph launches" not in calls and len(launches) >= LAYERS
    second, calls = counted(gpu, step, x)
    assert calls == {"graphs made": 1, "graph launches": 1}
    gpu.launches.clear()
    third, calls = counted(gpu, step, x)
    assert calls == {"graph launches": 1}  # the result has the memory of the last one, which is free
    assert [launch.name for launch in gpu.launches] == launches
    for found in (second, third):
        assert found[0].tobytes() == first[0].tobytes()


def test_only_nodes_that_use_a_changed_address_are_patched(gpu, rng):
    step, xs = zenith.jit(deep), [on_device(rng.standard_normal((5, 8), dtype=np.float32)) for _ in range(2)]
    alive = [step(xs[0]) for _ in range(2)]
    for x, patched in ((xs[0], 1), (xs[1], 2)):  # the last kernel writes a new result, the first one reads another x
        gpu.calls.clear()
        alive.append(step(x))
        assert gpu.calls == {"nodes set": patched, "graph launches": 1}
        np.testing.assert_allclose(on_host(alive[-1]), deep(on_host(x)), rtol=1e-5, atol=1e-6)


def test_running_calls_retain_their_addresses_when_a_later_one_patches(gpu, rng):
    step = zenith.jit(deep)
    xs = [rng.standard_normal((4, 8), dtype=np.float32) for _ in range(6)]
    moved = [on_device(x) for x in xs]
    gpu.delayed = []
    found = [step(x) for x in moved]
    gpu.finish()
    gpu.delayed = None
    assert gpu.calls["graph launches"] == 5 and gpu.calls["nodes set"] == 8
    for f, x in zip(found, xs, strict=True):
        np.testing.assert_allclose(on_host(f), deep(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [1, 7, 30])
def test_counted_loops_are_unrolled_with_the_same_bits(gpu, rng, one_by_one, length, reverse):
    def run(xs):
        return zenith.scan(lambda c, x: ((c := np.tanh(c * 0.5 + x)), c * 2), xs[0] * 0, xs, reverse=reverse)

    step = zenith.jit(run)
    for _ in range(5):
        xs = on_device(rng.standard_normal((length, 5), dtype=np.float32))
        found, calls = counted(gpu, step, xs)
        for f, wanted in zip(found, one_by_one(run, xs), strict=True):
            assert f.tobytes() == wanted.tobytes()
    assert calls["graph launches"] == 1


def test_an_argument_of_many_nodes_is_copied_when_it_is_small(gpu, rng, one_by_one, monkeypatch):
    xs = on_device(rng.standard_normal((30, 5), dtype=np.float32))
    counts = {}
    for most in (replay.COPIED_BYTES, 0):
        monkeypatch.setattr(replay, "COPIED_BYTES", most)
        monkeypatch.setattr(replay, "PATCH", 0.5 if most else 0.0)  # then it pays without copies, too
        step = zenith.jit(scan)
        alive = [step(xs) for _ in range(2)]
        gpu.copies.clear()
        found, calls = counted(gpu, step, xs)
        counts[most] = calls["nodes set"], sum(length == 30 * 5 * 4 for _, _, length, _ in gpu.copies)
        for f, wanted in zip(found, one_by_one(scan, xs), strict=True):
            assert f.tobytes() == wanted.tobytes()
        assert alive
    patched, copied = counts[1 << 20]
    assert patched <= 4 and copied == 2  # xs comes and the rows of results go
    assert counts[0][0] >= 30 and counts[0][1] == 0


def test_few_launches_are_not_worth_a_graph(gpu, rng):
    step, x = zenith.jit(np.tanh), on_device(rng.standard_normal((5, 8), dtype=np.float32))
    for _ in range(4):
        _, calls = counted(gpu, step, x)
    assert not calls
    assert "launching costs no more" in str(step.explain())


def test_a_loop_of_too_many_iterations_is_launched(gpu, monkeypatch):
    monkeypatch.setattr(replay, "MOST_NODES", 10)
    step = zenith.jit(lambda x: zenith.fori_loop(0, 20, lambda i, y: np.sin(y) + x, x))
    x = on_device(np.linspace(0, 1, 7, dtype=np.float32))
    for _ in range(3):
        _, calls = counted(gpu, step, x)
    assert "graph launches" not in calls and "more than 10 launches" in str(step.explain())


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda x: zenith.while_loop(lambda y: y.sum() < 50, lambda y: y + 1, x), "whether to go on"),
        (lambda x: zenith.cond(x.sum() > 0, np.sin, np.cos, x), "which way to go"),
        (lambda x: np.sin(zenith.pure_callback(lambda a: a + 1, x, x)), "calls the Python function"),
    ],
)
def test_programs_that_need_the_host_are_no_graphs_and_say_so(gpu, program, reason):
    step, x = zenith.jit(program), on_device(np.linspace(0, 1, 7, dtype=np.float32))
    for _ in range(3):
        _, calls = counted(gpu, step, x)
        assert "graph launches" not in calls
    assert reason in " ".join(str(step.explain()).split())


def test_graphs_can_be_switched_off_and_on(gpu, rng, monkeypatch):
    step, x = zenith.jit(deep), on_device(rng.standard_normal((5, 8), dtype=np.float32))
    for _ in range(3):
        step(x)
    assert gpu.graphs.live
    monkeypatch.setattr(config, "graphs", False)
    _, calls = counted(gpu, step, x)
    assert not calls and not gpu.graphs.live and "ZENITH_GRAPHS=0" in str(step.explain())
    monkeypatch.setattr(config, "graphs", True)
    _, calls = counted(gpu, step, x)
    assert calls["graph launches"] == 1


def test_explain_says_which_sizes_replay(gpu, rng):
    step = zenith.jit(deep)
    for n, times in ((3, 1), (5, 4)):
        for _ in range(times):
            step(on_device(rng.standard_normal((n, 8), dtype=np.float32)))
    (once, often) = executable(step).graphs()
    assert once[1] == "0" and once[-1] == "seen once so far"
    assert "=5" in often[0] and often[1] == "3" and int(often[2]) >= LAYERS and often[-1] == ""
    text = " ".join(str(step.explain()).split())
    assert "CUDA graphs" in text and "seen once so far" in text


def test_changed_weights_and_a_larger_arena_are_taken_over(gpu, rng, one_by_one):
    step = zenith.jit(deep)
    for n in (4, 4, 4, 64, 4, 4, 4):  # the arena of 64 rows is elsewhere
        x = on_device(rng.standard_normal((n, 8), dtype=np.float32))
        found, calls = counted(gpu, step, x)
        assert found[0].tobytes() == one_by_one(deep, x)[0].tobytes()
    assert calls["graph launches"] == 1 and len(gpu.graphs.live) == 2


@pytest.fixture
def idle(gpu, monkeypatch):
    """A device whose kernels do nothing, for many calls."""
    monkeypatch.setattr(gpu, "launch", lambda *given: None)
    return gpu


def test_new_lengths_make_few_graphs_and_leave_none(idle, rng):
    gpu, step = idle, zenith.jit(deep)
    data = rng.standard_normal((200, 8), dtype=np.float32)
    for n in range(1, 200):
        step(on_device(data[:n]))
    assert gpu.calls["graphs made"] == 0  # no length came twice
    for n in range(1, 200):
        for _ in range(2):  # each length comes twice, then no more: the worst case
            step(on_device(data[:n]))
    made = gpu.calls["graphs made"]
    assert "made for many other sizes" in " ".join(str(step.explain()).split())
    assert 0 < made <= replay.FIRST_GRAPHS + 3 * 199 // replay.CALLS_A_GRAPH
    assert len(gpu.graphs.live) <= 2 * CACHED_SETUPS


def test_nothing_is_left_after_ten_thousand_calls_of_changing_sizes(idle, rng):
    gpu, programs = idle, [zenith.jit(deep)]
    xs = [on_device(rng.standard_normal((n, 8), dtype=np.float32)) for n in range(1, 9)]

    def repeat(times):
        for number in range(times):
            programs[0](xs[number % len(xs)])

    repeat(200)
    stats, live, pinned, modules = pool().stats(), len(gpu.graphs.live), gpu.calls["pinned"], len(gpu.modules)
    made = gpu.calls["graphs made"]
    repeat(10_000)
    after = pool().stats()
    assert (after.bytes_in_use, after.reserved_bytes) == (stats.bytes_in_use, stats.reserved_bytes)
    assert (len(gpu.graphs.live), gpu.calls["pinned"], len(gpu.modules)) == (live, pinned, modules)
    assert live == 2 * len(xs) and gpu.calls["graphs made"] == made and not gpu.events
    programs.clear()
    gc.collect()
    assert not gpu.graphs.live and not gpu.modules


def test_an_index_outside_is_reported_by_a_replay_too(gpu):
    x = on_device(np.arange(32, dtype=np.float32).reshape(4, 8))

    def take(x, i):
        return deep(np.take(x, i, axis=0))

    step = zenith.jit(take)
    good, bad = on_device(np.array([1, 2])), on_device(np.array([1, 4]))
    for _ in range(3):
        step(x, good)
    gpu.calls.clear()
    step(x, bad)
    assert gpu.calls["graph launches"] == 1
    with pytest.raises(OutOfBoundsError, match=r"test_replay\.py"):
        step(x, good)
    assert on_host(step(x, good)).shape == (2, 8)


def test_streams_have_graphs_of_their_own(gpu, rng):
    step, x = zenith.jit(deep), on_device(rng.standard_normal((5, 8), dtype=np.float32))
    for stream in (7, 11):
        gpu.on_stream(stream)
        for _ in range(3):
            gpu.launches.clear()
            step(x)
        assert {launch.stream for launch in gpu.launches} == {stream}
    assert len(gpu.graphs.live) == 4 and gpu.calls["graph launches"] == 4


def test_structures_are_laid_out_as_in_cuda_h():
    """Sizes and offsets that a C compiler gives for cuda.h of CUDA 13.0."""
    kernel, copy = graph_driver.KernelParameters, graph_driver.CopyParameters
    assert ctypes.sizeof(kernel) == 72 and ctypes.sizeof(copy) == 200
    assert (kernel.shared.offset, kernel.table.offset, kernel.context.offset) == (32, 40, 64)
    assert (copy.to.offset, copy.width.offset) == (88, 176)


def test_every_function_is_one_of_libcuda():
    """The names are among those that NVIDIA's own bindings look up in libcuda."""
    bindings = pytest.importorskip("cuda.bindings._internal.driver")
    text, known = Path(graph_driver.__file__).read_text(), Path(bindings.__file__).read_bytes()
    names = {word.strip("\"'(),:;.`") for word in text.replace("(", " ").split() if word.strip('"').startswith("cu")}
    called = {n for n in names if f'"{n}"' in text or f"_cuda.{n}" in text}
    assert len(called) >= 10
    assert not [n for n in sorted(called) if n.encode() + b"\0" not in known]


def test_the_runtime_of_cupy_has_the_functions_in_use():
    runtime = import_module("cupy_backends.cuda.api.runtime")
    assert callable(runtime.graphLaunch) and callable(runtime.streamIsCapturing)


def test_a_patch_that_fails_is_undone_by_the_next_call(gpu, rng, monkeypatch):
    """Of two nodes the first has the new address already: it gets the old arguments back, too."""
    step, xs = zenith.jit(deep), [on_device(rng.standard_normal((5, 8), dtype=np.float32)) for _ in range(2)]
    alive = [step(xs[0]) for _ in range(3)]
    wanted, set_kernel, count = on_host(alive[0]), gpu.graphs.set_kernel, iter([True, False])

    def fails(*given):
        if not next(count):
            raise DeviceError("CUDA's cuGraphExecKernelNodeSetParams failed")
        set_kernel(*given)

    with monkeypatch.context() as m, pytest.raises(DeviceError):
        m.setattr(gpu.graphs, "set_kernel", fails)
        step(xs[1])
    last = alive.pop()
    address = last.data.ptr
    del last
    result = step(xs[0])
    assert result.data.ptr == address, "every address is that of the last call which came through"
    np.testing.assert_array_equal(on_host(result), wanted)
