"""Writes past the version counters of weights: programs follow each of them at once, and ``.data`` is what it was."""

import operator

import pytest
import torch
from torch import nn

import zenith
from tests.torch.test_from_torch import compare

SIZE = 160  # its matrix is packed


def through_a_saved_alias(weight, saved):
    saved.append(weight.data.view(-1))
    saved[-1][7] = 3.0


def through_an_array(weight, saved):
    saved.append(weight.detach().numpy()[1:])
    saved[-1][0, 0] = 5.0


def through_assigned_memory(weight, saved):
    saved.append(torch.randn(SIZE, SIZE))
    weight.data = saved[-1]


def in_inference_mode(weight, saved):
    with torch.inference_mode():
        weight.data.add_(1)


WRITES = {
    "a factor": lambda w, saved: w.data.mul_(0.9),
    "one element": lambda w, saved: operator.setitem(w.data, (3, 5), 7.0),
    "one row": lambda w, saved: operator.setitem(w.data, 3, 7.0),
    "a row's own alias": lambda w, saved: w[2].data.fill_(1),
    "an alias of a detached tensor": lambda w, saved: w.detach().data.clamp_(-0.5, 0.5),
    "other bits": lambda w, saved: w.view(torch.int32).data.bitwise_and_(-256),
    "a result": lambda w, saved: torch.add(w.data, w.data, alpha=0.1, out=w.data),
    "many tensors at once": lambda w, saved: torch._foreach_mul_([w.data, w.data], 1.1),
    "an initialiser": lambda w, saved: w.data.normal_(0, 0.02),
    "a saved alias": through_a_saved_alias,
    "a saved alias, written later": lambda w, saved: saved[-1].mul_(2),
    "an array": through_an_array,
    "an element of a saved array": lambda w, saved: operator.setitem(saved.pop(), (1, 1), 6.0),
    "other memory": through_assigned_memory,
    "the assigned tensor": lambda w, saved: saved[-1].mul_(2),
    "a view of the assigned tensor": lambda w, saved: operator.setitem(saved[-1].view(-1), 4, 8.0),
    "inference mode": in_inference_mode,
    "a polyak average": lambda w, saved: w.data.copy_(0.5 * w.data + 0.5),
}


@pytest.mark.parametrize("api", ["from_torch", "compile"])
def test_writes_past_the_counter_are_followed_at_once(api):
    torch.manual_seed(0)
    module, x, saved = nn.Linear(SIZE, SIZE).eval(), torch.randn(40, SIZE), []
    fast = zenith.from_torch(module, (x,)) if api == "from_torch" else torch.compile(module, backend="zenith")
    compare(fast, module, x)
    for write in WRITES.values():
        with torch.no_grad():
            before = module(x)
            write(module.weight, saved)
            assert not torch.equal(module(x), before)
        compare(fast, module, x)


def test_reads_repack_nothing():
    module, x = nn.Linear(SIZE, SIZE).eval(), torch.randn(40, SIZE)
    fast = zenith.from_torch(module, (x,))
    compare(fast, module, x)
    module.weight.data.sum()
    compare(fast, module, x)
    assert fast.cache_info().repacked == 0
    array = module.weight.detach().numpy()
    for n in range(1, 3):  # whoever has it may write to it at any time
        compare(fast, module, x)
        assert fast.cache_info().repacked == n
    del array
    compare(fast, module, x)
    repacked = fast.cache_info().repacked
    compare(fast, module, x)
    assert fast.cache_info().repacked == repacked


def test_an_average_through_data_moves_its_network():
    """The usual target network: its weights are only ever written through ``.data``."""
    torch.manual_seed(0)
    online, target, x = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE), torch.randn(40, SIZE)
    fast = zenith.from_torch(target, (x,))
    for _ in range(3):
        for own, other in zip(target.parameters(), online.parameters(), strict=True):
            own.data.copy_(0.9 * own.data + 0.1 * other.data)
        compare(fast, target, x)


def test_weights_without_a_counter_are_read_again():
    with torch.inference_mode():
        module, x = nn.Linear(SIZE, SIZE).eval(), torch.randn(40, SIZE)
        with pytest.warns(zenith.errors.PerformanceWarning, match="inference_mode"):
            fast = zenith.from_torch(module, (x,))
        compare(fast, module, x)
        module.weight.mul_(2)
    compare(fast, module, x)


def looks(tensor):
    signs = tensor.is_conj(), tensor.is_neg(), tensor._is_view(), tensor.is_leaf, tensor.requires_grad
    return type(tensor), tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), signs, tensor.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int8])
def test_aliases_are_those_of_pytorch(dtype):
    original, module = torch._C.TensorBase.data, nn.Module()
    weight = torch.ones(4, 6).to(dtype)
    module.weight = nn.Parameter(weight, requires_grad=dtype.is_floating_point)
    module.forward = lambda x: module.weight[0] + x
    views = [weight, weight.t(), weight[1:, ::2], weight[0, 0], module.weight]
    views += [weight.conj(), weight.conj().imag] if dtype.is_complex else []
    plain = [looks(original.__get__(view)) for view in views]
    fast = zenith.from_torch(module, (torch.ones(6),), backend="reference")
    assert [looks(view.data) for view in views] == plain
    version = module.weight._version
    module.weight.data.fill_(2)
    assert module.weight._version == version and weight.flatten()[0] == 2
    fast(torch.ones(6))


def test_what_autograd_saved_may_be_written_through_data():
    """The tutorial's loop: a step between a forward and its backward raises nothing."""
    module, x = nn.Linear(3, 3, bias=False), torch.ones(1, 3, requires_grad=True)
    fast = zenith.from_torch(module, (x,), backend="reference")
    loss = module(x).sum()
    module.weight.data.zero_()
    loss.backward()
    assert x.grad.tolist() == [[0, 0, 0]] and fast(x).tolist() == [[0, 0, 0]]
