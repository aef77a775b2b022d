"""``torch.compile(model, backend="zenith")``: what it computes is what PyTorch computes, whatever the model does."""

import copy
import gc
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.utils.checkpoint import checkpoint

import zenith
from benchmarks.workloads.products import LENGTHS
from zenith.errors import FallbackWarning

TOLERANCE = {"rtol": 2e-5, "atol": 2e-6}


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def compiled(model, dynamic=None, **options):
    return torch.compile(model, backend="zenith", dynamic=dynamic, options=options or {"fallback": "error"})


def assert_same(found, wanted):
    torch.testing.assert_close(found, wanted, **TOLERANCE)


def assert_trains(model, *inputs, dynamic=None, steps=2):
    """Losses, gradients, statistics and parameters of some steps are those without a compiler."""
    other = copy.deepcopy(model)
    fast = compiled(other, dynamic)
    losses = []
    for one, call in ((model, model), (other, fast)):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
        torch.manual_seed(1)
        losses.append([])
        for _ in range(steps):
            optimizer.zero_grad()
            loss = call(*inputs).square().mean()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.detach())
    assert_same(losses[1], losses[0])
    assert_same(dict(other.state_dict()), dict(model.state_dict()))
    assert_same([p.grad for p in other.parameters()], [p.grad for p in model.parameters()])


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(72, 4),
    )  # fmt: skip


def test_found_by_its_name_without_an_import():
    source = "import sys, torch._dynamo as d; assert 'zenith' in d.list_backends(); assert 'zenith' not in sys.modules"
    subprocess.run([sys.executable, "-c", source], check=True)


@pytest.mark.thorough
@pytest.mark.parametrize("dynamic", [False, True])
def test_training_with_statistics_and_dropout(dynamic):
    """Running statistics are written, and dropout draws what PyTorch draws."""
    assert_trains(convolutional(), torch.randn(4, 3, 8, 8), dynamic=dynamic)


@pytest.mark.parametrize("groups", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_residuals_of_convolutions_are_saved_in_their_layout(groups):
    """Neither pass transposes an array for the sake of the other."""
    first, second = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 32, 3, groups=groups)
    model = nn.Sequential(first, nn.BatchNorm2d(32), nn.ReLU(), second, nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    x = torch.randn(2, 3, 9, 9)
    saved = [t.shape for t in compiled(copy.deepcopy(model))(x).grad_fn.saved_tensors]
    assert [shape for shape in saved if len(shape) == 4 and shape[0] == len(x)] == [x.shape]
    assert torch.Size((2, 1, 1, 7, 7, 32)) in saved
    assert_trains(model, x)


@pytest.mark.thorough
@pytest.mark.parametrize("dynamic", [False, True])
def test_transformer(dynamic):
    assert_trains(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(3, 5, 16), dynamic=dynamic)


def test_weights_of_a_norm():
    """Directions and lengths are parameters, and the weight follows."""
    norm = nn.utils.parametrizations.weight_norm
    layers = nn.Sequential(norm(nn.Conv1d(4, 6, 3), dim=2), nn.Tanh(), norm(nn.Conv1d(6, 2, 3)))
    assert_trains(layers, torch.randn(3, 4, 9))


def test_draws_are_those_without_a_compiler():
    drop = nn.Dropout(0.4)
    fast, x = compiled(drop), torch.ones(5, 7)
    for shape in ((5, 7), (7, 5)):
        x = torch.randn(shape)
        torch.manual_seed(3)
        wanted = [drop(x), torch.rand(2)]
        torch.manual_seed(3)
        found = [fast(x), torch.rand(2)]
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("axes", [3, 4])
def test_dropout_after_a_norm_of_a_view(axes):
    """It drops in the order of memory, which the norm of a transposed tensor has anew."""
    model = nn.Sequential((nn.BatchNorm1d if axes == 3 else nn.BatchNorm2d)(5), nn.Dropout(0.5))
    fast, x = compiled(model), torch.randn(5, 4, 3, 2)[..., : axes - 2].squeeze(-1).transpose(0, 1)
    torch.manual_seed(3)
    wanted = model(x)
    torch.manual_seed(3)
    found = fast(x)
    assert_same(found, wanted)
    assert found.stride() == wanted.stride()


def test_noise():
    def noisy(x):
        return x + torch.randn_like(x) * torch.rand(x.shape[0], 1) + torch.bernoulli(torch.full_like(x, 0.3))

    fast, x = compiled(noisy), torch.zeros(4, 6)
    torch.manual_seed(5)
    wanted = noisy(x)
    torch.manual_seed(5)
    assert_same(fast(x), wanted)


def test_one_graph_serves_every_size():
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
    fast = compiled(model, dynamic=True)
    with torch.no_grad():
        for rows in (4, 7, 2, 31):
            x = torch.randn(rows, 6)
            assert_same(fast(x), model(x))
    (graph,) = zenith.torch.graphs()
    assert graph.calls == 4 and graph.cache_info().misses == 1


LONG = pytest.mark.thorough
MODES = [(None, 2, True), pytest.param(True, 1, True, marks=LONG), pytest.param(None, 2, False, marks=LONG)]


@pytest.mark.parametrize(("dynamic", "graphs", "trains"), MODES)
def test_sequences_of_fifty_lengths(dynamic, graphs, trains):
    """W12: no more programs than TorchDynamo makes graphs for any backend, each in training with a backward pass."""
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))
    inputs = [torch.randn(3, length, 16) for length in LENGTHS]
    counter = CompileCounter()
    with torch.set_grad_enabled(trains):
        other = torch.compile(model, backend=counter, dynamic=dynamic)
        for x in inputs:
            other(x)
        torch.compiler.reset()
        fast = compiled(model, dynamic)
        for x in inputs:
            found, wanted = fast(x), model(x)
            assert_same(found, wanted)
            if trains:
                assert_same(*(torch.autograd.grad(y.square().mean(), model[0].weight) for y in (found, wanted)))
    made = zenith.torch.graphs()
    assert counter.frame_count == graphs
    assert sum(graph.cache_info().misses for graph in made) == len(made) == graphs * (2 if trains else 1)


def test_sequences_of_fifty_lengths_imported():
    """W12: through from_torch it is one program."""
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))
    fast = zenith.from_torch(model, (torch.randn(3, 5, 16),))
    with torch.no_grad():
        for length in LENGTHS:
            x = torch.randn(3, length, 16)
            assert_same(fast(x), model(x))
    assert fast.cache_info().misses == 1


def test_sizes_zero_and_one():
    model = nn.Linear(3, 2)
    fast = compiled(model)
    for rows in (0, 1, 2):
        x = torch.randn(rows, 3)
        assert_same(fast(x), model(x))


def test_sizes_as_results_and_arguments():
    def flat(x, n):
        return x.reshape(-1, n) * x.shape[0], x.shape[1] * 2

    fast = compiled(flat, dynamic=True)
    for rows, n in ((4, 3), (6, 2), (5, 6)):
        x = torch.randn(rows, 6)
        (found, size), (wanted, other) = fast(x, n), flat(x, n)
        assert_same(found, wanted)
        assert size == other


def test_sizes_of_three_terms():
    """PyTorch writes their sum as a function of its own."""

    def f(x):
        y = nn.functional.avg_pool1d(x, 3, 2)
        z = torch.cat([y, y[..., :1], x], -1)
        return z + torch.arange(z.shape[-1]), z.shape[-1] - 1

    fast = compiled(f, dynamic=True)
    for length in (11, 8):
        x = torch.randn(2, 3, length)
        (found, size), (wanted, other) = fast(x), f(x)
        assert_same(found, wanted)
        assert size == other
    assert any(node.target is torch.sym_sum for node in zenith.torch.graphs()[0]._graph.nodes)


def test_negative_numbers_in_sizes():
    """A border of negative width, and a stride, are numbers that sizes are computed from."""

    def f(x, width):
        y = nn.functional.pad(x, (width, 5, 0, 0), mode="replicate")
        return y, nn.functional.pad(y[:0, 0], (1, 2), mode="circular"), torch.arange(y.shape[-1]) * width

    fast, model = compiled(f, dynamic=True), f
    for width, length in ((-4, 6), (-2, 6), (-4, 7)):
        x = torch.randn(5, 3, 4, length)
        one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
        found, wanted = fast(one, width), model(two, width)
        assert_same(found, wanted)
        assert_same(*(torch.autograd.grad(r[0].square().sum(), t) for r, t in ((found, one), (wanted, two))))
    assert sum(graph.cache_info().misses for graph in zenith.torch.graphs()) == 2


def test_other_layouts():
    """Transposed, strided, broadcast and channels-last tensors, as arguments and results."""

    def f(x, y):
        z = x @ y
        return z.t(), z.relu().t().contiguous(), z.unsqueeze(0).expand(3, -1, -1)

    fast = compiled(f)
    x, y = torch.randn(5, 4).t(), torch.randn(10, 6)[::2]
    for a, b in zip(fast(x, y), f(x, y), strict=True):
        assert_same(a, b)
        assert a.stride() == b.stride()
    assert_same(fast(torch.randn(5, 1).expand(5, 4).t(), y)[0].shape, f(x, y)[0].shape)
    conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    image = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    found, wanted = compiled(conv)(image), conv(image)
    assert_same(found, wanted)
    assert found.stride() == wanted.stride()


def test_writes_into_arguments():
    def f(x, y):
        x.add_(y)
        x[0] *= 2
        return x.sum(), x[1:]

    fast = compiled(f)
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    other = x.clone()
    (found, view), (wanted, expected_view) = fast(x, y), f(other, y)
    assert_same(x, other)
    assert_same(found, wanted)
    assert_same(view, expected_view)
    view.zero_()
    assert not x[1:].any()  # a view of the argument, as without a compiler


def test_a_cache_that_is_written():
    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.zeros(8, 3))

        def forward(self, x, at):
            self.cache.index_copy_(0, at, x)
            return self.cache.cumsum(0)

    model = Cached()
    other = copy.deepcopy(model)
    fast = compiled(other)
    with torch.no_grad():
        for position in range(3):
            x, at = torch.randn(1, 3), torch.tensor([position])
            assert_same(fast(x, at), model(x, at))
    assert_same(other.cache, model.cache)


def test_results_that_share_memory():
    def f(x):
        y = x * 2
        return y, y, y.view(-1), x, x.t()

    x = torch.randn(3, 4)
    first, second, flat, given, transposed = compiled(f)(x)
    assert first.data_ptr() == second.data_ptr() == flat.data_ptr()
    assert given is x or given.data_ptr() == x.data_ptr()
    assert transposed.data_ptr() == x.data_ptr()


def test_gradients_of_arguments_accumulation_and_hooks():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    other = copy.deepcopy(model)
    seen = []
    other[0].weight.register_hook(lambda grad: seen.append(grad.norm()))
    fast = compiled(other)
    x = torch.randn(3, 4)
    one, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    for _ in range(3):
        model(one).sum().backward()
        fast(two).sum().backward()
    assert_same(two.grad, one.grad)
    assert_same([p.grad for p in other.parameters()], [p.grad for p in model.parameters()])
    assert len(seen) == 3


def test_tied_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(torch.tanh(self.embedding(tokens)))

    assert_trains(Tied(), torch.randint(0, 11, (3, 4)))


def test_checkpointing():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 4))

        def forward(self, x):
            return checkpoint(self.inner, checkpoint(self.inner, x, use_reentrant=False), use_reentrant=False)

    assert_trains(Twice(), torch.randn(5, 4))


@pytest.mark.parametrize("seed", range(4))
def test_losses_whose_decomposition_gives_other_values(seed):
    torch.manual_seed(seed)
    x, labels = torch.randn(1, 4, requires_grad=True), torch.tensor([[3, 0, -1, 1]])
    margin = nn.functional.multi_margin_loss
    for loss in (nn.functional.multilabel_margin_loss, lambda x, labels: margin(x, labels[0, :1])):
        found, expected = torch.compile(loss, backend="zenith")(x, labels), loss(x, labels)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(*(torch.autograd.grad(y, x) for y in (found, expected)))


def test_autocast():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.LayerNorm(4))
    fast, x = compiled(model), torch.randn(6, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, wanted = fast(x), model(x)
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)


def test_train_and_eval_and_inference_mode():
    model = convolutional()
    fast, x = compiled(model), torch.randn(4, 3, 8, 8)
    for train in (True, False, True):
        model.train(train)
        other = copy.deepcopy(model)
        torch.manual_seed(2)
        wanted = other(x)
        torch.manual_seed(2)
        assert_same(fast(x), wanted)
    model.eval()
    with torch.inference_mode():
        found = fast(x)
        assert_same(found, model(x))
        assert found.is_inference()


@pytest.mark.parametrize("fused", [False, True])
def test_a_changed_parameter_is_packed_again(fused):
    """PyTorch does not count what one kernel writes to all parameters."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    fast, x = compiled(model), torch.randn(33, 64)

    def look():
        with torch.no_grad():
            assert_same(fast(x), model(x))

    look()
    look()
    (graph,) = zenith.torch.graphs()
    assert graph.cache_info().repacked == 0
    model(x).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1, fused=fused).step()
    look()
    assert graph.cache_info().repacked == 4
    model.load_state_dict({name: torch.randn_like(t) for name, t in model.state_dict().items()})
    look()
    assert graph.cache_info().repacked == 8 and graph.cache_info().misses == 1


def test_instances_share_a_graph_and_are_let_go():
    layers = [nn.Linear(5, 5) for _ in range(3)]

    @torch.compile(backend="zenith", options={"fallback": "error"})
    def apply(layer, x):
        return torch.tanh(layer(x))

    x = torch.randn(4, 5)
    with torch.no_grad():
        for layer in (*layers, *layers):
            assert_same(apply(layer, x), torch.tanh(layer(x)))
    (graph,) = zenith.torch.graphs()
    assert graph.cache_info().size == 3
    del layer
    layers.pop()
    gc.collect()
    assert graph.cache_info().size == 2


def test_steps_of_pytorch_are_named():
    def f(x):
        return torch.special.zeta(x.abs() + 2, torch.ones(())) * 2

    x = torch.randn(5)
    with pytest.warns(FallbackWarning, match=r"aten.special_zeta.*computed by PyTorch.*test_dynamo.py"):
        assert_same(torch.compile(f, backend="zenith")(x), f(x))
    ((operator, times, _, why, where),) = zenith.torch.explain().steps
    assert operator == "aten.special_zeta.default" and times == 1 and "no rule" in why and "torch.special.zeta" in where
    assert "aten.special_zeta" in str(zenith.torch.explain()).replace("\n", "")
    with pytest.raises(Exception, match=r"aten.special_zeta.default: Zenith has no rule for it"):
        compiled(lambda x: f(x) + 1)(x)


def test_graph_breaks_and_recompilations_are_listed():
    def f(x):
        y = x * 2
        print(end="")
        torch._dynamo.graph_break()
        return y + 1

    fast = compiled(f)
    fast(torch.ones(3))
    fast(torch.ones(3, 3))
    report = zenith.torch.explain()
    assert any("graph_break" in why or "print" in why for why, _ in report.breaks)
    assert report.recompilations
    assert all("test_dynamo.py" in where for _, where in report.breaks)


def test_options():
    x = torch.ones(3)
    for options, message in (
        ({"fallback": "never"}, "choose"),
        ({"speed": 11}, "no option speed"),
        ({"backend": "tpu"}, "no backend 'tpu'"),
    ):
        torch.compiler.reset()
        with pytest.raises(Exception, match=message):
            torch.compile(lambda x: x + 1, backend="zenith", options=options)(x)
    with pytest.raises(Exception, match="no mode"):
        torch.compile(lambda x: x + 1, backend="zenith", mode="fastest")(x)
    torch.compiler.reset()
    with pytest.warns(UserWarning, match="mode='max-autotune' changes nothing"):
        assert_same(torch.compile(lambda x: x + 1, backend="zenith", mode="max-autotune")(x), x + 1)
    for backend in ("reference", "lanes"):
        torch.compiler.reset()
        assert_same(
            torch.compile(lambda x: x.exp() + 1, backend="zenith", options={"backend": backend})(x), x.exp() + 1
        )
