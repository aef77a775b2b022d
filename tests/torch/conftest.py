"""What tests of ``torch.compile`` share."""

import pytest
import torch


@pytest.fixture
def fresh_compiler():
    """Each test compiles its own, from the same random numbers on."""
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()
