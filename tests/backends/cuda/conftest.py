"""Fixtures of tests of the runtime: a driver without a device instead of CUDA's, and tensors that seem to be on it."""

import pytest

from tests.backends.cuda.fake_cublaslt import fake_cublaslt
from tests.backends.cuda.fake_driver import FakeCompiler, FakeDriver, in_place_of_cuda
from zenith.config import config


@pytest.fixture
def fake():
    """A driver without a device, instead of CUDA's."""
    found = FakeDriver()
    with in_place_of_cuda(found):
        yield found


@pytest.fixture
def compiler():
    return FakeCompiler()


@pytest.fixture
def gpu(fake, compiler, monkeypatch):
    """The same, with programs that are linked for it without machine code."""
    monkeypatch.setattr("zenith.backends.cuda.link.compile_kernel", compiler)
    return fake


@pytest.fixture
def cuda_tensors(gpu, monkeypatch):
    """All tensors seem to be on the device, whose memory is the host's anyway."""
    torch = pytest.importorskip("torch")
    from zenith.arrays import tensors

    plain = (torch.Tensor, torch.nn.Parameter)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda t: type(t) in plain), raising=False)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda t: 0)
    adapter = tensors.CudaTensorAdapter(0)
    adapter._device = torch.device("cpu")
    monkeypatch.setitem(tensors._cuda, 0, adapter)
    return gpu


@pytest.fixture
def lt(gpu, monkeypatch):
    """cuBLASLt, which computes every product that it supports."""
    monkeypatch.setattr(config, "engines", ("cublaslt",))
    with fake_cublaslt(gpu) as found:
        yield found
