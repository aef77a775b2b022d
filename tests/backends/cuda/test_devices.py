"""Several GPUs: on which one programs are planned, linked and run, and arrays are copied."""

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_driver import FakeDriver
from zenith.arrays import cupy_adapter
from zenith.backends.cuda.driver import using


@pytest.fixture
def two(compiler, monkeypatch):
    """A driver with two devices, without any."""
    monkeypatch.setattr("zenith.backends.cuda.link.compile_kernel", compiler)
    fake = FakeDriver(devices=2)
    with using(fake):
        yield fake


def test_an_array_is_copied_to_the_host_on_its_own_device(two, monkeypatch):
    devices, copy = [], two.copy
    monkeypatch.setattr(two, "copy", lambda *given: devices.append(two.device()) or copy(*given))
    x = on_device(np.arange(3.0), 1)
    assert cupy_adapter(1).numpy(x).tolist() == [0.0, 1.0, 2.0] and devices == [1]


def test_programs_from_shapes_are_the_current_devices_own(two):
    step = zenith.jit(lambda x: x * 2, backend="cuda")
    shape = zenith.ShapeDtypeStruct(("n",), "float32")
    two.use(1)
    lowered = step.lower(shape)
    two.use(0)
    lowered.compile()
    with zenith.forbid_recompile():
        assert on_host(step(on_device(np.ones(3, np.float32), 1))).tolist() == [2.0] * 3
    assert step._specializer.latest.executable.device == 1
