"""JAX has 64-bit types in these tests alone."""

import sys

import pytest


@pytest.fixture(autouse=True)
def leave_jax_as_it_was():
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", False)
