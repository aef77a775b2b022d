"""Recurrent layers: one program of loops serves all lengths, in both passes; dropout between them is PyTorch's."""

import copy
import warnings

import pytest
import torch
from torch import nn

import zenith
from zenith.errors import FallbackWarning, UnsupportedError

THOROUGH = pytest.mark.thorough
KINDS = [
    pytest.param(nn.LSTM, {"bidirectional": True, "dropout": 0.5, "batch_first": True}, id="lstm"),
    pytest.param(nn.GRU, {"dropout": 0.3}, id="gru"),
    pytest.param(nn.RNN, {"nonlinearity": "relu", "bias": False}, id="rnn", marks=THOROUGH),
    pytest.param(nn.LSTM, {"proj_size": 2, "bidirectional": True}, id="projected", marks=THOROUGH),
]


class Layers(nn.Module):
    """Two layers after one that has a gradient; returns their results and last states."""

    def __init__(self, kind, options):
        super().__init__()
        self.first, self.layers = nn.Linear(4, 4), kind(4, 3, 2, **options)

    def forward(self, x):
        outputs, states = self.layers(torch.tanh(self.first(x)))
        return outputs.sum(-1), *(states if isinstance(states, tuple) else (states,))


@pytest.fixture
def allowed():
    """TorchDynamo takes recurrent layers in."""
    torch.compiler.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        yield
    torch.compiler.reset()


def assert_same_step(module, fast, twin, x):
    """Results, gradients, and what was drawn."""
    given, outcome = (x, x.clone()), []
    for call, own, at in ((module, module, given[0]), (fast, twin, given[1])):
        torch.manual_seed(3)
        results = call(at.requires_grad_())
        own.zero_grad()
        sum(r.square().sum() for r in results).backward()
        outcome.append((results, at.grad, [p.grad for p in own.parameters()], torch.get_rng_state()))
    torch.testing.assert_close(outcome[1], outcome[0], rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("backend", ["reference", pytest.param(None, marks=THOROUGH)])
def test_torch_compile_trains_with_every_length(allowed, kind, options, backend):
    module = Layers(kind, options)
    twin = copy.deepcopy(module)
    fast = torch.compile(twin, backend="zenith", dynamic=True, options={"fallback": "error", "backend": backend})
    for length in (5, 8):
        assert_same_step(module, fast, twin, torch.randn(3, length, 4))
    report = zenith.torch.explain()
    assert [calls for _, calls, *_ in report.graphs] == [2, 2] and not report.breaks
    assert {step for step, *_ in report.steps} <= {"aten.native_dropout.default"}
    assert all(where.startswith(f"{__file__}:") and "self.layers(" in where for *_, where in report.steps)


def test_narrow_layers_train(allowed):
    torch.manual_seed(0)
    module, x = nn.GRU(4, 3).to(torch.bfloat16), torch.randn(9, 2, 4).to(torch.bfloat16)
    exact = copy.deepcopy(module).double()
    fast = torch.compile(module, backend="zenith", options={"fallback": "error", "backend": "reference"})
    found = []
    for call, own, given in ((exact, exact, x.double()), (module, module, x), (fast, module, x)):
        own.zero_grad()
        call(given)[0].double().square().sum().backward()
        found.append([p.grad.double() for p in own.parameters()])
    for right, plain, ours in zip(*found, strict=True):
        assert (ours - right).norm() <= 2 * (plain - right).norm() + 1e-2 * right.norm()


@pytest.mark.parametrize(("kind", "options"), [(nn.GRU, {"bidirectional": True}), (nn.LSTM, {"bias": False})])
def test_what_is_left_to_pytorch_may_have_layers(allowed, kind, options):
    """A graph with a size that depends on values is PyTorch's as a whole, with the operators that are Zenith's."""

    class Positive(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = kind(4, 3, **options)

        def forward(self, x):
            outputs, _ = self.layers(x)
            return outputs[outputs > 0]

    torch.manual_seed(0)
    module, x, found = Positive(), torch.randn(5, 2, 4), []
    fast = torch.compile(module, backend="zenith", options={"backend": "reference"})
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        for call in (module, fast):
            module.zero_grad()
            results = call(x)
            results.square().sum().backward()
            found.append((results, [p.grad for p in module.parameters()]))
    torch.testing.assert_close(found[1], found[0])


def test_torch_compile_infers_with_every_length(allowed):
    module = Layers(nn.GRU, {"dropout": 0.3}).eval()
    fast = torch.compile(module, backend="zenith", dynamic=True, options={"fallback": "error", "backend": "reference"})
    with torch.no_grad():
        for length in (5, 8):
            x = torch.randn(length, 2, 4)
            torch.testing.assert_close(fast(x), module(x))
    ((_, calls, programs, *_),) = zenith.torch.explain().graphs
    assert (calls, programs) == (2, 1)


def test_other_backends_are_left_alone(allowed):
    """They get PyTorch's own operator."""
    seen = []

    def backend(module, inputs):
        seen.extend(node.target for node in module.graph.nodes)
        return module

    torch.compile(nn.GRU(4, 3), backend=backend)(torch.randn(2, 4))
    assert torch.gru in seen


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_from_torch_drops_between_layers(kind, options):
    module = Layers(kind, options)
    twin = copy.deepcopy(module)
    fast = zenith.from_torch(twin, (torch.zeros(3, 5, 4),), backend="reference")
    for length in (5, 8):
        assert_same_step(module, fast, twin, torch.randn(3, length, 4))
    assert fast.autograd.forward.cache_info().misses == 1
    with torch.no_grad():
        x = torch.randn(3, 6, 4)
        torch.manual_seed(1)
        found = fast(x)
        torch.manual_seed(1)
        torch.testing.assert_close(found, module(x))


class ByName(nn.Module):
    """An operator of all layers, called by its own name: one that may draw, by PyTorch's tags."""

    def __init__(self, dropout):
        super().__init__()
        self.dropout = dropout
        shapes = [shape for _ in range(2) for shape in ((9, 3), (9, 3), (9,), (9,))]
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(shape)) for shape in shapes)

    def forward(self, x):
        state = torch.zeros(2, x.shape[1], 3)
        return torch.ops.aten.gru.input(x, state, [*self.weights], True, 2, self.dropout, True, False, False)


def test_an_operator_by_its_name_has_gradients():
    module = ByName(0.0)
    fast = zenith.from_torch(module, (torch.randn(4, 2, 3),))
    assert_same_step(module, fast, module, torch.randn(5, 2, 3))


def test_an_operator_by_its_name_that_drops_is_refused():
    fast = zenith.from_torch(ByName(0.5))
    with pytest.raises(UnsupportedError, match="draws dropout between them"):
        fast(torch.randn(4, 2, 3))
