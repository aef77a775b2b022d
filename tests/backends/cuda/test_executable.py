"""The executable for a GPU on a driver without a device: values, and all calls of the driver."""

import ctypes
import gc

import numpy as np
import pytest

from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_driver import FakeCompiler
from zenith.arrays import NUMPY, cupy_adapter
from zenith.backends.cuda.executable import Executable
from zenith.backends.cuda.memory import pool
from zenith.backends.cuda.status import synchronize, words_of
from zenith.backends.cuda.target import cuda_target
from zenith.backends.failures import Failure
from zenith.backends.planner import plan
from zenith.backends.weights import WeightTable
from zenith.errors import OutOfBoundsError
from zenith.ir.interpret import bind_sizes, interpret
from zenith.ir.text import parse
from zenith.passes.pipeline import run as run_passes

MLP = """
def f(x: f32[n, 8], w: f32[8, 16], b: f32[16]) -> (f32[n, 16]):
    v1 = matmul(x, w)
    v2 = broadcast(b, shape=(n, 16), axes=(1,))
    v3 = add(v1, v2)
    v4 = tanh(v3)
    v5 = reduce_max(v4, axes=(1,))
    v6 = broadcast(v5, shape=(n, 16), axes=(0,))
    v7 = sub(v4, v6)
    return (v7,)
"""
TAKE = """
def f(x: f32[n], i: i64[m]) -> (f32[m]):
    v1 = take(x, i, axis=0)
    return (v1,)
"""


def executable(graph, compiler=None):
    found = plan(run_passes(graph)[0], cuda_target())
    return Executable(found, WeightTable.of(graph), pool(), 0, compiler or FakeCompiler())


def call(program, graph, args, adapters=None):
    """Run on NumPy arrays, moved to the device by hand."""
    moved = [on_device(a) for a in args]
    adapter = cupy_adapter(0)
    return program.run(moved, adapters or [adapter] * len(args), bind_sizes(graph, args, {}), adapter)


def agree(graph, args, program):
    wanted = interpret(graph, *args)
    for found, reference in zip(call(program, graph, args), wanted, strict=True):
        np.testing.assert_allclose(on_host(found), reference, rtol=2e-6, atol=2e-6)


@pytest.fixture
def mlp(fake, rng):
    graph = parse(MLP)
    program = executable(graph)
    return graph, program, lambda n: [
        rng.standard_normal(s, dtype=np.float32) for s in ((n, 8), (8, 16), (16,))
    ]  # fmt: skip


def test_values_of_every_size(mlp):
    graph, program, args = mlp
    for n in (5, 1, 0, 64, 5, 200):
        agree(graph, args(n), program)


def test_a_call_copies_nothing_and_waits_for_nothing(mlp, fake):
    graph, program, args = mlp
    call(program, graph, args(5))
    fake.copies.clear()
    fake.calls.clear()
    call(program, graph, args(5))
    assert not fake.copies and not fake.calls and not fake.events


def test_a_second_call_launches_the_same_with_other_addresses(mlp, fake):
    graph, program, args = mlp
    given = args(7)
    first_results = call(program, graph, given)
    first = list(fake.launches)
    fake.launches.clear()
    second_results = call(program, graph, given)
    assert [(a.name, a.form, a.blocks, a.tasks, a.sizes) for a in first] == [
        (b.name, b.form, b.blocks, b.tasks, b.sizes) for b in fake.launches
    ]
    assert first != fake.launches  # the results are new memory
    np.testing.assert_array_equal(on_host(first_results[0]), on_host(second_results[0]))


def test_sizes_that_return_are_not_set_up_twice(mlp):
    graph, program, args = mlp
    for n in (3, 4, 3, 4):
        call(program, graph, args(n))
    (lease,) = program._leases
    assert len(lease.setups) == 2


def test_streams_have_arenas_of_their_own(fake, rng):
    graph = parse(MLP)
    program = executable(graph)
    args = [rng.standard_normal(s, dtype=np.float32) for s in ((9, 8), (8, 16), (16,))]
    arenas = {}
    for stream in (7, 11, 7):
        fake.on_stream(stream)
        fake.launches.clear()
        call(program, graph, args)
        assert {launch.stream for launch in fake.launches} == {stream}
        lease = next(each for each in program._leases if each.stream == stream)
        assert arenas.setdefault(stream, lease.arena) is lease.arena
    if all(arenas.values()):
        assert len({a.address for a in arenas.values()}) == 2


def test_unaligned_arrays_take_another_form(fake, rng):
    graph = parse("def f(x: f32[n]) -> (f32[n]):\n    v1 = exp(x)\n    return (v1,)")
    program, x = executable(graph), rng.standard_normal(9, dtype=np.float32)
    adapter = cupy_adapter(0)
    for array in (x[:8], x[1:]):
        (found,) = program.run([on_device(array)], [adapter], {"n": 8}, adapter)
        np.testing.assert_allclose(on_host(found), np.exp(array), rtol=1e-6)
    assert [launch.form.width for launch in fake.launches] == [4, 1]


def test_an_index_outside_is_reported_by_the_next_call(fake):
    graph = parse(TAKE)
    program, x = executable(graph), np.arange(4, dtype=np.float32)
    good, bad = np.array([1, 2]), np.array([1, 4])
    fake.delayed = []
    call(program, graph, [x, bad])  # nothing has run yet
    call(program, graph, [x, good])
    fake.finish()
    with pytest.raises(OutOfBoundsError, match=r"out of bounds for its axis[\s\S]*zenith.synchronize"):
        call(program, graph, [x, good])
    fake.delayed = None
    (found,) = call(program, graph, [x, good])
    assert on_host(found).tolist() == [1, 2]


def test_an_index_outside_is_reported_by_synchronize_even_when_the_program_is_gone(fake):
    graph = parse(TAKE)
    program, x = executable(graph), np.arange(4, dtype=np.float32)
    fake.delayed = []
    call(program, graph, [x, np.array([9])])
    del program
    gc.collect()
    with pytest.raises(OutOfBoundsError):
        synchronize()
    synchronize()


def test_each_of_several_indices_outside_is_reported(fake):
    words = words_of(pool(), fake, [(Failure(1, "", ()),)] * 2)
    for number in range(2):
        ctypes.c_int64.from_address(words.address_of(number)).value = 1
    for _ in range(2):
        with pytest.raises(OutOfBoundsError):
            synchronize()
    synchronize()


def test_numbers_of_the_host_come_along(fake):
    graph = parse("def f(x: f32[n], s: f32) -> (f32[n]):\n    v1 = broadcast(s, shape=(n,), axes=())\n"
                  "    v2 = mul(x, v1)\n    return (v2,)")  # fmt: skip
    program, x = executable(graph), np.arange(4, dtype=np.float32)
    for s in (2.0, 3.0):
        adapter = cupy_adapter(0)
        given = [on_device(x), np.array(s, np.float32)]
        (found,) = program.run(given, [adapter, NUMPY], {"n": 4}, adapter)
        assert on_host(found).tolist() == (x * np.float32(s)).tolist()


def test_nothing_is_left_after_many_calls(fake, rng):
    graph = parse(TAKE)
    program, x = executable(graph), on_device(np.arange(4, dtype=np.float32))
    index, adapter = on_device(np.array([1, 2])), cupy_adapter(0)
    sizes = {"n": 4, "m": 2}

    def repeat(times):
        for _ in range(times):
            program.run([x, index], [adapter] * 2, sizes, adapter)

    repeat(3)
    before, events, pinned, misses = pool().stats(), len(fake.events), fake.calls["pinned"], pool().source.misses
    fake.launches.clear()
    for _ in range(10):
        repeat(1000)
        fake.launches.clear()
    after = pool().stats()
    assert after.bytes_in_use == before.bytes_in_use and after.reserved_bytes == before.reserved_bytes
    assert after.allocations - before.allocations == after.returns - before.returns == 10_000
    assert (len(fake.events), fake.calls["pinned"], pool().source.misses) == (events, pinned, misses)
    assert after.hit_rate > 0.99


def test_a_program_that_is_gone_gives_everything_back(fake):
    graph = parse(TAKE)
    program = executable(graph)
    call(program, graph, [np.arange(4, dtype=np.float32), np.array([1])])
    assert fake.modules
    gc.disable()
    del program  # nothing refers back to it, so that its memory does not wait for the collector
    gc.enable()
    assert not fake.modules and pool().stats().bytes_in_use == 0


def test_launches_without_tasks_are_left_out(fake):
    graph = parse(
        "def f(x: f32[n], y: f32[m]) -> (f32[n], f32[m]):\n    v1 = exp(x)\n    v2 = exp(y)\n    return (v1, v2)"
    )
    program, launched = executable(graph), []
    for n, m in ((3, 5), (0, 5), (0, 0)):
        fake.launches.clear()
        x, y = np.ones(n, np.float32), np.zeros(m, np.float32)
        for found, given in zip(call(program, graph, [x, y]), (x, y), strict=True):
            np.testing.assert_allclose(on_host(found), np.exp(given), rtol=1e-6)
        launched.append(len(fake.launches))
    assert len(program.program.layout.launches) == 2 and launched == [2, 1, 0]


def test_counters_stay_zero_and_grow(fake):
    """A product of few rows is split, and blocks of threads count its splits; one of many rows has one split."""
    graph = parse("def f(x: f32[n, 512], w: f32[512, 200]) -> (f32[n, 200]):\n    v1 = matmul(x, w)\n    return (v1,)")
    program, rng = executable(graph), np.random.default_rng(0)
    w = rng.standard_normal((512, 200), dtype=np.float32)
    for n in (2, 2, 300, 2, 2200):
        x = np.zeros((n, 512), np.float32)
        x[-2:] = rng.standard_normal((2, 512), dtype=np.float32)
        (found,) = call(program, graph, [x, w])
        np.testing.assert_allclose(on_host(found)[-2:], x[-2:] @ w, rtol=1e-4, atol=1e-4)
    counters = program._leases[0].counters
    assert not any(ctypes.string_at(counters.address, counters.length))
