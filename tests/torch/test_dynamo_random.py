"""Random modules through ``torch.compile``: results, gradients and statistics stay as close to float64 as eager's.

Eager is also run with every weight and element of the argument a unit in its last place off: the change of its results
is the measure.
"""

import copy
import os
import warnings
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from torch._subclasses.fake_tensor import FakeTensorMode

import zenith
from tests.fuzz import programs
from tests.torch.random_modules import samples
from tests.transforms.envelope import nudged

FIRST = int(os.environ.get("ZENITH_FUZZ_FIRST", "0"))
RUNS = 3
SETTINGS = settings(suppress_health_check=list(HealthCheck), print_blob=False)


@dataclass
class Run:
    """A call's result, the gradients and statistics that follow, and the state of the generator."""

    result: torch.Tensor
    more: dict[str, torch.Tensor]
    state: torch.Tensor


def run(module, x, prepared=lambda module: module):
    """A call and its backward pass, for a cotangent that depends on the result's shape alone."""
    x = x.clone().requires_grad_()
    torch.manual_seed(1)
    result = prepared(module)(x)
    state = torch.get_rng_state()
    cotangent = torch.randn(result.shape, generator=torch.Generator().manual_seed(2))
    asked = {"argument": x} | dict(module.named_parameters())
    gradients = torch.autograd.grad(result, asked.values(), cotangent.to(result.dtype), allow_unused=True)
    more = dict(zip(asked, gradients, strict=True)) | dict(module.named_buffers())
    return Run(result.detach(), more, state)


def perturbed(sample, number):
    """Eager's run, a unit in the last place off in every weight and element."""
    module = copy.deepcopy(sample.module)
    x = torch.from_numpy(nudged(sample.argument.numpy(), number))
    with torch.no_grad():
        for at, parameter in enumerate(module.parameters()):
            parameter.copy_(torch.tensor(nudged(parameter.numpy(), (number, at))))
    return run(module, x)


def require_close(found, wanted, exact, near):
    """Structures are eager's, and every tensor at most eight times as far from float64's as eager's are."""
    assert torch.equal(found.state, wanted.state), "the generator's state"
    tensors = [{"result": one.result} | one.more for one in (found, wanted, exact, *near)]
    for name, expected in tensors[1].items():
        ours, _, wide, *others = (one[name] for one in tensors)
        assert (ours is None) == (expected is None), f"{name}: {ours}, not {expected}"
        if expected is None:
            continue
        assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype), name
        apart = max((other.double() - wide).abs().max().item() for other in (expected, *others))
        bound = 8 * apart + 2.0**-20 * wide.abs().max().item()
        assert (ours.double() - wide).abs().max().item() <= bound, f"{name}: {ours}, not {expected}"


def check(sample, kind):
    torch.compiler.reset()
    FakeTensorMode.cache_clear()  # PyTorch keeps what it found for every size, and each collection walks through it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = run(copy.deepcopy(sample.module), sample.argument)
        exact = run(copy.deepcopy(sample.module).double(), sample.argument.double())
        near = [perturbed(sample, number) for number in range(RUNS)]
        options = {"fallback": "error", "backend": kind}
        found = run(copy.deepcopy(sample.module), sample.argument, lambda module: torch.compile(
            module, backend="zenith", dynamic=sample.dynamic, options=options))  # fmt: skip
    require_close(found, wanted, exact, near)
    assert len(sample.module) == 0 or zenith.torch.graphs()


@pytest.mark.fuzz
@seed(FIRST)
@settings(SETTINGS, max_examples=programs(2, one_in=10))
@given(sample=samples())
def test_random_modules(sample):
    check(sample, "reference")


@pytest.mark.thorough
@pytest.mark.fuzz
@seed(FIRST)
@settings(SETTINGS, max_examples=programs(2, one_in=50))
@given(sample=samples(4))
def test_random_modules_in_kernels(sample):
    check(sample, None)
