"""Training through ``from_torch``: gradients, statistics and draws are those of the module itself, step by step."""

import copy
import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from zenith.errors import UnsupportedError, ZenithError

TIGHT = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(72, 4),
    )  # fmt: skip


def transformer():
    return nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), nn.Linear(16, 3))


def pair(module, *inputs, **options):
    """A module, a copy of it, and the copy compiled."""
    other = copy.deepcopy(module)
    return module, other, zenith.from_torch(other, inputs, **options)


def assert_same_state(one, other, **tolerance):
    torch.testing.assert_close(dict(other.state_dict()), dict(one.state_dict()), **tolerance)
    for (name, p), q in zip(one.named_parameters(), other.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None), name
    gradients = [[p.grad for p in m.parameters() if p.grad is not None] for m in (other, one)]
    torch.testing.assert_close(*gradients, **tolerance)


def train(module, call, optimizer, batches):
    """Losses of some steps."""
    optimizer, losses = optimizer(module.parameters()), []
    torch.manual_seed(1)
    for x in batches:
        optimizer.zero_grad()
        y = call(x)
        loss = (y * torch.cos(torch.arange(y.numel(), dtype=y.dtype)).reshape(y.shape)).sum() + y.square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 1e-2, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 1e-3),
}


@pytest.mark.parametrize(("make", "shape", "optimizer"), [
    (convolutional, (3, 8, 8), "sgd"),
    (transformer, (5, 16), "adamw"),
    pytest.param(convolutional, (3, 8, 8), "adamw", marks=pytest.mark.thorough),
    pytest.param(transformer, (5, 16), "sgd", marks=pytest.mark.thorough),
])  # fmt: skip
def test_ten_steps_in_float64(make, shape, optimizer):
    """Statistics are written, dropout draws what PyTorch draws, and weights are those of the last step."""
    module, other, fast = pair(make().double(), torch.zeros(2, *shape, dtype=torch.float64), backend="reference")
    batches = [torch.randn(2 + n % 3, *shape, dtype=torch.float64) for n in range(10)]
    losses = [train(m, call, OPTIMIZERS[optimizer], batches) for m, call in ((module, module), (other, fast))]
    torch.testing.assert_close(*reversed(losses), **TIGHT)
    assert_same_state(module, other, rtol=1e-9, atol=1e-9)  # gradients that are zero but for rounding move Adam
    assert [program.cache_info().misses for program in (fast.autograd.forward, fast.autograd.backward)] == [1, 1]
    for m in (module, fast):
        m.eval()
    with torch.no_grad():
        torch.testing.assert_close(fast(batches[0]), module(batches[0]), **TIGHT)


def test_compiled_steps_for_every_size():
    module, other, fast = pair(convolutional(), torch.zeros(2, 3, 8, 8))
    batches = [torch.randn(n, 3, 8, 8) for n in (4, 7, 2, 33, 5)]
    losses = [train(m, call, OPTIMIZERS["sgd"], batches) for m, call in ((module, module), (other, fast))]
    torch.testing.assert_close(*reversed(losses), rtol=1e-4, atol=1e-5)
    assert_same_state(module, other, rtol=1e-3, atol=1e-4)
    assert [program.cache_info().misses for program in (fast.autograd.forward, fast.autograd.backward)] == [1, 1]
    assert "saved" in str(fast.autograd.forward.explain()) and "conv_weights" in fast.autograd.backward.show()


class Residual(nn.Module):
    """Convolutions, of groups, too, with norms, and a residual connection."""

    def __init__(self, channels, groups):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, groups=groups)
        self.head = nn.Linear(channels, 4)

    def forward(self, x):
        y = self.norm(self.first(x)).relu()
        return self.head((self.second(y) + y).relu().mean((2, 3)))


HALVES = {(1, 1, 32), (2, 1, 16)}  # groups, blocks, channels of a block


@pytest.mark.parametrize(("channels", "groups", "layouts", "backend"), [
    (32, 2, HALVES, "reference"), (17, 1, {(1, 1, 17)}, "reference"),
    *(pytest.param(*case, None, marks=pytest.mark.thorough) for case in (
        (32, 1, {(1, 1, 32)}), (32, 2, HALVES), (32, 32, {(1, 1, 32)}), (17, 1, {(1, 1, 17)}),
    )),
])  # fmt: skip
def test_residuals_of_convolutions_are_saved_in_their_layout(channels, groups, layouts, backend):
    """Neither pass transposes an array for the sake of the other."""
    module, other, fast = pair(Residual(channels, groups).double(), torch.zeros(2, 3, 6, 6, dtype=torch.float64),
                               backend=backend)  # fmt: skip
    batches = [torch.randn(n, 3, 6, 6, dtype=torch.float64) for n in (2, 5, 1)]
    losses = [train(m, call, OPTIMIZERS["sgd"], batches) for m, call in ((module, module), (other, fast))]
    torch.testing.assert_close(*reversed(losses), **TIGHT)
    assert_same_state(module, other, **TIGHT)
    saved = [t.shape for t in fast(batches[0]).grad_fn.saved_tensors if t.ndim > 3 and len(t) == 2]
    made = [shape for shape in saved if shape[1] != 3]
    assert len(made) >= 3, "norm, masks and what a convolution reads"
    assert {(*shape[1:3], shape[-1]) for shape in made} == layouts


class Everything(nn.Module):
    """Everything in a module's code that gradients depend on."""

    def __init__(self):
        super().__init__()
        self.linear, self.unused, self.frozen = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.frozen.requires_grad_(False)
        self.register_buffer("average", torch.ones(3))
        self.register_buffer("counted", torch.zeros((), dtype=torch.int64))

    def forward(self, x, *, also=None):
        with torch.no_grad():
            y = x.sin() * self.linear.bias.sum()
            with torch.enable_grad():
                y = y * self.linear.bias.mean()
            shifted = x + y
            self.average.mul_(0.9).add_(0.1 * self.linear(x).mean(0))
            self.counted += 1
        u, w = self.linear(shifted), self.linear(x * 2)
        z = w.detach_()
        result = {"sum": u + u.detach() * y + torch.scalar_tensor(3.0).add_(u.sum()), "order": x.argsort(1)}
        return result, (z + w + self.average * self.frozen(u), x.shape[0], None if also is None else also * u)


def test_what_gradients_flow_through():
    """``no_grad``, ``detach``, buffers written meanwhile, frozen and unused weights, sizes and integers as results."""
    module, other, fast = pair(Everything(), torch.zeros(2, 3), backend="reference")
    for n in (2, 5, 1):
        x, also = torch.randn(2, n, 3)
        inputs = []
        for one in (module, fast):
            inputs.append([x.clone().requires_grad_(), also.clone().requires_grad_()])
            found, (rest, size, product) = one(inputs[-1][0], also=inputs[-1][1])
            assert size == n and not found["order"].requires_grad
            (found["sum"].cos().sum() + rest.sin().sum() + product.sum()).backward()
        torch.testing.assert_close([t.grad for t in inputs[1]], [t.grad for t in inputs[0]])
        assert_same_state(module, other)
    assert other.unused.weight.grad is None and other.counted == 3


@pytest.mark.thorough
def test_draws_are_those_without_a_compiler():
    class Noisy(nn.Module):
        def forward(self, x):
            y = F.dropout2d(x, 0.2) + F.alpha_dropout(x, 0.2, True) * F.feature_alpha_dropout(x, 0.2, True)
            y = y * torch.randn_like(x) * torch.bernoulli(x.sigmoid()) + torch.rand(x.shape[0], 1, 1, 1)
            return F.scaled_dot_product_attention(y, y, y, dropout_p=0.3) * torch.normal(x, 1.0)

    module = Noisy()
    fast = zenith.from_torch(module, (torch.zeros(2, 3, 4, 4),), backend="reference")
    for shape in ((2, 3, 4, 4), (5, 2, 3, 1)):
        x, found = torch.randn(shape), []
        for one in (module, fast):
            given = x.clone().requires_grad_()
            torch.manual_seed(3)
            one(given).sum().backward()
            with torch.no_grad():
                found.append([given.grad, one(given), torch.rand(2)])
        torch.testing.assert_close(*found)


def test_gradients_of_arguments_alone_accumulate():
    module, _, fast = pair(nn.Sequential(nn.Linear(4, 5), nn.Tanh()).requires_grad_(False), torch.zeros(2, 4),
                           backend="reference")  # fmt: skip
    x = torch.randn(3, 4).requires_grad_()
    other = x.detach().clone().requires_grad_()
    for _ in range(2):
        module(x).sum().backward()  # its cotangent is expanded from one number
        fast(other).sum().backward()
    torch.testing.assert_close(other.grad, x.grad)


def test_complex_gradients():
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.z = nn.Parameter(torch.randn(3, dtype=torch.complex128))  # called like the argument

        def forward(self, z):
            return z * self.z * self.z.conj() + self.z.exp()

    module, other, fast = pair(Complex(), torch.zeros(2, 3, dtype=torch.complex128), backend="reference")
    z = torch.randn(2, 3, dtype=torch.complex128)
    for one in (module, fast):
        y = one(z)
        (y.real.sin() + y.imag.square() + y.abs()).sum().backward()
    assert_same_state(module, other, **TIGHT)


def test_modes_and_states_are_followed():
    module, other, fast = pair(convolutional(), torch.zeros(2, 3, 8, 8), backend="reference")
    x = torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        torch.manual_seed(2)
        expected = module(x)
        torch.manual_seed(2)
        torch.testing.assert_close(fast(x), expected)  # training mode without gradients
        assert_same_state(module, other)
        for m in (module, fast):
            m.eval()
        torch.testing.assert_close(fast(x), module(x))
        misses = fast.cache_info().misses
        state = {
            name: torch.randn_like(t).abs() if t.is_floating_point() else t for name, t in fast.state_dict().items()
        }
        for m in (module, fast):
            m.load_state_dict(state)
        torch.testing.assert_close(fast(x), module(x))
        assert fast.cache_info().misses == misses
    assert not fast.training and fast.train().training and other[1].training
    assert [*map(id, fast.parameters())] == [*map(id, other.parameters())]
    assert [n for n, _ in fast.named_parameters()] == [n for n, _ in other.named_parameters()]
    assert len([*fast.buffers()]) == 3
    fast(x).sum().backward()
    fast.zero_grad()
    assert other[0].weight.grad is None
    assert not fast.requires_grad_(False)(x).requires_grad


def test_residuals_may_not_be_written_to():
    fast = zenith.from_torch(nn.Linear(3, 2), (torch.zeros(2, 3),), backend="reference")
    x = torch.randn(4, 3).requires_grad_()
    y = fast(x)
    with torch.no_grad():
        fast.module.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(UnsupportedError, match=r"no second derivative(.|\n)*functional"):
        torch.autograd.grad(fast(x).sum(), x, create_graph=True)


def test_graphs_are_let_go():
    fast = zenith.from_torch(nn.Linear(3, 2), (torch.zeros(2, 3),), backend="reference")
    x = torch.randn(4, 3)
    fast(x).sum().backward()
    gc.collect()
    before = len([t for t in gc.get_objects() if type(t) is torch.Tensor])
    for _ in range(3):
        fast(x).sum().backward()
    gc.collect()
    assert len([t for t in gc.get_objects() if type(t) is torch.Tensor]) <= before


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, cotangent):
        return cotangent


class StraightThrough(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return Rounded.apply(self.linear(x))


def test_derivatives_of_a_modules_own():
    x = torch.randn(2, 3)
    with pytest.raises(UnsupportedError, match=r"Rounded defines a derivative(.|\n)*Rounded.apply(.|\n)*torch.compile"):
        zenith.from_torch(StraightThrough(), (x,))
    module = StraightThrough().eval()
    fast = zenith.from_torch(module, (x,), backend="reference")
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))
    with pytest.raises(UnsupportedError, match="Rounded defines a derivative"):
        fast(x)
    assert Rounded.apply(x).equal(x.round())


def test_refusals(tmp_path):
    fast = zenith.from_torch(nn.BatchNorm1d(3), (torch.zeros(2, 3),))
    with torch.no_grad():
        fast(torch.randn(4, 3))
    with pytest.raises(UnsupportedError, match=r"under torch.autocast(.|\n)*torch.compile"), torch.autocast("cpu"):
        fast(torch.randn(4, 3))
    with pytest.raises(UnsupportedError, match=r"writes to its buffers(.|\n)*eval"):
        fast.save(tmp_path / "norm.zenith")
    module = nn.Linear(3, 2)
    fast = zenith.from_torch(module, (torch.zeros(2, 3),), release_weights=True)
    with torch.no_grad():
        fast(torch.randn(4, 3))
    with pytest.raises(ZenithError, match="cannot be trained: its programs have released"):
        fast(torch.randn(4, 3))
