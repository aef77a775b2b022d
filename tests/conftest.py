"""What every test shares: deterministic examples, a seeded generator, and a cache of compiled kernels of its own."""

import atexit
import os
import shutil
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Set before Zenith reads its settings. Workers of one run, and processes that tests start, inherit the folder.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["ZENITH_CACHE_DIR"] = tempfile.mkdtemp(prefix="zenith-tests-")
    atexit.register(shutil.rmtree, os.environ["ZENITH_CACHE_DIR"], ignore_errors=True)

# The same examples on every run and every machine; compiling takes longer than hypothesis expects of a test.
settings.register_profile(
    "deterministic", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deterministic")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that gives each test the same numbers on every run."""
    return np.random.default_rng(0)
