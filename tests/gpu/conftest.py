"""Everything in this folder is marked ``gpu``; what the driver without a device cannot show asks for ``real``."""

from pathlib import Path

import pytest

from tests.gpu.device import FAKE

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture
def real():
    """CuPy, on a GPU that is really there."""
    if FAKE:
        pytest.skip("the driver without a device has no streams, allocator or machine code")
    return pytest.importorskip("cupy")


@pytest.fixture
def cuda_torch(real):
    """PyTorch that sees the GPU."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch was built without CUDA, or does not see the GPU")
    torch.set_float32_matmul_precision("highest")
    return torch
