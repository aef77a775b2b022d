"""``from_torch`` without examples: the module is recorded from the arguments of the first call."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import zenith
from tests.torch.test_from_torch import Branching, Structured, compare
from zenith.errors import ArgumentError, TraceError, ZenithError

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Undecided(nn.Module):
    """A module that branches on values, which no export records."""

    def forward(self, x):
        return x if x.sum() > 0 else -x


@pytest.fixture
def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))


def test_one_program_for_every_size(layers):
    fast = zenith.from_torch(layers.eval(), backend="reference")
    assert fast.cache_info().misses == 0
    for n in (1, 5, 0, 2):
        compare(fast, layers, torch.randn(n, 4))
    assert fast.cache_info().misses == 1


def test_arguments_of_every_kind():
    module = Structured()
    fast = zenith.from_torch(module, backend="reference")
    compare(fast, module, X, {"m": [X]}, scale=2.0)
    compare(fast, module, X, {"m": (X,)}, flag=False)


def test_branches_on_sizes():
    fast = zenith.from_torch(Branching(), backend="reference")
    for n in (1, 2, 3, 4):
        compare(fast, Branching(), torch.randn(n, 4))


def test_examples_may_be_keywords_alone():
    module = nn.Linear(4, 2)
    fast = zenith.from_torch(module, kwargs={"input": X}, backend="reference")
    compare(fast, module, input=X[:2])


def test_an_empty_tuple_is_an_example():
    """Of a module without arguments, which is recorded at once."""

    class Still(Undecided):
        def forward(self):
            return super().forward(torch.ones(3))

    with pytest.raises(ZenithError, match="branches on a tensor's values"):
        zenith.from_torch(Still(), ())


def test_it_trains(layers):
    plain, fast = copy.deepcopy(layers), zenith.from_torch(layers, backend="reference")
    for module in (plain, fast):
        torch.manual_seed(1)
        module(X).square().sum().backward()
    for one, other in zip(plain.parameters(), fast.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad)
    torch.testing.assert_close(fast[1].running_mean, plain[1].running_mean)


def test_hooks_on_saved_tensors_see_no_export(layers):
    """Those of checkpointing too, which counts what is saved."""
    x = torch.randn(6, 4, requires_grad=True)
    checkpoint(zenith.from_torch(layers[0]), x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, layers[0].weight.sum(0).expand(6, 4))
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.detach().numpy()) or t, lambda t: t):
        zenith.from_torch(layers[0])(x)
    assert [s.shape for s in saved] == [(8, 4), (6, 4)]


def test_it_is_a_module_before_it_is_called(layers):
    """Moved, copied, pickled, put into others, with hooks: and the first call comes after."""
    seen, expected = [], layers.eval().double()(X.double())
    layers.float().train()
    fast = zenith.from_torch(layers, backend="reference")
    outer = nn.Sequential(pickle.loads(pickle.dumps(copy.deepcopy(fast))))
    assert list(outer.state_dict()) == [f"0.{name}" for name in layers.state_dict()]
    outer.to(torch.float64).eval()
    outer[0].register_forward_hook(lambda module, args, result: seen.append(result.dtype))
    torch.testing.assert_close(outer(X.double()), expected)
    assert seen == [torch.float64] and layers.training and layers[0].weight.dtype is torch.float32


def test_a_function_of_its_parameters(layers):
    fn, params = zenith.from_torch(layers.eval()).functional()
    torch.testing.assert_close(fn(params, X), layers(X).detach())


def test_what_cannot_be_recorded_is_refused_by_the_call():
    fast = zenith.from_torch(Undecided())
    with pytest.raises(ZenithError, match="cannot export Undecided") as caught:
        fast(X)
    assert caught.value.where.file == __file__


def test_programs_are_saved_once_there_are_some(layers, tmp_path):
    fast = zenith.from_torch(layers.eval())
    with pytest.raises(ZenithError, match="no compiled program to save") as caught:
        fast.save(tmp_path / "layers.zenith")
    assert "call it first" in caught.value.fix
    with torch.no_grad():
        expected = fast(X)
    fast.save(tmp_path / "layers.zenith")
    assert torch.equal(zenith.load(tmp_path / "layers.zenith")(X), expected)


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_lazy_weights_are_made_by_the_modules_own_call():
    module = nn.Sequential(nn.LazyLinear(2))
    with pytest.raises(ArgumentError, match="have no sizes before its first call"):
        zenith.from_torch(module)
    module(X)
    compare(zenith.from_torch(module, backend="reference"), module, X)


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (torch.relu, r"torch.compile\(f, backend=.zenith.\)"),
        (lambda x: x, r"zenith.jit\(f\)"),
        (nn.Linear, r"make one: Linear\(\.\.\.\)"),
    ],
)
def test_what_is_no_module_is_refused(given, fix):
    with pytest.raises(TraceError, match=rf"takes a torch.nn.Module(.|\n)*test_first_call.py(.|\n)*{fix}"):
        zenith.from_torch(given)
