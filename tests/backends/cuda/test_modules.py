"""Modules of PyTorch on a GPU, on a driver without a device: tensors that seem to be there."""

import numpy as np
import pytest

import zenith
from zenith.errors import DeviceError

torch = pytest.importorskip("torch")


@pytest.fixture
def mlp(cuda_tensors):
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    )
    return module.eval(), zenith.from_torch(module, (torch.randn(8, 16),))


def agree(fast, module, n):
    x = torch.randn(n, 16)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x), rtol=1e-5, atol=1e-5)


def test_values_of_several_sizes_without_compiling_again(mlp, cuda_tensors):
    module, fast = mlp
    for n in (5, 8, 1, 64):
        agree(fast, module, n)
    assert cuda_tensors.launches and fast.cache_info().misses == 1
    assert {launch.stream for launch in cuda_tensors.launches} == {77}  # torch's own


def test_weights_are_read_where_they_are(mlp, cuda_tensors):
    module, fast = mlp
    agree(fast, module, 4)
    read = {address for launch in cuda_tensors.launches for address in launch.buffers}
    assert module[0].weight.data_ptr() in read and module[3].bias.data_ptr() in read


def test_changed_weights_are_followed(mlp):
    module, fast = mlp
    agree(fast, module, 4)
    with torch.no_grad():
        module[0].weight.mul_(2)
        module[3].bias.add_(1)
    agree(fast, module, 4)
    assert fast.cache_info().misses == 1


def test_gradients_arrive_as_on_the_cpu(mlp, cuda_tensors):
    module, fast = mlp
    x, gradients = torch.randn(3, 16), []
    for call in (module, fast):
        module.zero_grad()
        call(x).square().mean().backward()
        gradients.append([p.grad for p in module.parameters()])
    torch.testing.assert_close(*gradients)
    assert cuda_tensors.launches


def test_jit_takes_tensors_and_returns_tensors(cuda_tensors):
    step = zenith.jit(lambda x: np.tanh(x) * 2)
    x = torch.randn(5)
    found = step(x)
    assert type(found) is torch.Tensor
    torch.testing.assert_close(found, torch.tanh(x) * 2)
    torch.testing.assert_close(step(x[::2]), torch.tanh(x[::2]) * 2)


def test_a_module_on_the_cpu_with_tensors_on_the_gpu(gpu, monkeypatch):
    """Only what is made later seems to be on the device."""
    module = torch.nn.Linear(3, 2)
    fast = zenith.from_torch(module, (torch.zeros(4, 3),))
    x = torch.zeros(4, 3)
    from zenith.arrays import tensors

    adapter = type("Adapter", (tensors.TorchAdapter,), {"device": 0, "on_host": False})()
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda t: t is x), raising=False)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda t: 0)
    monkeypatch.setitem(tensors._cuda, 0, adapter)
    with torch.no_grad(), pytest.raises(DeviceError, match=r"the module is on the CPU and \w+ is on cuda:0"):
        fast(x)


def test_a_module_on_the_cpu_is_not_moved_silently(gpu):
    module = torch.nn.Linear(3, 2)
    fast = zenith.from_torch(module, (torch.zeros(4, 3),), backend="cuda")
    with torch.no_grad(), pytest.raises(DeviceError, match="nothing is moved silently"):
        fast(torch.zeros(4, 3))
