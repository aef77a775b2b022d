"""Calls of PyTorch in a program of a GPU: on the plan's memory, the kernels' stream, and that GPU's generator."""

import ctypes
from contextlib import contextmanager

import numpy as np
import pytest

import zenith
from zenith.backends.cuda.device_memory import DeviceArray

torch = pytest.importorskip("torch")
from zenith.torch import operator_calls as calls  # noqa: E402
from zenith.torch.layouts import MemoryFormat  # noqa: E402

STREAM = 77  # of the tensors in the fixture


class FakeGpu:
    """Stands for PyTorch on a GPU: tensors over the fake driver's memory, random numbers of the host's generator."""

    def __init__(self):
        self.streams, self.arrays = [], []

    def over(self, array, device):
        self.arrays.append((array.address, array.shape))
        if 0 in array.shape:
            return torch.empty(array.shape, dtype=calls.torch_adapter().like(array.dtype))
        length = int(np.prod(array.shape)) * array.dtype.itemsize
        memory = (ctypes.c_char * length).from_address(array.address)
        return calls.torch_adapter().from_numpy(np.frombuffer(memory, array.dtype).reshape(array.shape))

    @contextmanager
    def on(self, device, stream):
        self.streams.append((device, stream))
        yield


@pytest.fixture
def fake_gpu(cuda_tensors, monkeypatch):
    found = FakeGpu()
    monkeypatch.setattr(calls, "GPU", found)
    return found


class Drawing(torch.nn.Module):
    def forward(self, x):
        noise = torch.rand_like(x)
        dropped = torch.nn.functional.dropout(torch.tanh(x), 0.25, self.training)
        return dropped * 2 + noise, torch.bernoulli(torch.sigmoid(x))


@pytest.mark.parametrize("shape", [(5, 7), (2, 7), (0, 7)])
def test_draws_are_on_the_stream_and_in_the_plans_memory(fake_gpu, cuda_tensors, shape):
    module = Drawing().train()
    fast = zenith.from_torch(module, (torch.zeros(3, 7),))
    x = torch.linspace(-1, 1, shape[0] * 7).reshape(shape)
    torch.manual_seed(3)
    expected = module(x)
    with torch.no_grad():
        fast(x)  # compiles, and uploads what is constant
        before, fake_gpu.streams = len(cuda_tensors.copies), []
        torch.manual_seed(3)
        found = fast(x)
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=2e-6)
    assert fake_gpu.streams == [(0, STREAM)] * 3
    assert len(cuda_tensors.copies) == before, "nothing goes to the host"


def test_operators_without_a_rule_are_computed_there_too(fake_gpu, cuda_tensors):
    def f(x):
        return torch.special.bessel_j0(torch.exp(x)) + 1

    x = torch.linspace(0, 1, 6).reshape(2, 3)
    fast = torch.compile(f, backend="zenith", options={"fallback": "pytorch"})
    with pytest.warns(zenith.errors.FallbackWarning, match="bessel_j0"), torch.no_grad():
        found = fast(x)
    torch.testing.assert_close(found, f(x))
    ((device, stream),) = fake_gpu.streams
    assert (device, stream) == (0, STREAM)
    torch.compiler.reset()


def test_other_sizes_than_were_planned_are_an_error(fake_gpu):
    step = calls.on_gpu(lambda tensors, results: [torch.ones(4)])
    memory = np.zeros(3, np.float32)
    with pytest.raises(zenith.errors.ShapeError, match=r"sizes \(4,\), not \(3,\)"):
        step([], [DeviceArray(memory.ctypes.data, (3,), memory.dtype, memory)], 0, STREAM)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64"])
def test_results_are_written_where_the_plan_has_them(fake_gpu, dtype):
    kind = getattr(torch, dtype)
    operand, result = torch.tensor([0, 1, 1]).to(kind), torch.zeros(3, dtype=kind)
    numpy_kind = calls.torch_adapter().numpy(result).dtype

    def device_array(tensor):
        return DeviceArray(tensor.data_ptr(), tuple(tensor.shape), numpy_kind, tensor)

    call = calls.OperatorCall.of(torch.ops.aten.clone.default, _spec(1), ["tensor"], [None], [operand])
    calls.on_gpu(call.on_device)([device_array(operand)], [device_array(result)], 0, STREAM)
    assert torch.equal(result, operand)


def _spec(count):
    return torch.utils._pytree.tree_structure(((0,) * count, {}))


def test_others_operators_get_copies_of_their_own():
    """They might keep or write what they get; PyTorch's own do not."""
    given = []

    class Foreign:
        namespace = "mine"

        def __call__(self, x):
            given.append(x)
            return x

    x = torch.ones(3)
    calls.OperatorCall.of(Foreign(), _spec(1), ["tensor"], [None], [x]).on_device([x], [])
    assert given[0].data_ptr() != x.data_ptr()


def test_arguments_that_pytorch_has_on_the_cpu_are_copied_there():
    class Seen(torch.Tensor):
        asked = 0

        def cpu(self):
            Seen.asked += 1
            return torch.Tensor(self)

    call = calls.OperatorCall.of(torch.ops.aten.add.Tensor, _spec(2), ["tensor"] * 2, [None] * 2,
                                 [torch.ones(2), torch.ones(2, device="meta")])  # fmt: skip
    call.compute([torch.ones(2).as_subclass(Seen), torch.ones(2).as_subclass(Seen)])
    assert Seen.asked == 1


def test_masks_have_the_layout_of_the_argument():
    """On a GPU the kernel of PyTorch's dropout draws them, for the element type of its argument."""
    like = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
    call = calls.MaskCall(0.75, MemoryFormat.of(like), torch.float32)
    torch.manual_seed(1)
    (mask,) = call.on_device([], [torch.empty(2, 3, 4, 5)])
    torch.manual_seed(1)
    expected = torch.native_dropout(like, 0.25, True)[1]
    assert mask.shape == (2, 3, 4, 5) and torch.equal(mask, expected)


def test_memory_by_the_protocol():
    import ml_dtypes

    for dtype, text in ((np.float32, "<f4"), (ml_dtypes.bfloat16, "<i2"), (np.bool_, "|b1")):
        found = calls._Memory(DeviceArray(4096, (2, 3), np.dtype(dtype), None)).__cuda_array_interface__
        assert (found["typestr"], found["shape"], found["data"]) == (text, (2, 3), (4096, False))
