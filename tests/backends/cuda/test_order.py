"""The order of work: weights, their preparation and readers on several streams, and memory that is still read."""

import numpy as np
import pytest

from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.test_executable import executable
from zenith.arrays import cupy_adapter
from zenith.backends.cuda.device_memory import DeviceMemory
from zenith.backends.cuda.memory import pool
from zenith.backends.weights import WeightTable
from zenith.ir.text import parse

PREPARED = """
def f(x: f64[n]) -> (f64[n, 5]):
    v1 = weight(name='w', dtype=f32, shape=(5,))
    v2 = cast(v1, dtype=f64)
    v3 = exp(v2)
    v4 = broadcast(v3, shape=(n, 5), axes=(1,))
    v5 = broadcast(x, shape=(n, 5), axes=(0,))
    v6 = mul(v4, v5)
    return (v6,)
"""


@pytest.fixture
def prepared(fake):
    """A program that prepares something from a weight, its table, and the memory of the weight."""
    memory = DeviceMemory(pool(), 0)
    graph = parse(PREPARED)
    graph.weights = WeightTable({"w": memory.constant(np.zeros(5, np.float32))}, memory)
    program = executable(graph)
    assert program.plan.prepared
    return program, graph.weights, memory


@pytest.fixture
def order(fake, monkeypatch):
    """The calls of the driver: streams of launches, and waits for the device."""
    asked, launch, wait = [], fake.launch, fake.synchronize_device
    monkeypatch.setattr(fake, "launch", lambda *given: asked.append(given[8]) or launch(*given))
    monkeypatch.setattr(fake, "synchronize_device", lambda: asked.append("device") or wait())
    return asked


def run(program, x=(1.0, 2.0)):
    adapter = cupy_adapter(0)
    (found,) = program.run([on_device(np.array(x))], [adapter], {"n": len(x)}, adapter)
    return found


def wanted(w, x=(1.0, 2.0)):
    return np.outer(x, np.exp(w.astype(np.float64)))


def test_preparation_is_after_all_writers_and_before_all_readers(prepared, fake, order):
    program, table, memory = prepared
    w = np.arange(5, dtype=np.float32) / 5
    table.change({"w": memory.constant(w)})
    order.clear()
    fake.on_stream(7)
    np.testing.assert_allclose(on_host(run(program)), wanted(w), rtol=1e-12)
    once = len(program.plan.prepared)
    assert order == ["device", 0, "device"] * once + [7] * (len(order) - 3 * once) and order[-1] == 7
    fake.on_stream(9)  # nothing is new there, so nobody waits
    order.clear()
    run(program)
    assert set(order) == {9}


def test_a_change_during_a_call_leaves_it_its_state(prepared, fake, monkeypatch):
    """As if another thread changed the weight when the call has taken its state and has launched nothing yet."""
    program, table, memory = prepared
    launch, changes = fake.launch, [memory.constant(np.ones(5, np.float32))]

    def change_first(*given):
        if changes:
            table.change({"w": changes.pop()})
            fake.delayed = []
        launch(*given)

    monkeypatch.setattr(fake, "launch", change_first)
    found = run(program)
    (lease,) = program._leases
    ((_, state),) = lease.events
    read = {array.address for array in state.arrays.values()}
    assert read & {*fake.launches[-1].buffers} and program._fixed.state is None
    fake.finish()
    fake.delayed = None
    np.testing.assert_allclose(on_host(found), wanted(np.zeros(5)), rtol=1e-12)
    np.testing.assert_allclose(on_host(run(program)), wanted(np.ones(5)), rtol=1e-12)
    assert not lease.events


def test_a_change_waits_for_calls_that_still_found_the_state(prepared, monkeypatch):
    """A call releases its state while it is still the program's: whoever changes weights then has to wait after it."""
    program, table, memory = prepared
    run(program)
    states, settle = [], memory.settle
    monkeypatch.setattr(memory, "settle", lambda: states.append(program._fixed.state) or settle())
    table.change({"w": memory.constant(np.ones(5, np.float32))})
    assert states == [None]


def test_weights_that_are_read_as_they_are_are_waited_for(fake, order):
    """A weight that is not dense comes as a copy, made on whatever stream was torch's at that moment."""
    memory = DeviceMemory(pool(), 0)
    graph = parse("def f(x: f32[5]) -> (f32[5]):\n    v1 = weight(name='w', dtype=f32, shape=(5,))\n"
                  "    v2 = add(x, v1)\n    return (v2,)")  # fmt: skip
    graph.weights = WeightTable({"w": memory.constant(np.zeros(5, np.float32))}, memory)
    program = executable(graph)
    assert order == ["device"] and not program.plan.prepared
    graph.weights.change({"w": memory.constant(np.ones(5, np.float32))})
    assert order == ["device"] * 2
