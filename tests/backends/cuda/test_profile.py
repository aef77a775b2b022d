"""Profiles of programs on a GPU, on a driver without a device: events around each step, and a measured device."""

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from zenith.api import profile as profiles
from zenith.backends.cuda.clock import EventClock


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """Measurements of the machine are small here, and forgotten afterwards."""
    monkeypatch.setattr(profiles, "SECONDS", 0.0)
    monkeypatch.setattr(profiles, "DEVICE_PRODUCTS", ((64, 64, 64),))
    monkeypatch.setattr(profiles, "WORKING_SETS", (1 << 12, 1 << 16))
    for function in (profiles.peak, profiles._bandwidths):
        function.cache_clear()
    yield
    for function in (profiles.peak, profiles._bandwidths):
        function.cache_clear()


def test_each_launch_of_a_call_is_timed_by_events(gpu, rng):
    step = zenith.jit(lambda x: np.exp(x).T @ x + 1)
    x = on_device(rng.standard_normal((100, 60), dtype=np.float32))
    wanted = on_host(step(x))
    report = step.profile(x)
    assert len(report.launches) == len(step.lower(x).cost_analysis().kernels) > 1
    assert all(launch.seconds > 0 and launch.share > 0 for launch in report.launches) and report.seconds > 0
    assert not gpu.events, "every event was given up"
    np.testing.assert_array_equal(on_host(step(x)), wanted)


def test_loops_are_one_step(gpu):
    step = zenith.jit(lambda x: zenith.fori_loop(0, 3, lambda i, y: np.sin(y) + x, x))
    report = step.profile(on_device(np.linspace(0, 1, 50, dtype=np.float32)))
    assert "loop" in [launch.kernel for launch in report.launches]


def test_the_time_is_the_devices(gpu, monkeypatch):
    monkeypatch.setattr(gpu, "between", lambda begin, end: (gpu.events.pop(begin), gpu.events.pop(end), 0.25)[-1])
    clock = EventClock(gpu, 0)
    assert clock.seconds(clock.now(), clock.now()) == 0.25
    report = zenith.jit(lambda x: x + 1).profile(on_device(np.ones(1000, np.float32)))
    assert [launch.seconds for launch in report.launches] == [0.25] and report.seconds == 0.25
