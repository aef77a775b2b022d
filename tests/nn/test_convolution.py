"""Convolutions against PyTorch: values and gradients, borders, groups, transposes, modules, layouts; refusals."""

import numpy as np
import pytest
import torch
from torch import nn as tnn
from torch.nn import functional as F

import zenith
from tests.nn.compare_torch import agree
from zenith import nn
from zenith.errors import ArgumentError, ShapeError
from zenith.passes.pipeline import run

CASES = {
    "line": ((2, 4, 9), (6, 4, 3), {"stride": 2, "padding": 1}),
    "plane": ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)}),
    "groups": ((1, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "padding": 1}),
    "by channels": ((2, 4, 6, 5), (4, 1, 3, 3), {"groups": 4, "stride": (1, 2), "padding": 1}),
    "more by channels": ((1, 3, 5, 4), (6, 1, 2, 2), {"groups": 3}),
    "space": ((1, 2, 4, 5, 3), (3, 2, 2, 1, 3), {"stride": (1, 2, 1), "padding": (1, 0, 1)}),
    "points": ((2, 5, 3, 4), (7, 5, 1, 1), {"stride": 2}),
    "same padding": ((1, 2, 6, 7), (3, 2, 4, 3), {"padding": "same", "dilation": (2, 1)}),
    "no example": ((0, 2, 5), (3, 2, 2), {}),
}
TRANSPOSED = {
    "line": ((2, 4, 5), (4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "plane": ((1, 4, 3, 4), (4, 3, 3, 2), {"stride": (2, 3), "padding": (1, 0), "dilation": (2, 1), "groups": 2}),
    "cut off": ((1, 2, 4, 4), (2, 3, 2, 2), {"padding": 2}),
}


def arrays(x, w, outputs):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in (x, w, (outputs,))]


# Programs of every case are compiled in `make fuzz`, and those of some in `make test`.
VARIANTS = [(lambda f: f, "at once", name) for name in CASES] + [(zenith.jit, "compiled", name) for name in CASES]
SAMPLED = ("plane", "by channels")


@pytest.mark.parametrize(("wrap", "name"), [
    pytest.param(wrap, name, marks=[pytest.mark.thorough] if how == "compiled" and name not in SAMPLED else [],
                 id=f"{name} {how}") for wrap, how, name in VARIANTS
])  # fmt: skip
def test_values_and_gradients(wrap, name):
    x, w, options = CASES[name]
    theirs = getattr(F, f"conv{len(x) - 2}d")
    agree(lambda *a: nn.conv(*a, **options), lambda *a: theirs(*a, **options), *arrays(x, w, w[0]), wrap=wrap)


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposes(name):
    x, w, options = TRANSPOSED[name]
    theirs = getattr(F, f"conv_transpose{len(x) - 2}d")
    given = arrays(x, w, w[1] * options.get("groups", 1))
    agree(lambda *a: nn.conv_transpose(*a, **options), lambda *a: theirs(*a, **options), *given)


def test_index_tables_are_as_long_as_a_convolution_is_deep():
    """The first of these convolutions of single pixels sums one block of channels, the last one two blocks."""
    module = tnn.Sequential(tnn.AdaptiveAvgPool2d(1), tnn.Conv2d(16, 4, 1), tnn.Conv2d(4, 32, 1), tnn.Conv2d(32, 4, 1))
    x = torch.randn(3, 16, 2, 2)
    with torch.no_grad():
        torch.testing.assert_close(zenith.from_torch(module, (x,))(x), module(x))


def test_integers_wrap_and_types_are_promoted():
    rng = np.random.default_rng(1)
    x, w = rng.integers(-99, 99, (1, 3, 6), np.int8), rng.integers(-99, 99, (2, 3, 3), np.int8)
    wide = nn.conv(x.astype(np.int64), w.astype(np.int64))
    found = zenith.jit(nn.conv)(x, w)
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, wide.astype(np.int8))
    assert nn.conv(x, w.astype(np.float32)).dtype == np.result_type(np.int8, np.float32)


def test_one_compilation_for_every_size():
    f = zenith.jit(lambda x, w: nn.conv(x, w, padding=1))
    rng = np.random.default_rng(2)
    w = rng.standard_normal((20, 18, 3, 3)).astype(np.float32)
    for shape in ((2, 18, 6, 7), (1, 18, 1, 1), (3, 18, 40, 5), (0, 18, 3, 3)):
        x = rng.standard_normal(shape).astype(np.float32)
        expected = F.conv2d(torch.from_numpy(x).double(), torch.from_numpy(w).double(), padding=1)
        np.testing.assert_allclose(f(x, w), expected, atol=3e-5)
    assert f.cache_info().misses == 1


class Block(tnn.Module):
    """A stem, a pooled stage, and a block with a shortcut, as residual networks have them."""

    def __init__(self):
        super().__init__()
        self.stem = tnn.Conv2d(3, 32, 3, 2, 1, bias=False)
        self.norm = tnn.BatchNorm2d(32)
        self.pool = tnn.MaxPool2d(3, 2, 1)
        self.narrow, self.middle, self.wide = tnn.Conv2d(32, 16, 1), tnn.Conv2d(16, 16, 3, 1, 1), tnn.Conv2d(16, 32, 1)
        self.by_channels = tnn.Conv2d(32, 32, 3, 1, 1, groups=32)
        self.head = tnn.Linear(32, 5)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.stem(x))))
        x = torch.relu(self.wide(torch.relu(self.middle(torch.relu(self.narrow(x))))) + x)
        x = torch.relu(self.by_channels(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


def test_a_network_changes_the_layout_at_its_ends_only():
    torch.manual_seed(0)
    module = Block().eval()
    module.norm.running_mean.normal_()
    sizes = torch.export.Dim.AUTO
    compiled = zenith.from_torch(module, (torch.randn(2, 3, 32, 30),), dynamic_shapes=({0: sizes, 2: sizes, 3: sizes},))
    for shape in ((2, 3, 32, 30), (1, 3, 21, 47)):
        x = torch.randn(shape)
        with torch.no_grad():
            found, eager = compiled(x), module(x)
            exact = module.double()(x.double())
            module.float()
        error, allowed = (float((r - exact).square().mean().sqrt()) for r in (found, eager))
        assert error <= 1.5 * allowed + 2**-24 * float(exact.abs().max())
    text = compiled.lower(torch.randn(1, 3, 21, 47)).compile().as_text("optimized")
    transposes = [line for line in text.splitlines() if " = transpose(" in line and "input0" in line.split("#")[-1]]
    assert len(transposes) <= 1, transposes  # the image; the result of the last stage is a mean
    assert text.count("conv_blocks(") == 4


def test_the_backward_pass_of_a_network_stays_in_the_layout():
    def loss(first, second, scale, x):
        x, *_ = nn.batch_norm_training(nn.conv(x, first, padding=1), None, None, scale, scale)
        x, *_ = nn.batch_norm_training(nn.conv(nn.relu(x), second, padding=1), None, None, scale, scale)
        return (nn.relu(x).mean(axis=(2, 3)) ** 2).sum()

    shapes = (32, 3, 3, 3), (32, 32, 3, 3), (32,), (2, 3, 6, 5)
    step = zenith.jit(zenith.grad(loss, argnums=(0, 1, 2)))
    graph = step.lower(*(np.ones(shape, np.float32) for shape in shapes)).graph
    found, _ = run(graph)
    images = graph.inputs[-1].shape[0]
    transposes = [t for n, node in every_node(found) if node.primitive.name == "transpose" for t in node.types]
    assert sum(images in t.shape for t in transposes) <= 1, transposes  # the image, whose three channels become a block


def every_node(graph):
    """The nodes of a graph and of the bodies of its groups."""
    for number, node in graph.nodes():
        yield number, node
        for body in node.bodies:
            yield from every_node(body)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: nn.conv(np.ones((1, 3, 5)), np.ones((2, 4, 2))), ShapeError, "4 channels"),
    (lambda: nn.conv(np.ones((1, 3, 5)), np.ones((2, 3, 6))), ShapeError, "does not fit"),
    (lambda: nn.conv(np.ones((3, 5)), np.ones((2, 3))), ShapeError, "no channels"),
    (lambda: nn.conv(np.ones((1, 4, 5)), np.ones((3, 2, 2)), groups=2), ShapeError, "do not divide"),
    (lambda: nn.conv(np.ones((1, 4, 5)), np.ones((3, 4, 2)), groups=0), ArgumentError, "groups"),
    (lambda: nn.conv(np.ones((1, 4, 5)), np.ones((3, 4, 2)), stride=0), ArgumentError, "stride"),
    (lambda: nn.conv(np.ones((1, 4, 5)), np.ones((3, 4, 2)), np.ones(4)), ShapeError, "bias"),
    (lambda: nn.conv(np.ones((1, 4, 5)), np.ones((3, 4, 2)), stride=2, padding="same"), ArgumentError, "same"),
    (lambda: nn.conv_transpose(np.ones((1, 4, 1)), np.ones((4, 2, 2)), padding=2), ShapeError, "leaves nothing"),
])  # fmt: skip
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
