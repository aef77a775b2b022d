"""What has no rule, no value of a program's, or fails to compile: PyTorch computes it, counted and named."""

import copy
import math

import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import checkpoint

import zenith
from zenith.errors import FallbackWarning, UnsupportedError, ZenithError
from zenith.torch import aten
from zenith.torch.dynamo import graphs

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def strictly(function, dynamic=None):
    return torch.compile(function, backend="zenith", options={"fallback": "error"}, dynamic=dynamic)


def by_pytorch(function):
    return torch.compile(function, backend="zenith")


def sizes_through_floats(x):
    n = x.shape[1]
    return (
        x[:, : int(n * 0.75)] * 1,
        x[:, int((n - 4) / 2) :] * 1,
        x[:, int((n - 40) / 2) :] * 1,
        x[:, round((n - 4) / 2.0) :] * 1,
        x.reshape(x.shape[0], int(math.sqrt(n)), -1) * 1,
        x.new_zeros(2 ** math.ceil(math.log2(n))) + x.sum(),
        x[:, : abs(n - 10) + 1],
        x / math.sqrt(n) + n**-0.5 + math.log2(n) * x + math.ceil(n / 3),
    )


def test_sizes_that_go_through_floats():
    """Python computes the whole numbers before the program runs, and the program the floats."""
    fast = strictly(sizes_through_floats, dynamic=True)
    for n in (9, 16, 25):
        x = torch.randn(3, n)
        torch.testing.assert_close(fast(x), sizes_through_floats(x))
    assert all(graph.cache_info().misses == 1 for graph in zenith.torch.graphs())


@pytest.mark.thorough
def test_gradients_through_such_sizes():
    layer = nn.Linear(8, 8)

    def masked(x):
        order = torch.argsort(x[..., :1].expand_as(x), 1)[:, : int(x.shape[1] * 0.25)]
        return layer(torch.gather(x, 1, order)) / math.sqrt(x.shape[1])

    fast = strictly(masked, dynamic=True)
    for n in (16, 24):
        x = torch.randn(2, n, 8, requires_grad=True)
        fast(x).square().sum().backward()
        found, x.grad = x.grad, None
        masked(x).square().sum().backward()
        torch.testing.assert_close(found, x.grad)


def test_checks_are_steps_that_compute_nothing():
    def rooted(x, classes):
        assert (x >= 0).all(), "a negative number"
        return x.sqrt() + F.one_hot(classes, 4)

    fast, x, classes = strictly(rooted), torch.rand(2, 4), torch.tensor([0, 3])
    torch.testing.assert_close(fast(x, classes), rooted(x, classes))
    with pytest.raises(RuntimeError, match="a negative number"):
        fast(-x - 1, classes)
    with pytest.raises(RuntimeError, match="Class values"):
        fast(x, torch.tensor([0, 4]))


def chosen(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


def repeated(x):
    return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5), (torch.tensor(0), x))[1]


def attending(x):
    return flex_attention(x, x, x, score_mod=lambda score, b, h, q, k: score + q - k)


@pytest.mark.parametrize(
    "function, shape, name",
    [
        (chosen, (4,), "cond"),
        pytest.param(repeated, (4,), "while_loop", marks=pytest.mark.thorough),
        pytest.param(attending, (1, 2, 16, 16), "flex_attention", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_operators_that_take_functions(function, shape, name):
    x = torch.randn(shape)
    with pytest.warns(FallbackWarning, match=f"{name} is computed by PyTorch"):
        found = by_pytorch(lambda x: function(x * 2) + 1)(x)
    torch.testing.assert_close(found, function(x * 2) + 1)
    ((operator, times, _, _, where),) = zenith.torch.explain().steps
    assert (operator, times) == (name, 1) and "test_dynamo_eager_graphs.py" in where
    with pytest.raises(Exception, match=rf"{name}: Zenith has no rule for it"):
        strictly(lambda x: function(x * 2) + 1)(x)


def test_gradients_through_a_condition():
    x = torch.randn(4, requires_grad=True)
    with pytest.warns(FallbackWarning):
        by_pytorch(lambda x: chosen(x) * 3)(x).sum().backward()
    found, x.grad = x.grad, None
    (chosen(x) * 3).sum().backward()
    torch.testing.assert_close(found, x.grad)


def test_checkpoint_around_attention():
    def attended(x):
        return checkpoint(lambda x: F.scaled_dot_product_attention(x, x, x), x, use_reentrant=False)

    x = torch.randn(1, 2, 5, 8, requires_grad=True)
    by_pytorch(attended)(x).square().sum().backward()
    found, x.grad = x.grad, None
    attended(x).square().sum().backward()
    torch.testing.assert_close(found, x.grad)


def rounded(x):
    return (x * 2).to(torch.float8_e4m3fn).float() + 1


def test_values_that_no_program_has():
    x = torch.randn(3)
    with pytest.warns(FallbackWarning, match="computed by PyTorch"):
        torch.testing.assert_close(by_pytorch(rounded)(x), rounded(x))
    assert zenith.torch.explain().steps
    with pytest.raises(ZenithError, match="float8"):
        strictly(rounded)(x)


def test_sparse_gradients():
    table = nn.Embedding(5, 3, sparse=True)
    with pytest.warns(FallbackWarning, match="computed by PyTorch"):
        by_pytorch(lambda i: table(i).square().sum())(torch.tensor([1, 2, 1])).backward()
    found, table.weight.grad = table.weight.grad, None
    table(torch.tensor([1, 2, 1])).square().sum().backward()
    assert found.is_sparse
    torch.testing.assert_close(found.to_dense(), table.weight.grad.to_dense())


def test_jagged_tensors():
    x = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(4, 3)], layout=torch.jagged)
    for one, other in zip(by_pytorch(lambda x: x.sin() * 2)(x), x.sin() * 2, strict=True):
        torch.testing.assert_close(one, other)


def test_results_can_be_resized():
    """As PyTorch does with ``out=``; NumPy's views of a tensor's memory would forbid it."""

    def added(x):
        out = torch.empty(0)
        torch.add(x, 1, out=out)
        return out

    x, layer = torch.randn(3), nn.Linear(3, 2)
    torch.testing.assert_close(by_pytorch(added)(x), x + 1)
    with torch.no_grad():
        zenith.from_torch(layer, (x,))(x)
    layer.weight.data.resize_(5, 3)


def convolutional():
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))


def assert_trains(model):
    """One step's result and gradients are those without a compiler."""
    other, x = copy.deepcopy(model), torch.randn(2, 3, 9, 9)
    fast = by_pytorch(other)
    results = [call(x) for call in (fast, model)]
    for result in results:
        result.square().mean().backward()
    torch.testing.assert_close(*results)
    for one, same in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one.grad, same.grad)


@pytest.mark.parametrize("direction", [pytest.param("forward", marks=pytest.mark.thorough), "backward"])
def test_a_graph_that_fails_to_compile(direction, monkeypatch):
    """PyTorch computes it, and reads and makes the residuals of the other graph in blocks of channels."""
    own = graphs.CompiledGraph._build

    def failing(graph, leaves, parameters):
        if graph.__name__.endswith(direction):
            raise KeyError("fault")
        return own(graph, leaves, parameters)

    monkeypatch.setattr(graphs.CompiledGraph, "_build", failing)
    with pytest.warns(FallbackWarning, match=f"{direction} is computed by PyTorch as a whole"):
        assert_trains(convolutional())
    ((name, times, graph, why, where),) = zenith.torch.explain().steps
    assert (name, times) == ("all of the graph", 1) and graph.endswith(direction) and where
    assert why == "compiling it fails, a fault of Zenith's: KeyError: 'fault'"
    assert len(zenith.torch.graphs()) == 1


def test_a_rule_that_fails(monkeypatch):
    """Its operator alone is PyTorch's."""

    def failing(c, x):
        return x.nonsense

    monkeypatch.setitem(aten.RULES, "sin", failing)
    x = torch.randn(3)
    with pytest.warns(FallbackWarning, match=r"aten.sin.default is computed by PyTorch.*a fault of Zenith's"):
        torch.testing.assert_close(by_pytorch(lambda x: torch.sin(x * 2) + 1)(x), torch.sin(x * 2) + 1)
    with pytest.raises(UnsupportedError, match="a fault of Zenith's: AttributeError"):
        strictly(lambda x: torch.sin(x * 2) + 1)(x)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_tangents_are_followed():
    """Programs have none, so that PyTorch computes calls with them, and no others."""
    layer, x = nn.Linear(4, 2).requires_grad_(False), torch.randn(3, 4)
    fast, forward_ad = by_pytorch(layer), torch.autograd.forward_ad
    fast(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.warns(FallbackWarning, match="no tangents"):
            found = forward_ad.unpack_dual(fast(dual))
        wanted = forward_ad.unpack_dual(layer(dual))
        torch.testing.assert_close(tuple(found), tuple(wanted))
        fast(x)
    assert [step[0] for step in zenith.torch.explain().steps] == ["all of the graph"]
    assert zenith.torch.graphs()[0].calls == 2


def test_modes_are_noted():
    x = torch.randn(3)
    with pytest.warns(UserWarning, match="mode='reduce-overhead' changes nothing with the zenith backend"):
        fast = torch.compile(torch.sin, backend="zenith", mode="reduce-overhead")
        torch.testing.assert_close(fast(x), x.sin())
    torch.testing.assert_close(fast(x.double()), x.double().sin())  # once, however often it is compiled


def test_options_of_torchinductor_are_noted():
    """With Zenith's own next to them, which count; what neither has is an error."""
    x = torch.randn(3)
    options = {"triton.cudagraphs": True, "max-autotune": True, "backend": "reference"}
    with pytest.warns(UserWarning, match=r"options max-autotune, triton\.cudagraphs are TorchInductor's"):
        torch.testing.assert_close(torch.compile(torch.cos, backend="zenith", options=options)(x), x.cos())
    with pytest.warns(UserWarning, match="options max_autotune are"), pytest.raises(Exception, match="option speed"):
        torch.compile(torch.sin, backend="zenith", options={"max_autotune": True, "speed": 11})(x)
