"""Sizes that a module computes by way of floats: one program of ``from_torch`` serves them all."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import zenith
from tests.eject.alone import run
from zenith.api.binding import Binding, SourceGuard
from zenith.backends.codec import decode, encode
from zenith.errors import ZenithError


class Cut(nn.Module):
    """Three quarters of the rows, scaled by the root of their number."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        n = x.shape[1]
        return self.layer(x[:, : int(n * 0.75)]) / math.sqrt(n) + n / 3 - n**-0.5


def test_one_program_in_inference_in_training_and_from_files(tmp_path):
    torch.manual_seed(0)
    module = Cut()
    fast, inputs = zenith.from_torch(module, (torch.randn(3, 8, 4),)), [torch.randn(3, n, 4) for n in (8, 12, 21)]
    with torch.no_grad():
        wanted = [module(x) for x in inputs]
        torch.testing.assert_close([fast(x) for x in inputs], wanted)
        assert fast.cache_info().misses == 1
        fast.save(tmp_path / "cut.zenith")
        loaded = zenith.load(tmp_path / "cut.zenith")
        torch.testing.assert_close([loaded(x) for x in inputs], wanted)
        fast.eject(tmp_path / "Cut.py")
    found = run(tmp_path, [("cut", f"{tmp_path}/Cut.py", [((x.numpy(),), {}) for x in inputs])])["cut"]
    for (one,), other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for x in inputs:
        x.requires_grad_()
        fast(x).square().sum().backward()
        found, x.grad = x.grad, None
        module(x).square().sum().backward()
        torch.testing.assert_close(found, x.grad)
    assert fast.autograd.forward.cache_info().misses == fast.autograd.backward.cache_info().misses == 1


class Leaf:
    """The attributes of an array that a binding reads."""

    def __init__(self, *shape):
        self.shape = shape


def test_definitions_in_a_binding():
    """They are computed in order, and are none where there is no such number, or a negative one."""
    definitions = (("half", "int((n - 4) / 2)"), ("bits", "math.ceil(math.log2(half))"))
    binding = Binding(((0, ("n",)),), (SourceGuard("bits < 9", False),), ("n", "bits"), definitions)
    assert binding.function([Leaf(20)]) == {"n": 20, "bits": 3}
    assert decode(encode(binding), Binding).function([Leaf(20)]) == {"n": 20, "bits": 3}
    assert binding.sizes([Leaf(20)]) == {"n": 20, "half": 8, "bits": 3}
    for n, why in ((4, "math.ceil(math.log2(half)) >= 0"), (1, "int((n - 4) / 2) >= 0"), (5000, "bits < 9")):
        assert binding.function([Leaf(n)]) is None
        assert binding.first_false([Leaf(n)]).source == why


def test_functions_of_math_are_restored():
    own = math.sqrt
    with pytest.raises(ZenithError):
        zenith.from_torch(Failing(), (torch.randn(3),))
    assert math.sqrt is own and math.sqrt(4) == 2


def test_images_resized_by_a_factor():
    """Which has no short binary form: the sizes are those of Python's arithmetic."""

    @zenith.jit
    def larger(x):
        return zenith.nn.interpolate(x, scale_factor=1.7)

    for n in (8, 10, 21):
        x = torch.randn(1, 2, n)
        torch.testing.assert_close(larger(x), nn.functional.interpolate(x, scale_factor=1.7))
    assert larger.cache_info().misses == 1


class Failing(nn.Module):
    def forward(self, x):
        raise RuntimeError(f"no such size: {math.sqrt(x.shape[0])}")
