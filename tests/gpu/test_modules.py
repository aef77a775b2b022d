"""Modules of PyTorch on a GPU, and a step of training, against float64: no further from it than half as far again."""

import copy

import numpy as np
import pytest

import zenith
from tests.classifier import cross_entropy

torch = pytest.importorskip("torch")
nn = torch.nn
SIZES = ((4, 32), (1, 32), (3, 17), (2, 128), (4, 1))


class Block(nn.Module):
    """A layer of an encoder as BERT has it: attention and a perceptron, each with its residual and layer norm."""

    def __init__(self, width, heads, middle):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, middle), nn.GELU(), nn.Linear(middle, width))

    def forward(self, x):
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.inner(x))


def perceptron():
    layers = [nn.Linear(512, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64)]
    return nn.Sequential(*layers), 512


def encoder(width, heads, middle, layers=2):
    return nn.Sequential(*(Block(width, heads, middle) for _ in range(layers))), width


MODULES = {
    "MLP": perceptron,
    "BERT-base": lambda: encoder(768, 12, 3072),
    "MiniLM": lambda: encoder(384, 12, 1536),
}


def rmse(found, exact):
    return (found.double() - exact).square().mean().sqrt().item()


def close(found, plain, exact):
    assert found.shape == exact.shape and found.dtype == plain.dtype
    assert rmse(found, exact) <= 1.5 * rmse(plain, exact) + 2**-22 * exact.abs().max().item()


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_as_close_to_float64_as_torch(cuda_torch, name):
    torch.manual_seed(0)
    module, width = MODULES[name]()
    module = module.cuda().eval()
    exact = copy.deepcopy(module).double()
    with torch.no_grad():
        fast = zenith.from_torch(module, (torch.randn(2, 9, width, device="cuda"),))
        for batch, length in SIZES:
            x = torch.randn(batch, length, width, device="cuda")
            found = fast(x)
            zenith.synchronize()
            assert found.is_cuda
            close(found, module(x), exact(x.double()))


def test_changed_weights_are_followed(cuda_torch):
    torch.manual_seed(0)
    module, width = perceptron()
    module = module.cuda().eval()
    x = torch.randn(8, width, device="cuda")
    with torch.no_grad():
        fast = zenith.from_torch(module, (x,))
        fast(x)
        for parameter in module.parameters():
            parameter.mul_(1.5)
        close(fast(x), module(x), copy.deepcopy(module).double()(x.double()))
        assert fast.cache_info().misses == 1


def test_gradients_of_a_module(cuda_torch):
    torch.manual_seed(0)
    module, width = encoder(64, 4, 128)
    module = module.cuda()
    fast = zenith.from_torch(module, (torch.randn(2, 9, width, device="cuda"),))
    for shape in ((2, 9), (5, 17)):
        x, found = torch.randn(*shape, width, device="cuda"), []
        exact = copy.deepcopy(module).double()
        for one, call, given in ((module, fast, x), (module, module, x), (exact, exact, x.double())):
            one.zero_grad()
            (call(given) * torch.arange(width, device="cuda").cos()).sum().backward()
            found.append([p.grad for p in one.parameters()])
        for ours, plain, right in zip(*found, strict=True):
            close(ours, plain, right)
    assert fast.autograd.backward.cache_info().misses == 1


class Drawing(nn.Module):
    """Draws of several operators, one after the other."""

    def forward(self, x):
        noise = torch.rand_like(x)
        dropped = nn.functional.dropout(torch.tanh(x), 0.25, self.training)
        return dropped * 2 + noise, torch.bernoulli(torch.sigmoid(x)), torch.randn(3, device=x.device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("own_stream", [False, True])
def test_draws_come_from_the_generator_of_the_gpu(cuda_torch, dtype, own_stream):
    """The numbers are eager's, the host's generator is left alone, and the next draw is eager's too."""
    module, x = Drawing().train(), torch.randn(33, 129, device="cuda").to(dtype)
    fast, found = torch.compile(module, backend="zenith"), []
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    stream.wait_stream(torch.cuda.current_stream())
    for call in (fast, fast, module):
        torch.manual_seed(7)
        host = torch.get_rng_state()
        with torch.no_grad(), torch.cuda.stream(stream):
            found.append((*call(x), torch.rand(5, device="cuda")))
        stream.synchronize()
        assert torch.equal(torch.get_rng_state(), host)
    for results in found[:2]:
        torch.testing.assert_close(results, found[2])
        assert all(torch.equal(a, b) for a, b in zip(results[1:], found[2][1:], strict=True))


def test_training_with_dropout_is_eagers(cuda_torch):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.3), nn.Linear(128, 8)).cuda()
    x, found = torch.randn(16, 64, device="cuda"), []
    for call in (torch.compile(module, backend="zenith"), module):
        module.zero_grad()
        torch.manual_seed(3)
        call(x).square().sum().backward()
        found.append([p.grad.clone() for p in module.parameters()])
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


def test_operators_without_a_rule_run_on_the_gpu(cuda_torch):
    fast = torch.compile(lambda x: torch.special.bessel_j0(torch.exp(x)) + 1, backend="zenith")
    x = torch.rand(100, device="cuda")
    with pytest.warns(zenith.errors.FallbackWarning), torch.no_grad():
        torch.testing.assert_close(fast(x), torch.special.bessel_j0(torch.exp(x)) + 1)


def test_a_step_of_training(real, rng):
    """Three steps of AdamW on the GPU against the same in the interpreter in float64."""
    optimizer = zenith.optim.adamw(1e-3)

    def step(weights, state, x, labels):
        value, gradient = zenith.value_and_grad(cross_entropy)(weights, x, labels)
        updates, state = optimizer.update(gradient, state, weights)
        return value, zenith.optim.apply_updates(weights, updates), state

    weights = [rng.standard_normal(s).astype(np.float32) / 16 for s in ((784, 256), (256,), (256, 10), (10,))]
    images, labels = rng.standard_normal((96, 784)).astype(np.float32), rng.integers(0, 10, 96)

    def run(backend, convert, weights):
        compiled, losses = zenith.jit(step, backend=backend), []
        leaves, structure = zenith.tree.flatten((weights, optimizer.init(weights)))
        weights, state = zenith.tree.unflatten(structure, map(convert, leaves))
        for begin in range(0, 96, 32):
            batch = (convert(a[begin : begin + 32]) for a in (images, labels))
            value, weights, state = compiled(weights, state, *batch)
            losses.append(float(value))
        return losses, weights

    def wide(a):
        return np.asarray(a, np.float64) if np.asarray(a).dtype.kind == "f" else a

    losses, found = run("cuda", real.asarray, weights)
    exact_losses, exact = run("reference", wide, weights)
    np.testing.assert_allclose(losses, exact_losses, rtol=1e-5)
    for f, e in zip(found, exact, strict=True):
        np.testing.assert_allclose(real.asnumpy(f), e, rtol=1e-4, atol=2e-5)
