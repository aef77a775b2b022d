"""What a module asks about gradients while it is exported, and what of its arguments differs from the example."""

import pytest
import torch
from torch import nn

import zenith
from zenith.errors import FallbackWarning, UnsupportedError

X = torch.arange(8.0).reshape(2, 4) / 7


class Asking(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x) if torch.is_grad_enabled() else self.layer(x) * 10
        return y * 100 if torch.is_inference_mode_enabled() else y


def recording():
    return torch.enable_grad()


@pytest.mark.parametrize("first", [recording, torch.no_grad])
@pytest.mark.parametrize("example", [True, False])
def test_whether_gradients_are_recorded_is_a_state_of_the_call(first, example):
    module = Asking()
    compiled = zenith.from_torch(module, (X,)) if example else zenith.from_torch(module)
    for mode in (first, recording, torch.no_grad, torch.inference_mode, recording, torch.no_grad):
        with mode():
            torch.testing.assert_close(compiled(X), module(X))
    compiled(X).sum().backward()
    module.eval().requires_grad_(False)
    for mode in (torch.no_grad, recording):
        with mode():
            torch.testing.assert_close(compiled(X), module(X))


@pytest.mark.parametrize("ask", [lambda m, x: x.requires_grad, lambda m, x: m.layer.weight.requires_grad])
def test_whether_a_tensor_requires_a_gradient_is_refused(ask):
    class Module(Asking):
        def forward(self, x):
            return self.layer(x) if ask(self, x) else x

    with pytest.raises(UnsupportedError, match="requires a gradient"):
        zenith.from_torch(Module())(X)


def test_an_axis_of_size_1_that_is_expanded_is_no_argument_that_is_written():
    class Expanding(nn.Module):
        def forward(self, x):
            return x.expand(3, -1).contiguous().mul_(2)

    torch.testing.assert_close(zenith.from_torch(Expanding())(torch.ones(1, 4)), torch.full((3, 4), 2.0))


def test_views_of_bases_of_several_sizes():
    def function(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    compiled = torch.compile(function, backend="zenith")
    for size in (8, 9):
        base, own = torch.ones(size, 4), torch.ones(size, 4)
        expected = function(base[:3], base[2:5])
        if size == 8:
            found = compiled(own[:3], own[2:5])
        else:
            with pytest.warns(FallbackWarning, match="another size"):
                found = compiled(own[:3], own[2:5])
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(own, base)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "function", [lambda a: a % 3.3, lambda a: torch.fmod(a, 3.3), lambda a: torch.remainder(3.3, a)]
)
def test_remainders_of_16_bits_by_numbers(function, dtype):
    x = (torch.arange(-500, 500) / 7 + 0.01).to(dtype)
    assert torch.equal(torch.compile(function, backend="zenith")(x), function(x))
