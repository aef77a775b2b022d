"""Profiles and donated arrays on the GPU itself."""

import numpy as np

import zenith
from tests.gpu.device import download, upload
from zenith.api import profile as profiles


def test_profiles_time_each_launch_on_the_device(rng, monkeypatch):
    monkeypatch.setattr(profiles, "SECONDS", 0.02)
    step = zenith.jit(lambda x: np.exp(x).T @ x + 1)
    x = upload(rng.standard_normal((100, 60), dtype=np.float32))
    wanted = download(step(x))
    monkeypatch.setattr(profiles, "peak", lambda device=None: 1e13)
    monkeypatch.setattr(profiles, "bandwidth", lambda size, device=None: 1e12)
    report = step.profile(x)
    assert len(report.launches) > 1 and all(0 < launch.seconds < 1 for launch in report.launches)
    np.testing.assert_array_equal(download(step(x)), wanted)


def test_a_result_takes_the_memory_of_a_donated_array(rng):
    giving = zenith.jit(lambda a, b: (np.sin(a) @ b) @ np.cos(b), donate_argnums=0)
    a, b = (rng.standard_normal((64, 64), dtype=np.float32) for _ in range(2))
    given, other = upload(a), upload(b)
    address = given.data.ptr
    found = giving(given, other)
    assert found.data.ptr == address
    np.testing.assert_allclose(download(found), (np.sin(a) @ b) @ np.cos(b), rtol=1e-4, atol=1e-4)
