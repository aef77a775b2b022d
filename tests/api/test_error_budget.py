"""The option error_budget: who has it, what it changes, and that a call without it computes as before."""

import numpy as np
import pytest
import torch

import zenith
from zenith import nn
from zenith.errors import ArgumentError

RNG = np.random.default_rng(0)
W = (RNG.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32)
X = RNG.standard_normal((1, 32, 18, 13)).astype(np.float32)


def layer(x):
    return nn.relu(nn.conv(x, W, padding=1))


@pytest.mark.thorough
def test_functions_modules_and_the_backend_of_torch_have_it():
    exact = torch.nn.functional.conv2d(*map(torch.from_numpy, (X.astype(np.float64), W.astype(np.float64))), padding=1)
    module = torch.nn.Conv2d(32, 32, 3, padding=1, bias=False).eval()
    module.weight.data = torch.from_numpy(W)
    x = torch.from_numpy(X)
    compiled = {budget: (
        zenith.jit(layer, error_budget=budget),
        zenith.from_torch(torch.nn.Sequential(module, torch.nn.ReLU()), (x,), error_budget=budget),
    ) for budget in (0.0, 1e-5)}  # fmt: skip
    for budget, functions in compiled.items():
        for function, argument in zip(functions, (X, x), strict=True):
            with torch.no_grad():
                found = torch.as_tensor(function(argument))
            assert function.numerics.error_budget == budget
            assert ("winograd_large" in function.show("plan")) == bool(budget)
            assert float((found - exact.relu()).square().mean().sqrt()) < 1e-5 * float(exact.square().mean().sqrt())
            said = "convolutions may have a relative error of 1e-05" in str(function.explain())
            assert said == bool(budget)


def test_torch_compile_has_it():
    from zenith.torch.dynamo.options import Options

    assert Options.of({"error_budget": 1e-5}).numerics.error_budget == 1e-5


@pytest.mark.parametrize("budget", [-1e-5, 1.0, float("nan")])
def test_what_is_no_relative_error_is_refused(budget):
    with pytest.raises(ArgumentError, match="is no relative error"):
        zenith.jit(layer, error_budget=budget)
