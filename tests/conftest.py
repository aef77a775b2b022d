"""What every test shares: deterministic examples and a seeded generator."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run and every machine; compiling takes longer than hypothesis expects of a test.
settings.register_profile(
    "deterministic", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deterministic")


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that gives each test the same numbers on every run."""
    return np.random.default_rng(0)
